"""Redis killed, paused, emptied, and robbed of its scripts and streams, while processes work on it."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from coordinator.domain.errors import SessionUnknown
from coordinator.session import Session
from coordinator.store.embedded import EmbeddedServer
from coordinator.streams.reading import read
from tests.faults.conftest import Fleet
from tests.support.oracle import Oracle
from tests.support.servers import KINDS
from tests.support.watch import BOUND, eventually, seen, told

both = pytest.mark.parametrize("server_kind", KINDS, indirect=True)
"""Servers differ in what they tell a reader whose stream is gone, and in how they start again."""
PAUSE = 3.6
"""Longer than a lease, and than the time for which a partition may go unswept before that counts as an outage."""


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"self_stop": 12.0}


@both
async def test_a_killed_and_restarted_redis_loses_nothing_and_ends_no_process(
    fleet: Fleet, server: EmbeddedServer
) -> None:
    """With its append-only file it is there again on the same port; a running turn and a queued one go on."""
    processes = await fleet.start("w1")
    session, idle = await fleet.opened(), await fleet.opened()
    await fleet.ran(idle)
    sent = [(await session.send(text)).message_id for text in ("hold gate\nsay one", "say two")]
    await seen(session, "agent.running")
    await asyncio.to_thread(server.kill)
    # What is sent while there is no Redis is sent when there is one, once, in whatever order.
    meanwhile = [asyncio.create_task(session.send("say more")) for _ in range(3)]
    await asyncio.to_thread(server.start)
    sent += [(await task).message_id for task in meanwhile]
    await fleet.gate("gate")
    await seen(session, "turn.ended", turn="5")
    await session.wait_idle(timeout=BOUND)
    await fleet.ran(idle)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.text) for turn in oracle.turns.values()] == [
        ("completed", text) for text in ("one", "two", "more", "more", "more")
    ]
    assert [process.returncode for process in processes] == [None, None]


@pytest.mark.slow
async def test_a_redis_that_stands_still_for_longer_than_a_lease_declares_nobody_dead(
    fleet: Fleet, server: EmbeddedServer
) -> None:
    """Section 4, expire: after an outage the first sweep gives every due deadline one more lease."""
    processes = await fleet.start("w1", replicas=2)
    session, idle = await fleet.opened(), await fleet.opened()
    await fleet.ran(idle)
    await session.send("hold gate\nsay one")
    await seen(session, "agent.running")
    # The worker stands still for a little longer, so that no renewal of its own saves it from the first sweep.
    processes[0].pause()
    os.kill(server.pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(PAUSE)
    finally:
        os.kill(server.pid, signal.SIGCONT)
    await swept(fleet, session)
    processes[0].resume()
    await fleet.gate("gate")
    await session.wait_idle(timeout=BOUND)
    await fleet.ran(idle)
    for one in (session, idle):
        oracle = await fleet.judged(one)
        assert {turn.reason for turn in oracle.turns.values()} == {"completed"}
        assert len(oracle.workers) == 1
        assert "error" not in await told(one)
    assert [process.returncode for process in processes] == [None, None, None]


async def swept(fleet: Fleet, session: Session) -> None:
    """Wait until the session's partition was swept once more, and what was due then was acted on."""
    store = fleet.coord.kernel.store
    before = await read(store, "TIME")
    now_ms = int(before[0]) * 1000 + int(before[1]) // 1000
    counters = store.keys.session(session.id)["counters"]

    async def look() -> bool:
        return int((await store.fields(counters, "swept_ms"))[0] or 0) > now_ms

    await eventually(look)


async def test_scripts_that_the_server_forgot_are_loaded_again(fleet: Fleet) -> None:
    """SCRIPT FLUSH in the middle of a turn."""
    await fleet.start("w1")
    session = await fleet.opened()
    await session.send("hold gate\nsay one")
    await seen(session, "agent.running")
    await fleet.coord.kernel.store.redis.script_flush()
    await fleet.gate("gate")
    await session.wait_idle(timeout=BOUND)
    await fleet.ran(session)
    await fleet.judged(session)


@both
async def test_an_event_stream_that_is_deleted_comes_back_with_its_group(fleet: Fleet) -> None:
    """Section 7, NOGROUP: the replica that was reading it makes both again, and later readies are settled."""
    _, replica = await fleet.start("w1")
    session = await fleet.opened()
    await fleet.ran(session)
    events = fleet.coord.kernel.store.keys.session(session.id)["events"]
    await fleet.coord.kernel.store.redis.delete(events)
    for _ in range(2):
        await session.send("say again")
        await session.wait_idle(timeout=BOUND)
    # The first ready went with its stream, so the log alone is judged.
    oracle = Oracle().feed_all([entry async for entry in session.history()])
    assert [turn.settled for turn in oracle.turns.values()] == [["stayed"]] * 3
    assert oracle.violations == []
    assert replica.returncode is None


async def test_a_ready_that_was_lost_with_its_stream_is_written_again(fleet: Fleet) -> None:
    """Section 7: `expire(settlement)` writes it from the record; it is settled once."""
    _, replica = await fleet.start("w1")
    session = await fleet.opened()
    await replica.kill()
    await session.send("say one")
    await seen(session, "turn.ended")
    keys, redis = fleet.coord.kernel.store.keys.session(session.id), fleet.coord.kernel.store.redis
    await redis.delete(keys["events"])
    await fleet.replica()
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session)
    assert [turn.settled for turn in oracle.turns.values()] == [["stayed"]]
    assert (await fleet.coord.stats()).counters["ready_again"] == 1


@both
async def test_nothing_is_minted_from_an_emptied_redis_and_new_sessions_work(fleet: Fleet) -> None:
    """FLUSHALL in the middle of a turn: sessions are gone and stay gone, whatever their workers still report."""
    worker, replica = await fleet.start("w1")
    redis = fleet.coord.kernel.store.redis
    session, idle = await fleet.opened(), await fleet.opened()
    await fleet.ran(idle)
    await session.send("hold gate")
    await worker.says(rf"agent {session.id} \S+ prompted")
    await redis.flushall()
    await fleet.gate("gate")
    # The worker has heard of it when it has ended both agents.
    for one in (session, idle):
        await worker.says(rf"agent {one.id} \S+ stops")
        with pytest.raises(SessionUnknown):
            await one.send("say more")
    fresh = await fleet.opened()
    await fleet.ran(fresh)
    await fleet.judged(fresh)
    kept = {name async for name in redis.scan_iter(match="*:session:*")}
    assert {name for name in kept if f":session:{fresh.id}" not in name} == set()
    assert (worker.returncode, replica.returncode) == (None, None)
