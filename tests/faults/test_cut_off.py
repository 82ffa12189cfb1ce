"""Processes whose lines to Redis are cut, held back, or refused, while Redis itself is well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.session import Session
from tests.faults.conftest import Fleet
from tests.support.proxy import FaultProxy
from tests.support.watch import BOUND, seen


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"lease": 2.0, "self_stop": 3.0}


async def test_connections_that_are_cut_again_and_again_cost_no_turn(fleet: Fleet, proxy: FaultProxy) -> None:
    """Worker and replica behind a proxy that resets every connection at every third turn: all of it is repeated."""
    await asyncio.gather(fleet.worker(url=proxy.url), fleet.replica(url=proxy.url))
    sessions = [await fleet.opened() for _ in range(3)]
    sent = {session.id: [(await session.send(f"say {n}")).message_id for n in range(9)] for session in sessions}
    for turn in ("1", "4", "7"):
        for session in sessions:
            await seen(session, "turn.started", turn=turn)
            proxy.cut()
    for session in sessions:
        await session.wait_idle(timeout=BOUND)
        oracle = await fleet.judged(session, *sent[session.id])
        assert [(turn.reason, turn.text) for turn in oracle.turns.values()] == [
            ("completed", str(number)) for number in range(9)
        ]


@pytest.mark.slow
async def test_a_worker_that_is_cut_off_ends_its_agents_itself_and_serves_again_when_the_line_is_back(
    fleet: Fleet, proxy: FaultProxy
) -> None:
    """Section 9, self_stop: on its own clock, without a word from Redis; its turn is lost, and runs elsewhere."""
    alone, _ = await asyncio.gather(fleet.worker("w1", url=proxy.url), fleet.replica())
    session = await fleet.opened(lost_turns="retry")
    sent = (await session.send("hold gate\nsay one")).message_id
    await seen(session, "agent.running")
    proxy.black_hole()
    await fleet.worker("w2")
    await alone.says(rf"agent {session.id} \S+ (ends cancelled|cancelled) self-stop")
    await seen(session, "turn.ended", reason="lost")
    await fleet.gate("gate")
    await session.wait_idle(timeout=BOUND)
    proxy.heal()
    await alone.says(rf"agent {session.id} \S+ stops")
    await _served_by(fleet, "w1")
    oracle = await fleet.judged(session, sent)
    assert [(turn.reason, oracle.workers[turn.execution_id]) for turn in oracle.turns.values()] == [
        ("lost", "w1"), ("completed", "w2"),
    ]  # fmt: skip
    assert (await session.snapshot()).suspects == ()


async def _served_by(fleet: Fleet, worker_id: str) -> Session:
    """Run turns of new sessions until one has run on that worker."""
    async with asyncio.timeout(BOUND):
        while True:
            session = await fleet.opened()
            await fleet.ran(session)
            if (await session.snapshot()).worker_id == worker_id:
                return session


async def test_an_end_whose_answer_is_lost_is_reported_again_and_counts_once(fleet: Fleet, proxy: FaultProxy) -> None:
    """The worker's finish runs, and its answer never comes: the repeat is recognised, and the next turn opens."""
    worker, _ = await asyncio.gather(fleet.worker(url=proxy.url), fleet.replica())
    session = await fleet.opened()
    # A script that the server does not know yet takes two calls, the first of which would stay unanswered.
    await fleet.ran(session)
    sent = [(await session.send(text)).message_id for text in ("sleep 0.3\nsay one", "say two")]
    await worker.says("accepted 2")
    proxy.black_hole(requests=False)
    await seen(session, "turn.ended", turn="2")
    proxy.cut()
    proxy.heal()
    await seen(session, "turn.ended", turn="3")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.attempt, turn.text) for turn in oracle.turns.values()] == [
        ("completed", 1, "hello"), ("completed", 1, "one"), ("completed", 1, "two"),
    ]  # fmt: skip
    assert (oracle.stale, worker.returncode) == (0, None)


async def test_a_worker_that_can_not_connect_for_a_while_goes_on_when_it_can(fleet: Fleet, proxy: FaultProxy) -> None:
    """Refused connections, shorter than a lease: nothing is lost, nothing spins, nothing ends."""
    worker, _ = await asyncio.gather(fleet.worker(url=proxy.url), fleet.replica())
    session = await fleet.opened()
    await session.send("hold gate\nsay one")
    await seen(session, "agent.running")
    proxy.refuse()
    await worker.says("answer|reach|no control hints")
    await fleet.gate("gate")
    proxy.heal()
    await session.wait_idle(timeout=BOUND)
    await fleet.ran(session)
    oracle = await fleet.judged(session)
    assert {turn.reason for turn in oracle.turns.values()} == {"completed"}
    assert len(worker.lines) < 100


async def test_every_client_killed_by_the_server_at_once_comes_back(fleet: Fleet) -> None:
    """CLIENT KILL of all of them: blocked readers, subscribers, and this test's own."""
    processes = await fleet.start("w1")
    session = await fleet.opened()
    await session.send("hold gate\nsay one")
    await seen(session, "agent.running")
    redis = fleet.coord.kernel.store.redis
    for kind in ("pubsub", "normal"):
        await redis.client_kill_filter(_type=kind, skipme=True)
    await fleet.gate("gate")
    await session.wait_idle(timeout=BOUND)
    await fleet.ran(session)
    await fleet.judged(session)
    assert [process.returncode for process in processes] == [None, None]
