"""What sessions cost while they do little or nothing: scripts, commands, memory."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter, defaultdict
from typing import Any, Final

import msgspec

from coordinator.session import Session
from tests.bench.rig import PAUSE, Rig
from tests.bench.watch import watching

_TIMED: Final = frozenset({"renew", "sweep", "tidy"})
"""Scripts that run by the clock, whatever turns there are."""
_SAMPLE: Final = 40
_CALM: Final = 1.0


class Scripts(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn costs, by script."""

    calls: dict[str, float]
    server_us: dict[str, float]
    """Microseconds of the server for each call, medians."""


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """Commands a second by process: all that it sent, and those that are no heartbeat."""

    sent: dict[str, float]
    beyond: dict[str, float]
    by_command: dict[str, dict[str, float]]
    processed: float
    """As the server counts: also what scripts do, and this program's own few."""
    inside: float
    """The part of it that scripts did."""


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes of one idle session, medians of a sample."""

    record: float
    session: float
    """The record and every other key that bears its id."""
    by_key: dict[str, float]


async def scripts_a_turn(rig: Rig, session: Session, turns: int) -> Scripts:
    """Send turns one after another, and count."""
    redis: Any = rig.redis
    await redis.config_set("slowlog-max-len", 100 * turns)
    await redis.config_set("slowlog-log-slower-than", 0)
    async with watching(rig) as watch:
        for _ in range(turns):
            await session.send("go")
            await asyncio.sleep(PAUSE)
            await session.wait_idle(timeout=10)
    await redis.config_set("slowlog-log-slower-than", -1)
    names = {script.sha: name for name, script in rig.coord.kernel.store._scripts.items() if name not in _TIMED}
    calls: Counter[str] = Counter()
    for sent, number in watch.sent.items():
        if sent.what in names.values():
            calls[sent.what] += number
    times: defaultdict[str, list[int]] = defaultdict(list)
    for entry in await redis.slowlog_get(100 * turns):
        command = entry["command"].decode(errors="replace").split(" ", 2)
        if command[0] == "EVALSHA" and command[1] in names:
            times[names[command[1]]].append(entry["duration"])
    return Scripts(
        calls={name: number / turns for name, number in sorted(calls.items())},
        server_us={name: statistics.median(found) for name, found in sorted(times.items())},
    )


async def idle(rig: Rig, seconds: float) -> Idle:
    """Watch the processes while nothing happens, once what happened before has died away."""
    redis: Any = rig.redis
    await asyncio.sleep(_CALM)
    before = (await redis.info("stats"))["total_commands_processed"]
    async with watching(rig) as watch:
        await asyncio.sleep(seconds)
    after = (await redis.info("stats"))["total_commands_processed"]
    by_command = {user: watch.of(user) for user in ("worker", "replica")}

    def rate(number: float) -> float:
        return round(number / seconds, 2)

    return Idle(
        sent={user: rate(found.total()) for user, found in by_command.items()},
        beyond={
            user: rate(sum(number for what, number in found.items() if not _is_heartbeat(what)))
            for user, found in by_command.items()
        },
        by_command={
            user: {what: rate(number) for what, number in found.most_common()} for user, found in by_command.items()
        },
        processed=rate(after - before),
        inside=rate(watch.inside),
    )


def _is_heartbeat(what: str) -> bool:
    """Leases, and the worker's entry in the registry."""
    return what in {"renew", "TIME"} or what.endswith((":worker", ":workers"))


async def memory(rig: Rig, sessions: list[Session]) -> Memory:
    """Weigh a sample of the sessions."""
    found = [await _weigh(rig, session.id) for session in sessions[:: max(1, len(sessions) // _SAMPLE)]]
    names = sorted({name for weights in found for name in weights})
    return Memory(
        record=statistics.median(weights["record"] for weights in found),
        session=statistics.median(weights.total() for weights in found),
        by_key={name: statistics.median(weights[name] for weights in found) for name in names},
    )


async def _weigh(rig: Rig, session_id: str) -> Counter[str]:
    redis: Any = rig.redis
    record = rig.coord.kernel.store.keys.session(session_id)["session"]
    weights: Counter[str] = Counter()
    async for key in redis.scan_iter(f"{record}*", count=10_000):
        if key == record or key.startswith(f"{record}:"):
            part = key.removeprefix(record).strip(":").split(":")[0]
            weights[part or "record"] += await redis.memory_usage(key, samples=0) or 0
    return weights
