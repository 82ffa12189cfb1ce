"""User handlers: when they run, for what, and what they may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.errors import Reentry, UsageError
from coordinator.domain.events import AgentBootReady
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from tests.orchestrator.conftest import Replica, eventually, settled
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore

Make = Callable[[str], Player]


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"handler_timeout": 0.5, "handler_tries": 3}


async def test_a_handler_sees_the_ended_turn_under_the_guard(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """While it runs no turn opens and nobody else takes the guard."""
    orchestrator = Orchestrator(coord)
    seen: list[SettledTurn] = []
    verdicts: list[Verdict] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        seen.append(turn)
        view = await session.snapshot()
        assert view.unsettled_turn == turn.turn
        verdicts.append((await coord.kernel.guards.acquire(turn.session_id, "someone")).verdict)

    await replica(orchestrator)
    session = player("s")
    await session.open()
    claim = await session.turn()
    await settled(coord, "s", 1)
    assert claim.ownership is not None
    assert [(turn.key, turn.turn, turn.reason, turn.worker_id) for turn in seen] == [
        (claim.ownership.claim_id, 1, "completed", "w1")
    ]
    assert verdicts == [Verdict.GUARD_BUSY]
    # The settlement is told of before the guard is given back.
    async with coord.session("s").guard(timeout=1):
        pass


async def test_handlers_run_for_completed_and_max_tokens_only(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)
    reasons: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        reasons.append(turn.reason)

    await replica(orchestrator)
    session = player("s")
    await session.open(SessionPolicy(after_error="continue"))
    for number, reason in enumerate(["error", "max_tokens", "blocked", "completed"], 1):
        await session.turn(reason=reason)
        await settled(coord, "s", number)
    assert reasons == ["max_tokens", "completed"]


async def test_a_message_sent_by_a_handler_becomes_the_next_turn(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        if turn.turn == 1:
            await session.send("go on", message_id=f"next-{turn.key}")

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)

    async def released() -> bool:
        return (await coord.kernel.snapshots.read("s")).guard_owner == ""

    await eventually(released)
    claim = await session.claim()
    assert [message.body for message in claim.messages] == ["go on"]


async def test_what_would_wait_for_the_handler_itself_is_refused(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Also in a task that the handler starts."""
    orchestrator = Orchestrator(coord)
    refused: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        for call in (session.wait_idle, session.close, session.guard().__aenter__):
            with pytest.raises(Reentry):
                await asyncio.create_task(call())
            refused.append(call.__name__)

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    assert refused == ["wait_idle", "close", "__aenter__"]


async def test_a_held_guard_is_waited_for(coord: Coordinator, player: Make, replica: Replica) -> None:
    faults = FaultyStore(coord.kernel.store)
    orchestrator = Orchestrator(coord)
    keys: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        keys.append(turn.key)

    session = player("s")
    await session.open()
    claim = await session.begin()
    guard = await coord.kernel.guards.acquire("s", "someone")
    await session.finish(claim)
    await replica(orchestrator)

    async def asked() -> bool:
        return faults.sent["guard_acquire"] >= 4

    await eventually(asked)
    assert keys == []
    await coord.kernel.guards.release("s", "someone", guard.number)
    await settled(coord, "s", 1)
    assert len(keys) == 1


async def test_an_event_handler_gets_its_event_and_settles_nothing(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)
    seen: asyncio.Queue[AgentBootReady] = asyncio.Queue()

    @orchestrator.on_event("agent.boot_ready")
    async def booted(event: AgentBootReady, session: Session) -> None:
        assert (await session.snapshot()).session_id == event.session_id
        await seen.put(event)

    await replica(orchestrator)
    session = player("s")
    await session.open()
    claim = await session.begin()
    async with asyncio.timeout(10):
        event = await seen.get()
    assert (event.session_id, event.execution_id, event.worker_id) == ("s", session.execution_id, "w1")
    assert await session.log("turn.settled") == []
    await session.finish(claim)
    await settled(coord, "s", 1)


async def test_a_session_without_settlement_has_its_handlers_run_too(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Without the guard, and at least once."""
    orchestrator = Orchestrator(coord)
    turns: asyncio.Queue[int] = asyncio.Queue()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        await turns.put(turn.turn)

    await replica(orchestrator)
    session = player("s")
    await session.open(SessionPolicy(settlement="none"))
    await session.turn()
    await session.turn()
    async with asyncio.timeout(5):
        assert [await turns.get(), await turns.get()] == [1, 2]
    assert await session.log("ready.stale") == []


def test_a_handler_has_to_be_async(coord: Coordinator) -> None:
    orchestrator = Orchestrator(coord)

    def plain(turn: SettledTurn, session: Session) -> None: ...

    with pytest.raises(UsageError, match="plain is not: use `async def`"):
        orchestrator.on_turn_complete(plain)  # type: ignore[type-var]
    with pytest.raises(UsageError, match="async def"):
        orchestrator.on_event("agent.lost")(plain)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "words"),
    [("agent.ready", "on_turn_complete"), ("step.entering", "on_step_entered"), ("agent.gone", "agent.lost")],
)
def test_only_events_that_there_are_can_be_handled(coord: Coordinator, name: str, words: str) -> None:
    async def handler(event: object, session: Session) -> None: ...

    with pytest.raises(UsageError, match=words):
        Orchestrator(coord).on_event(name)(handler)
