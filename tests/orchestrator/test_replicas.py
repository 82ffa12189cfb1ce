"""Several replicas: what one leaves behind, another takes over, and nothing is handled by two."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.errors import UsageError
from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from coordinator.store.keys import GROUP
from coordinator.streams.trimming import Trimming
from tests.orchestrator.conftest import Replica, all_handled, eventually, pending, settled
from tests.orchestrator.player import Player

Make = Callable[[str], Player]


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"settlement": 1.0, "handler_timeout": 0.8, "drain": 2.0}


async def test_a_dead_replicas_entries_are_taken_over(coord: Coordinator, player: Make, replica: Replica) -> None:
    """Delivered to a consumer that never comes back."""
    session = player("s")
    await session.open()
    await session.turn()
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.session("s")["events"]
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    await redis.xreadgroup(GROUP, "dead:1:x", {events: ">"})
    await replica()
    assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 1
    await settled(coord, "s", 1)
    await eventually(lambda: all_handled(coord, "s"))
    assert len(await session.log("turn.settled")) == 1


async def test_an_entry_in_hand_is_taken_by_no_other_replica(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Two handlers, together longer than the time after which an entry counts as abandoned."""
    runs: list[str] = []
    ended = asyncio.Event()

    def make(name: str) -> Orchestrator:
        orchestrator = Orchestrator(coord)

        async def slow(turn: SettledTurn, session: Session) -> None:
            runs.append(name)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ended.wait(), 0.7)

        orchestrator.on_turn_complete(slow)
        orchestrator.on_turn_complete(slow)
        return orchestrator

    await replica(make("one"))
    await replica(make("two"))
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    assert len(runs) == 2
    assert await session.log("ready.stale") == []


async def test_sigterm_ends_what_is_in_hand_and_gives_the_rest_back(coord: Coordinator, player: Make) -> None:
    """The handled turn is settled; the one behind a held guard stays pending, free for others at once."""
    orchestrator = Orchestrator(coord)
    begun, go_on = asyncio.Event(), asyncio.Event()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        begun.set()
        await go_on.wait()

    handled, held = player("handled"), player("held")
    for session in (handled, held):
        await session.open()
    claim = await held.begin()
    await coord.kernel.guards.acquire("held", "someone")
    await held.finish(claim)
    await handled.turn()
    reading = asyncio.Event()
    task = asyncio.create_task(orchestrator.run(reading.set))
    async with asyncio.timeout(10):
        await begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        go_on.set()
        await task
    assert (await coord.kernel.snapshots.read("handled")).unsettled_turn == 0
    rows = await pending(coord.kernel, "held")
    assert [row["consumer"] for row in rows] == [orchestrator.consumer]
    assert rows[0]["time_since_delivered"] >= 1000


async def test_sigterm_does_not_wait_for_ever(coord: Coordinator, player: Make) -> None:
    """After `drain` seconds the handler is stopped, and nothing is settled or counted."""
    orchestrator = Orchestrator(coord)
    orchestrator._handlers._timeout = 60
    begun = asyncio.Event()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        begun.set()
        await asyncio.Event().wait()

    session = player("s")
    await session.open()
    await session.turn()
    task = asyncio.create_task(orchestrator.run())
    async with asyncio.timeout(10):
        await begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await task
    assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 1
    assert await session.log("error") == []
    assert len(await pending(coord.kernel, "s")) == 1
    assert not await coord.kernel.store.redis.exists(coord.kernel.store.keys.session("s")["guard"])


async def test_an_orchestrator_runs_once_at_a_time(coord: Coordinator, replica: Replica) -> None:
    orchestrator = Orchestrator(coord)
    await replica(orchestrator)
    with pytest.raises(UsageError, match="running already"):
        await orchestrator.run()


async def test_trimming_keeps_the_newest_and_what_any_group_has_not_acknowledged(coord: Coordinator) -> None:
    redis, keys = coord.kernel.store.redis, coord.kernel.store.keys
    events = keys.events(0)
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    await redis.xgroup_create(events, "others", "0")
    ids = [await redis.xadd(events, {"n": number}) for number in range(1000)]
    trimming = Trimming(coord.kernel.store, kept=300)
    await redis.xreadgroup(GROUP, "c", {events: ">"}, count=900)
    await redis.xack(events, GROUP, *ids[:250], *ids[251:900])
    assert await trimming.tidy(0) == (0, 0)
    await redis.xreadgroup("others", "c", {events: ">"})
    await redis.xack(events, "others", *ids)
    _, removed = await trimming.tidy(0)
    assert 0 < removed <= 250
    assert (await redis.xrange(events, count=1))[0][0] <= ids[250]
    await redis.xack(events, GROUP, ids[250])
    await trimming.tidy(0)
    assert 300 <= await redis.xlen(events) < 400
    assert (await redis.xrange(events, count=1))[0][0] <= ids[700]


async def test_a_long_gone_consumer_leaves_the_group_only_without_pending_entries(coord: Coordinator) -> None:
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.events(0)
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    entry_id = await redis.xadd(events, {"n": 1})
    await redis.xreadgroup(GROUP, "busy", {events: ">"})
    await redis.xgroup_createconsumer(events, GROUP, "idle")
    assert await Trimming(coord.kernel.store).tidy(0) == (0, 0)
    trimming = Trimming(coord.kernel.store, gone=0)
    assert await trimming.tidy(0) == (1, 0)
    assert [row["name"] for row in await redis.xinfo_consumers(events, GROUP)] == ["busy"]
    await redis.xack(events, GROUP, entry_id)
    assert await trimming.tidy(0) == (1, 0)


async def test_a_crashed_loop_is_begun_again(
    coord: Coordinator, player: Make, monkeypatch: pytest.MonkeyPatch, replica: Replica
) -> None:
    from coordinator.streams.takeover import Takeover

    crashes = 0
    once = Takeover.once

    async def crashing(self: Takeover) -> None:
        nonlocal crashes
        crashes += 1
        if crashes < 3:
            raise RuntimeError("boom")
        await once(self)

    monkeypatch.setattr(Takeover, "once", crashing)
    task = (await replica()).task

    async def recovered() -> bool:
        return crashes >= 3

    await eventually(recovered)
    assert not task.done()
