"""User handlers that fail, hang, lose their guard, or are run again because nobody knows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.events import AgentBootReady
from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from tests.orchestrator.conftest import Replica, counters, eventually, pending, settled
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore

Make = Callable[[str], Player]


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"handler_timeout": 0.5, "handler_tries": 3}


async def test_a_failing_handler_is_tried_again_with_the_same_key(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)
    keys: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        keys.append(turn.key)
        if len(keys) < 3:
            raise RuntimeError("not yet")

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert [entry["message"] for entry in await session.log("error")] == [
        "test_a_failing_handler_is_tried_again_with_the_same_key.<locals>.after: RuntimeError: not yet"
    ] * 2
    assert await session.outcomes() == ["stayed"]


async def test_a_handler_that_always_fails_is_given_up_and_the_session_goes_on(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)
    failing = True

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        if failing:
            raise RuntimeError("never")

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    dead = await coord.kernel.store.redis.xrange(coord.kernel.store.keys.session("s")["dead"])
    assert [(fields["session_id"], fields["failures"]) for _, fields in dead] == [("s", "3")]
    assert "RuntimeError: never" in dead[0][1]["error"]
    assert await pending(coord.kernel, "s") == []
    failing = False
    await session.turn()
    await settled(coord, "s", 2)
    assert await session.outcomes() == ["failed", "stayed"]


class Untellable(Exception):
    """An error whose text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Panic(BaseException):
    """No Exception, as what Rust extensions raise."""


@pytest.mark.parametrize("of", ["turn", "event"])
@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ValueError("bad \udcff name"), "ValueError: bad \\udcff name"),
        (Untellable(), "Untellable (its text can't be had)"),
        (Panic("gone"), "Panic: gone"),
        (SystemExit(3), "HandlerError: a handler must not end the process."),
        (KeyboardInterrupt(), "HandlerError: a handler must not end the process."),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_a_handler_raises_is_counted_and_given_up(
    coord: Coordinator, player: Make, replica: Replica, error: BaseException, told: str, of: str
) -> None:
    """Also what can't be sent as it is, and what is no Exception: else it would be tried for ever."""
    orchestrator = Orchestrator(coord)
    runs = 0

    async def fails(_: object, session: Session) -> None:
        nonlocal runs
        if session.id == "s":
            runs += 1
            raise error

    if of == "turn":
        orchestrator.on_turn_complete(fails)
    else:
        orchestrator.on_event("agent.boot_ready")(fails)
    await replica(orchestrator)
    session, other = player("s"), player("other")
    for one in (session, other):
        await one.open()
        await one.turn()
    store = coord.kernel.store

    async def given_up() -> bool:
        return bool(await store.redis.exists(store.keys.session("s")["dead"]))

    await eventually(given_up)
    ((_, dead),) = await store.redis.xrange(store.keys.session("s")["dead"])
    assert dead["error"].endswith(f"fails: {told}")
    assert runs == coord.settings.handler_tries
    await settled(coord, "s", 1)
    await settled(coord, "other", 1)


@pytest.mark.parametrize("stubborn", [False, True])
async def test_a_handler_that_takes_too_long_counts_as_failed(
    coord: Coordinator, player: Make, replica: Replica, stubborn: bool
) -> None:
    """Even one that swallows its cancellation."""
    orchestrator = Orchestrator(coord)
    released = asyncio.Event()
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        while runs == 1 and not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                if not stubborn:
                    raise

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    released.set()
    assert runs == 2
    assert "took longer than 0.5 s" in (await session.log("error"))[0]["message"]


async def test_a_handler_can_not_end_the_replica(coord: Coordinator, player: Make, replica: Replica) -> None:
    orchestrator = Orchestrator(coord)
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise SystemExit(3)
        if runs == 2:
            raise asyncio.CancelledError

    task = (await replica(orchestrator)).task
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    assert runs == 3
    assert not task.done()


async def test_handlers_run_again_when_the_settlement_did_not_arrive(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """At least once: the replica can't know, so it runs them again, with the same key, and settles once."""
    coord.kernel.store._patience = 0.05
    faults = FaultyStore(coord.kernel.store)
    for occurrence in (1, 2, 3):
        faults.drop_call("settle", occurrence)
    orchestrator = Orchestrator(coord)
    keys: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        keys.append(turn.key)

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    assert len(set(keys)) == 1
    assert await session.log("error", "ready.stale") == []
    assert len(await session.log("turn.settled")) == 1


async def test_a_lost_guard_makes_the_handlers_run_again(coord: Coordinator, player: Make, replica: Replica) -> None:
    """What ran under the lost guard settles nothing, and is no failure."""
    orchestrator = Orchestrator(coord)
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            await coord.kernel.store.redis.delete(coord.kernel.store.keys.session("s")["guard"])

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    assert runs == 2
    assert await session.log("error") == []
    assert len(await session.log("turn.settled")) == 1


async def test_a_failing_event_handler_is_tried_again_and_then_given_up(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)
    runs = 0

    @orchestrator.on_event("agent.boot_ready")
    async def booted(event: AgentBootReady, session: Session) -> None:
        nonlocal runs
        runs += 1
        raise RuntimeError("never")

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)

    async def given_up() -> bool:
        return (await counters(coord.kernel, "s")).get("dead") == "1"

    await eventually(given_up)
    dead = await coord.kernel.store.redis.xrange(coord.kernel.store.keys.session("s")["dead"])
    assert runs == 3
    assert [fields["type"] for _, fields in dead] == ["agent.boot_ready"]
    assert await pending(coord.kernel, "s") == []
