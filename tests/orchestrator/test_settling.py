"""What a replica makes of the entries of a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from coordinator.client import Coordinator
from coordinator.domain.records import SessionPolicy
from coordinator.services import Kernel
from coordinator.store.store import Store
from tests.orchestrator.conftest import (
    Replica,
    counters,
    eventually,
    pending,
    sent,
    settled,
)
from tests.orchestrator.player import Player
from tests.support.faulty import EVERY, FaultyStore
from tests.support.keyspace import difference, dump

Make = Callable[[str], Player]


async def test_a_completed_turn_is_settled_once_and_its_entry_acknowledged(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica()
    session = player("s")
    await session.open()
    for number in (1, 2, 3):
        await session.turn(f"message {number}")
        await settled(coord, "s", number)
    assert await session.outcomes() == ["stayed"] * 3
    assert await session.log("ready.stale") == []
    assert await pending(coord.kernel, "s") == []
    found = await counters(coord.kernel, "s")
    assert (found["ready"], found["settled"]) == ("3", "3")


async def test_what_ended_before_any_replica_ran_is_settled_by_the_first_one(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """The group is made at the start of the stream, not at its end."""
    session = player("s")
    await session.open()
    await session.turn()
    await replica()
    await settled(coord, "s", 1)


@pytest.mark.parametrize("reason", ["error", "blocked"])
async def test_every_end_is_settled_whatever_its_reason(
    coord: Coordinator, player: Make, replica: Replica, reason: str
) -> None:
    await replica()
    session = player("s")
    await session.open()
    await session.turn(reason=reason)
    await settled(coord, "s", 1)
    assert await session.outcomes() == ["none"]


async def test_a_boot_ready_settles_nothing(coord: Coordinator, player: Make, replica: Replica) -> None:
    session = player("s")
    await session.open()
    await session.send("work")
    await session.start()
    claim = await session.claim()
    before = await dump(coord.kernel.store.redis)
    await replica()
    await eventually(lambda: _delivered(coord.kernel, "s"))
    await eventually(lambda: _nothing_pending(coord.kernel, "s"))
    events = coord.kernel.store.keys.session("s")["events"]
    changed = difference(before, await dump(coord.kernel.store.redis))
    assert {name for name in changed if ":session:" in name} == set()
    assert events in changed
    await session.finish(claim)
    await settled(coord, "s", 1)


async def test_duplicate_late_and_reordered_deliveries_change_only_counters_and_log(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Turn 3 is open while the readies of turns 1 and 2 come again, reordered; its own is delivered twice."""
    redis, keys = coord.kernel.store.redis, coord.kernel.store.keys.session("s")
    await replica()
    session = player("s")
    await session.open()
    for number in (1, 2):
        await session.turn()
        await settled(coord, "s", number)
    claim = await session.begin()
    record = await redis.hgetall(keys["session"])  # type: ignore[misc]
    entries = [fields for _, fields in await redis.xrange(keys["events"]) if fields["type"] == "agent.ready"]
    for fields in (entries[1], entries[0], entries[0]):
        await redis.xadd(keys["events"], fields)
    await eventually(lambda: _counted(coord.kernel, "s", "stale", 3))
    assert await redis.hgetall(keys["session"]) == record  # type: ignore[misc]
    assert [entry["why"] for entry in await session.log("ready.stale")] == ["settled", "generation", "generation"]
    assert (await counters(coord.kernel, "s"))["settled"] == "2"
    await session.finish(claim)
    await settled(coord, "s", 3)
    (_, again), *_ = await redis.xrevrange(keys["events"], count=1)
    await redis.xadd(keys["events"], again)
    await eventually(lambda: _counted(coord.kernel, "s", "stale", 4))
    assert (await session.log("ready.stale"))[-1]["why"] == "settled"
    assert len(await session.log("turn.settled")) == 3


