"""Many sessions walk a workflow while replicas die and events come twice and in disorder: each step once, in order."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.session import Session
from coordinator.store import connections
from tests.faults.conftest import Fleet
from tests.support.processes import Process
from tests.support.watch import BOUND, seen

SESSIONS: Final = 100
STEPS: Final = ("plan", "build", "test", "review", "ship")
KILL_EVERY: Final = 1.5


def flow() -> str:
    """Five steps; every second one begins in a fresh context."""
    lines = ["[workflow.walk]", 'start = "plan"']
    for number, name in enumerate(STEPS):
        last = number == len(STEPS) - 1
        lines += [
            "[[workflow.walk.step]]",
            f'name = "{name}"',
            f'prompt = "sleep 1\\nsay {name}"',
            "auto_start = true",
            f"reset_agent_context = {'true' if number % 2 else 'false'}",
            "terminal = true" if last else 'on_turn_complete = "next"',
        ]
    return "\n".join(lines)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {
        "heartbeat": 0.5,
        "lease": 3.0,
        "self_stop": 10.0,
        "placement": 3.0,
        "settlement": 3.0,
        "entry_timeout": 31.0,
    }


async def mix_up(fleet: Fleet) -> None:
    """Add every ready and every announcement again, later and in disorder, until cancelled."""
    settings, keys = fleet.coord.settings, fleet.coord.kernel.store.keys
    chance = random.Random(11)  # noqa: S311 - disorder, no secret
    redis = fleet.coord.kernel.store.redis
    reader = connections.reader(settings.redis_url, settings)
    after = dict.fromkeys(map(keys.events, range(keys.partitions)), "0")
    held: list[tuple[str, dict[str, str]]] = []
    seen_before: set[tuple[str, ...]] = set()
    try:
        while True:
            for stream, entries in await reader.xread(after, block=500):  # type: ignore[arg-type]
                after[stream] = entries[-1][0]
                for _, fields in entries:
                    name = (
                        fields["type"],
                        fields["session_id"],
                        fields.get("claim_id", ""),
                        fields.get("entry_id", ""),
                    )
                    if fields["type"] in {"agent.ready", "step.entering"} and name not in seen_before:
                        seen_before.add(name)
                        held.append((stream, fields))
            chance.shuffle(held)
            for stream, fields in held[len(held) // 2 :]:
                await redis.xadd(stream, fields)  # type: ignore[arg-type]
            del held[len(held) // 2 :]
    finally:
        await reader.aclose()


async def kill_replicas(fleet: Fleet, replicas: list[Process], dead: list[Process], flow_file: str) -> None:
    """One dies every few seconds, and another takes its place, until cancelled."""
    while True:
        await asyncio.sleep(KILL_EVERY)
        dead.append(replicas.pop(0))
        await dead[-1].kill()
        replicas.append(await fleet.replica(workflow=flow_file))


@pytest.mark.slow
@pytest.mark.timeout(240)
async def test_each_step_is_entered_once_in_order_whatever_dies(fleet: Fleet, tmp_path: Path) -> None:
    """100 sessions, 5 steps, 3 replicas of which one is killed every few seconds, events doubled and reordered."""
    file = tmp_path / "flow.toml"
    file.write_text(flow())
    replicas = [*await asyncio.gather(*(fleet.replica(workflow=str(file)) for _ in range(3)))]
    await asyncio.gather(
        *(fleet.worker(name, agent="workers.agents.scripted:agent", max_sessions=120) for name in ("w1", "w2"))
    )
    dead: list[Process] = []
    sessions = [fleet.coord.session(f"walk-{number}") for number in range(SESSIONS)]
    trouble = [asyncio.create_task(mix_up(fleet)), asyncio.create_task(kill_replicas(fleet, replicas, dead, str(file)))]
    try:
        await asyncio.gather(*(session.open(workflow="walk") for session in sessions))
        await asyncio.gather(*(seen(session, "output", text="ship", timeout=4 * BOUND) for session in sessions))
        await asyncio.gather(*(session.wait_idle(timeout=2 * BOUND) for session in sessions))
    finally:
        for task in trouble:
            task.cancel()
        await asyncio.gather(*trouble, return_exceptions=True)
    for session in sessions:
        await check(fleet, session)
    stats = await fleet.coord.stats()
    assert (stats.running, stats.dead) == (0, 0)
    counters = [await fleet.coord.kernel.store.redis.hgetall(keys["counters"]) for keys in partitions(fleet)]  # type: ignore[misc]
    stale = sum(int(counted.get("stale", 0)) for counted in counters)
    # Each ready came once more: the copy was stale, or it was the first and the real one was.
    assert stale >= SESSIONS * (len(STEPS) - 1)
    assert len(dead) >= 2
    print(f"workflow load: {len(dead)} replicas killed, {stale} stale readies")


def partitions(fleet: Fleet) -> list[dict[str, str]]:
    """The keys of all partitions."""
    keys = fleet.coord.kernel.store.keys
    return [keys.partition(number) for number in range(keys.partitions)]


async def check(fleet: Fleet, session: Session) -> None:
    """What the log proves: every step once and in order, every turn settled once, every reset committed."""
    await fleet.judged(session)
    log = [entry async for entry in session.history()]
    assert [entry.fields["step"] for entry in log if entry.type == "step.entered"] == list(STEPS)
    settled = [(entry.fields["turn"], entry.fields["outcome"]) for entry in log if entry.type == "turn.settled"]
    assert settled == [(str(turn), "advanced" if turn < len(STEPS) else "stayed") for turn in range(1, len(STEPS) + 1)]
    kinds = Counter(entry.type for entry in log)
    assert (kinds["reset.started"], kinds["reset.committed"], kinds["reset.failed"]) == (2, 2, 0)
    assert [entry.fields["text"] for entry in log if entry.type == "output"] == list(STEPS)
