"""`coordinator doctor`: what is wrong with Redis and with what is in it, and what to do about each."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec

from coordinator import overview
from coordinator.cli.connecting import settings_of
from coordinator.cli.inspection import last_sweep
from coordinator.services.deadlines import KINDS, OVERDUE_MS
from coordinator.store import connections
from coordinator.store.checks import Check, run_checks
from coordinator.store.keys import GROUP
from coordinator.store.store import Store
from coordinator.streams.reading import Command, read_many

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.overview import SessionRow

_MOST_NAMED: Final = 5


async def doctor(options: Namespace, out: Output) -> int:
    """Run all checks and print them; 1 when one fails."""
    settings = settings_of(options)
    async with AsyncExitStack() as stack, out.progress("examining"):
        address = await stack.enter_async_context(connections.locate(settings))
        settings = msgspec.structs.replace(settings, redis_url=address.redis_url, queue_url=address.queue_url)
        client = connections.coordination(settings.redis_url, settings)
        stack.push_async_callback(client.aclose)
        checks = await run_checks(client, settings)
        if all(check.ok for check in checks if check.severity == "refuse"):
            checks += await _examine(Store(client, settings))
    failed = [check for check in checks if not check.ok]
    if out.json:
        for check in checks:
            out.record(check)
    else:
        rows = [("ok" if check.ok else check.severity.upper(), check.name, check.found) for check in checks]
        out.table(("result", "check", "found"), rows, empty="nothing to check")
        for check in failed:
            out.line(f"\n{check.name}: {check.advice}")
        if not failed:
            out.line("\nall is well")
    return 1 if failed else 0


async def _examine(store: Store) -> list[Check]:
    stats = await overview.stats(store)
    rows = await overview.sessions(store)
    running = [row.session_id for row in rows if row.status == "running"]
    unended = [row.session_id for row in rows if row.status == "running" or row.unsettled_turn or row.entering]
    return [
        _workers(stats, running),
        _orchestrators(stats, unended, store.settings.sweep),
        *await _streams(store),
        await _overdue(store),
        await _stuck(store, rows),
        await _asleep(store, rows),
        _dead(stats),
    ]


def _workers(stats: overview.Stats, running: list[str]) -> Check:
    found = f"{stats.workers} at work, hosting {stats.hosted} of {stats.capacity}; {len(running)} sessions running"
    advice = "Sessions wait and no worker lives: start one with `coordinator worker --agent module:name`."
    return Check("workers", bool(stats.workers) or not running, "warn", found, advice)


def _orchestrators(stats: overview.Stats, unended: list[str], sweep: float) -> Check:
    alive = stats.unswept_ms is not None and stats.unswept_ms < OVERDUE_MS + sweep * 1000
    found = f"{last_sweep(stats)}; {len(unended)} sessions under way"
    advice = "Nothing is settled while no orchestrator lives: start one with `coordinator orchestrator`."
    return Check("orchestrators", alive or not unended, "warn", found, advice)


async def _streams(store: Store) -> list[Check]:
    """Every stream with entries has the group, and whoever took entries is alive to acknowledge them."""
    streams = [store.keys.events(partition) for partition in range(store.settings.partitions)]
    commands: list[Command] = []
    for stream in streams:
        commands += [("XLEN", stream), ("XINFO GROUPS", stream), ("XINFO CONSUMERS", stream, GROUP)]
    answers = await read_many(store, commands)
    bare, gone, unread = 0, set(), 0
    late_ms = 2 * store.settings.settlement * 1000
    for length, groups, consumers in zip(answers[0::3], answers[1::3], answers[2::3], strict=True):
        group = next((one for one in _rows(groups) if one["name"] == GROUP), None)
        bare += bool(length) and group is None
        unread += int((group or {}).get("lag") or 0)
        gone |= {one["name"] for one in _rows(consumers) if one["pending"] and one["idle"] > late_ms}
    start = "Start one with `coordinator orchestrator`; any number may run."
    return [
        Check("groups", not bare, "warn", f"missing on {bare} streams", f"No orchestrator reads them. {start}"),
        Check("events", not unread, "warn", f"{unread} not read yet", f"If it stays, no orchestrator runs. {start}"),
        Check(
            "consumers",
            not gone,
            "warn",
            f"{len(gone)} hold entries and are silent{_named(gone)}",
            f"They are dead, and no replica takes over from them. {start}",
        ),
    ]


async def _overdue(store: Store) -> Check:
    overdue = await overview.overdue(store)
    advice = "Nobody sweeps: an orchestrator does that. Start one with `coordinator orchestrator`."
    found = f"{len(overdue)} overdue by over {OVERDUE_MS // 1000} s{_named(set(overdue))}"
    return Check("deadlines", not overdue, "warn", found, advice)


async def _stuck(store: Store, rows: list[SessionRow]) -> Check:
    """What runs, is being stopped, reset, entered or asked always has a deadline that ends or moves it."""
    busy = [row for row in rows if row.phase != "idle" or any(_awaited(row).values())]
    commands: list[Command] = [
        ("ZMSCORE", store.keys.session(row.session_id)["deadlines"], *(f"{kind}:{row.session_id}" for kind in KINDS))
        for row in busy
    ]
    stuck = set()
    for row, scores in zip(busy, await read_many(store, commands) if commands else [], strict=True):
        due = dict(zip(KINDS, scores, strict=True))
        if not any(scores) or any(waits and not due[kind] for kind, waits in _awaited(row).items()):
            stuck.add(row.session_id)
    advice = "Look at each with `coordinator explain SESSION`; this is not meant to happen and worth a report."
    return Check("sessions", not stuck, "warn", f"{len(stuck)} are busy without a deadline{_named(stuck)}", advice)


def _awaited(row: SessionRow) -> dict[str, bool]:
    """What is under way in a session, by the kind of its deadline."""
    return {
        "cancel": row.cancel_pending,
        "reset": row.reset_pending,
        "entry": bool(row.entering),
        "question": bool(row.question),
    }


async def _asleep(store: Store, rows: list[SessionRow]) -> Check:
    """A message that wakes does not wait on an idle session."""
    quiet = [row for row in rows if row.phase == "idle" and row.lifecycle == "open" and row.pending]
    idle = [row.session_id for row in quiet if not (row.entering or row.reset_pending)]
    commands: list[Command] = []
    for name in idle:
        keys = store.keys.session(name)
        commands += [
            ("HMGET", keys["session"], "park_mark", "phase", "unsettled", "entering", "reset_id"),
            ("ZREVRANGE", keys["awake"], 0, 0, "WITHSCORES"),
        ]
    answers = await read_many(store, commands) if commands else []
    asleep = set()
    for name, (mark, phase, *held_up), newest in zip(idle, answers[0::2], answers[1::2], strict=True):
        if newest and phase == "idle" and not any(held_up) and float(newest[1]) > float(mark or 0):
            asleep.add(name)
    advice = "A message to each, `coordinator send SESSION TEXT`, starts it; this is worth a report with its log."
    return Check("queues", not asleep, "warn", f"{len(asleep)} are idle with awake messages{_named(asleep)}", advice)


def _dead(stats: overview.Stats) -> Check:
    looks = "; ".join(f"redis-cli XRANGE '{stream}' - +" for stream in stats.dead_streams)
    advice = f"Each has its error: {looks}. Mend the handler, then delete the stream."
    return Check("dead letters", not stats.dead, "warn", f"{stats.dead} entries were given up", advice)


def _rows(answer: Any) -> list[dict[str, Any]]:
    return answer if isinstance(answer, list) else []


def _named(names: set[str]) -> str:
    shown = ", ".join(sorted(names)[:_MOST_NAMED])
    return f": {shown}{' …' if len(names) > _MOST_NAMED else ''}" if names else ""
