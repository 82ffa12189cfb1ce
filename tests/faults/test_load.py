"""The load test: processes of every kind, killed half-way, and a verdict that is read from the logs alone."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.domain.records import SessionPolicy
from coordinator.session import Session
from coordinator.store import connections
from tests.conftest import Spawn
from tests.faults.client import Ack
from tests.faults.conftest import Fleet
from tests.support.history import FORCED
from tests.support.oracle import Oracle
from tests.support.watch import BOUND

SESSIONS, PROMPTS, CLIENTS = 200, 5, 4
BURST = 25


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.5, "lease": 3.0, "self_stop": 10.0, "placement": 3.0}


async def readies(fleet: Fleet) -> AsyncIterator[int]:
    """How many turns have ended, whenever some more have: the test's own look at the event streams, in no group."""
    settings = fleet.coord.settings
    keys = fleet.coord.kernel.store.keys
    reader = connections.reader(settings.redis_url, settings)
    after, ended = dict.fromkeys(map(keys.events, range(keys.partitions)), "0"), 0
    try:
        while True:
            for stream, entries in await reader.xread(after, block=4000):  # type: ignore[arg-type]
                after[stream] = entries[-1][0]
                ended += sum(fields["type"] == "agent.ready" for _, fields in entries)
            yield ended
    finally:
        await reader.aclose()


async def until_ended(fleet: Fleet, turns: int) -> None:
    """Wait until so many turns have ended."""
    async with asyncio.timeout(2 * BOUND):
        async for ended in readies(fleet):
            if ended >= turns:
                return


def plans(sessions: list[Session], folder: Path) -> list[Path]:
    """All prompts, dealt to the clients at random, in a random order."""
    mix = random.Random(7)  # noqa: S311 - deals, keeps no secret
    deals: list[list[tuple[str, str, str]]] = [[] for _ in range(CLIENTS)]
    for session in sessions:
        for number in range(PROMPTS):
            mix.choice(deals).append((session.id, f"{session.id}-{number}", f"sleep 0.02\nsay {session.id}-{number}"))
    files = []
    for number, deal in enumerate(deals):
        mix.shuffle(deal)
        files.append(folder / f"plan{number}")
        files[-1].write_bytes(b"\n".join(map(msgspec.json.encode, deal)))
    return files


async def acks(spawn: Spawn, fleet: Fleet, plan: Path) -> list[Ack]:
    """Run one client to its end; gives what it was told."""
    env = {**fleet.env(), "COORDINATOR_TEST_PLAN": str(plan)}
    client = await spawn(program="tests.faults.client", ready="", env=env)
    assert await client.ended(2 * BOUND) == 0, client.output
    return [msgspec.json.decode(line, type=Ack) for line in client.lines]


def check_order(oracle: Oracle, told: list[Ack]) -> None:
    """Order of sends is order of sequences, where the senders' clocks can tell; and sequences are order of turns."""
    assert {ack.message_id: ack.sequence for ack in told} == {
        message.message_id: message.sequence for message in oracle.messages.values()
    }
    for first in told:
        for second in told:
            assert first.ended_ns >= second.began_ns or first.sequence < second.sequence
    last_turn = [message.turns[-1] for message in oracle.messages.values()]
    assert last_turn == sorted(set(last_turn))


@pytest.mark.slow
@pytest.mark.timeout(120)
async def test_no_message_is_lost_or_doubled_when_a_worker_and_a_replica_are_killed_half_way(
    fleet: Fleet, spawn: Spawn, tmp_path: Path
) -> None:
    """2 replicas, 2 workers, 200 sessions with 5 prompts each from 4 client processes; SIGKILL for one of each."""
    victim, _, replica, _ = await asyncio.gather(
        *(fleet.worker(name, agent="workers.agents.scripted:agent", max_sessions=250) for name in ("victim", "other")),
        *(fleet.replica() for _ in range(2)),
    )
    sessions = [fleet.coord.session(f"load-{number}") for number in range(SESSIONS)]
    await asyncio.gather(*(session.open(SessionPolicy()) for session in sessions))
    clients = [asyncio.create_task(acks(spawn, fleet, plan)) for plan in plans(sessions, tmp_path)]
    await until_ended(fleet, SESSIONS * PROMPTS // 2)
    await asyncio.gather(victim.kill(), replica.kill())
    told = [ack for client in clients for ack in await client]
    assert len(told) == SESSIONS * PROMPTS
    await asyncio.gather(*(session.wait_idle(timeout=2 * BOUND) for session in sessions))
    await check_sessions(fleet, sessions, told)
    await check_burst(fleet)


async def check_sessions(fleet: Fleet, sessions: list[Session], told: list[Ack]) -> None:
    """The oracle's verdict on every session."""
    found: Counter[str] = Counter()
    for session in sessions:
        mine = [ack for ack in told if ack.session_id == session.id]
        oracle = await fleet.judged(session, *(ack.message_id for ack in mine))
        check_order(oracle, mine)
        forced = [turn for turn in oracle.turns.values() if turn.reason in FORCED]
        assert {oracle.workers[turn.execution_id] for turn in forced} <= {"victim"}
        voids = [entry async for entry in session.history() if entry.fields.get("where") == "execution"]
        begun = sum(ack.placement == "started" for ack in mine)
        # Every running interval was begun by a send that found the session idle, or by the end of a dead worker's.
        assert begun <= len(oracle.intervals) <= begun + len(voids)
        found["turns"] += len(oracle.turns)
        found["lost"] += sum(not turn.returned for turn in forced)
        found["returned"] += sum(message.returned for message in oracle.messages.values())
        found["settled"] += sum(len(turn.settled) for turn in oracle.turns.values())
        found["voids"] += len(voids)
    assert found["turns"] == SESSIONS * PROMPTS + found["returned"]
    assert found["settled"] == found["turns"]
    # The victim had work in hand when it was killed: else this test has shown little.
    assert found["voids"] > 0
    stats = await fleet.coord.stats()
    assert (stats.running, stats.dead) == (0, 0)
    print(f"load: {dict(found)}")


async def check_burst(fleet: Fleet) -> None:
    """A burst is a turn each, in one running interval."""
    session = await fleet.opened()
    sent = [(await session.send(f"say {number}")).message_id for number in range(BURST)]
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert oracle.intervals == [list(range(1, BURST + 1))]
    assert [turn.messages for turn in oracle.turns.values()] == [[message_id] for message_id in sent]
