"""Replicas killed, paused and gone: what they had in hand is settled once, by another."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from coordinator.session import Session
from coordinator.store.keys import GROUP
from tests.faults.conftest import Fleet
from tests.support.watch import BOUND, eventually, seen


async def in_hand(fleet: Fleet, session: Session) -> str:
    """Wait until a replica has the session's newest ready and can't settle it; gives the replica's name."""
    store = fleet.coord.kernel.store
    keys = store.keys.session(session.id)
    await seen(session, "turn.ended")
    entry = (await store.fields(keys["session"], "last_entry"))[0]

    async def look() -> str | None:
        rows = await store.redis.xpending_range(keys["events"], GROUP, str(entry), str(entry), 1)
        return str(rows[0]["consumer"]) if rows else None

    return await eventually(look)


async def test_what_a_killed_replica_had_in_hand_is_taken_over(fleet: Fleet) -> None:
    """Section 7: entries pending for it are taken over after their idle time; each turn is settled once."""
    _, killed = await fleet.start("w1")
    sessions = [await fleet.opened() for _ in range(3)]
    for session in sessions:
        await session.send("hold gate")
        await seen(session, "agent.running")
    async with AsyncExitStack() as guards:
        for session in sessions:
            await guards.enter_async_context(session.guard(timeout=5))
        await fleet.gate("gate")
        names = [await in_hand(fleet, session) for session in sessions]
        await killed.kill()
    await fleet.replica()
    for session in sessions:
        await session.wait_idle(timeout=BOUND)
        oracle = await fleet.judged(session)
        assert [turn.settled for turn in oracle.turns.values()] == [["stayed"]]
        assert oracle.stale == 0
    assert len(set(names)) == 1


@pytest.mark.slow
async def test_a_replica_that_wakes_up_after_its_entries_were_taken_over_changes_nothing(fleet: Fleet) -> None:
    """Kandev A6, A8: what it was about to settle was settled by another; its try is stale, and only counted."""
    _, sleeper = await fleet.start("w1")
    session = await fleet.opened()
    await session.send("hold gate")
    await seen(session, "agent.running")
    async with session.guard(timeout=5):
        await fleet.gate("gate")
        await in_hand(fleet, session)
        sleeper.pause()
    await fleet.replica()
    await session.wait_idle(timeout=BOUND)
    await fleet.ran(session, "say two")
    sleeper.resume()
    await seen(session, "ready.stale", generation="1")
    await fleet.ran(session, "say three")
    oracle = await fleet.judged(session)
    assert [turn.settled for turn in oracle.turns.values()] == [["stayed"]] * 3
    assert oracle.stale >= 1
    assert sleeper.returncode is None


async def test_turns_that_end_while_no_replica_is_there_are_settled_by_the_next_ones(fleet: Fleet) -> None:
    """Both are killed in the middle of work; two new ones find everything on the streams."""
    _, *replicas = await fleet.start("w1", replicas=2)
    sessions = [await fleet.opened() for _ in range(4)]
    sent = {session.id: [(await session.send(f"say {n}")).message_id for n in range(4)] for session in sessions[:2]}
    for replica in replicas:
        await replica.kill()
    sent |= {session.id: [(await session.send(f"say {n}")).message_id for n in range(4)] for session in sessions[2:]}
    for session in sessions:
        await seen(session, "turn.ended", turn="1")
    assert (await sessions[3].snapshot()).waiting_for == "settlement"
    await fleet.start(replicas=2)
    for session in sessions:
        await session.wait_idle(timeout=BOUND)
        oracle = await fleet.judged(session, *sent[session.id])
        assert [turn.text for turn in oracle.turns.values()] == ["0", "1", "2", "3"]
        assert oracle.intervals == [[1, 2, 3, 4]]