async def test_a_ready_of_no_session_is_acknowledged_and_counted(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    session = player("s")
    await session.open()
    await session.turn()
    redis, keys = coord.kernel.store.redis, coord.kernel.store.keys.session("s")
    await redis.delete(keys["session"])
    await replica()
    await eventually(lambda: _counted(coord.kernel, "s", "stale.session", 1))
    assert await pending(coord.kernel, "s") == []
    assert not await redis.exists(keys["session"])


async def test_a_held_guard_delays_its_session_and_no_other(coord: Coordinator, player: Make, replica: Replica) -> None:
    """Both sessions are of one partition, so of one stream."""
    busy, other = player("s"), player(_neighbour(coord.kernel.store, "s"))
    await busy.open()
    await other.open()
    claim = await busy.begin()
    guard = await coord.kernel.guards.acquire("s", "someone")
    await busy.finish(claim)
    await replica()
    await other.turn()
    await settled(coord, other.session_id, 1)
    assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 1
    assert len(await pending(coord.kernel, "s")) == 1
    await coord.kernel.guards.release("s", "someone", guard.number)
    await settled(coord, "s", 1)
    assert await busy.log("ready.stale", "error") == []


async def test_unanswered_is_not_stale(coord: Coordinator, player: Make, replica: Replica) -> None:
    """While Redis answers no settlement, nothing is acknowledged and nothing is counted as stale."""
    coord.kernel.store._patience = 0.1
    faults = FaultyStore(coord.kernel.store)
    faults.drop_call("settle", EVERY)
    await replica()
    session = player("s")
    await session.open()
    await session.turn()
    await eventually(lambda: sent(faults, "settle", 6))
    assert len(await pending(coord.kernel, "s")) == 1
    faults.heal()
    await settled(coord, "s", 1)
    assert await session.log("ready.stale") == []


async def test_a_lost_reply_settles_once(coord: Coordinator, player: Make, replica: Replica) -> None:
    faults = FaultyStore(coord.kernel.store)
    faults.drop_reply("settle")
    await replica()
    session = player("s")
    await session.open()
    await session.turn()
    await eventually(lambda: sent(faults, "settle", 2))
    await session.turn()
    await settled(coord, "s", 2)
    assert len(await session.log("turn.settled")) == 2
    assert faults.unused == []


async def test_two_replicas_settle_each_turn_once(coord: Coordinator, player: Make, replica: Replica) -> None:
    await replica()
    await replica()
    sessions = [player(f"s{number}") for number in range(12)]

    async def work(session: Player) -> None:
        await session.open()
        for number in (1, 2, 3):
            await session.turn()
            await settled(coord, session.session_id, number)

    await asyncio.gather(*map(work, sessions))
    for session in sessions:
        assert len(await session.log("turn.settled")) == 3
        assert await session.log("ready.stale") == []


async def test_a_session_that_needs_no_settlement_still_has_its_readies_acknowledged(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica()
    session = player("s")
    await session.open(SessionPolicy(settlement="none"))
    await session.turn()
    await session.turn()
    await eventually(lambda: _delivered(coord.kernel, "s"))
    await eventually(lambda: _nothing_pending(coord.kernel, "s"))
    assert await session.outcomes() == ["none", "none"]


async def _nothing_pending(kernel: Kernel, session_id: str) -> bool:
    return not await pending(kernel, session_id)


async def _delivered(kernel: Kernel, session_id: str) -> bool:
    events = kernel.store.keys.session(session_id)["events"]
    groups, newest = await kernel.store.redis.xinfo_groups(events), await kernel.store.redis.xrevrange(events, count=1)
    return bool(groups) and groups[0]["last-delivered-id"] == newest[0][0]


async def _counted(kernel: Kernel, session_id: str, what: str, number: int) -> bool:
    return int((await counters(kernel, session_id)).get(what, "0")) >= number


def _neighbour(store: Store, session_id: str) -> str:
    partition = store.keys.partition_of(session_id)
    return next(name for name in (f"n{n}" for n in range(1000)) if store.keys.partition_of(name) == partition)
