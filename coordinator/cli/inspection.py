"""The commands that only look: show, ls, tail, workers, stats."""

from __future__ import annotations

from collections import deque
from contextlib import aclosing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from coordinator.cli.connecting import connected
from coordinator.cli.output import builtins, harmless
from coordinator.scene import span

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from coordinator.cli.output import Output
    from coordinator.domain.records import LogEntry
    from coordinator.overview import SessionRow, Stats
    from coordinator.session import Session

_WIDE = 60
_WHOLE = frozenset({"text", "why", "message", "error"})
"""What is not cut: it says what went wrong, or what was said."""


async def show(options: Namespace, out: Output) -> None:
    """Print a session's whole record."""
    async with connected(options, out) as coord:
        seen = await coord.session(options.session).snapshot()
    if out.json:
        out.record(seen)
        return
    values = builtins(seen)
    inbox = values.pop("inbox")
    values["policy"] = ", ".join(f"{name}={value}" for name, value in values["policy"].items())
    values["deadlines"] = ", ".join(f"{due['kind']} {moment(due['at_ms'])}" for due in values["deadlines"])
    for name in ("opened_ms", "status_ms"):
        values[name] = moment(values[name])
    values["inbox"] = ", ".join(f"{len(entries)} {name.replace('_', '-')}" for name, entries in inbox.items())
    out.pairs("", values)


async def ls(options: Namespace, out: Output) -> None:
    """List sessions, the one that changed last first."""
    async with connected(options, out) as coord, out.progress("reading sessions"):
        rows = await coord.sessions(limit=options.limit)
    rows = [row for row in rows if options.status in (None, row.status)]
    if out.json:
        objects(rows, out)
        return
    out.table(
        ("session", "status", "turn", "generation", "pending", "step", "worker", "since"),
        (
            (
                row.session_id,
                status_of(row),
                row.turn,
                row.generation,
                row.pending,
                row.step,
                row.worker_id,
                moment(row.status_ms),
            )
            for row in rows
        ),
        empty="no sessions; `coordinator send SESSION TEXT` makes one",
    )


async def tail(options: Namespace, out: Output) -> None:
    """Print a session's log, and with --follow what comes."""
    async with connected(options, out) as coord:
        session = coord.session(options.session)
        after = options.after
        if options.lines:
            recent = await _last(session, after, options.lines)
            for entry in recent:
                _show_entry(entry, out)
            after = recent[-1].id if recent else after
            if not options.follow:
                return
        entries = session.follow(after) if options.follow else session.history(after)
        async with aclosing(entries):
            async for entry in entries:
                _show_entry(entry, out)


async def workers(options: Namespace, out: Output) -> None:
    """List the registered workers."""
    async with connected(options, out) as coord:
        rows = await coord.workers()
    if out.json:
        objects(rows, out)
        return
    out.table(
        ("worker", "sessions", "capacity", "lease", "host", "pid", "version"),
        (
            (
                row.worker_id,
                row.hosted,
                row.capacity,
                f"{row.lease_ms / 1000:.1f} s" if row.lease_ms > 0 else f"overdue {-row.lease_ms / 1000:.0f} s",
                row.host,
                row.pid,
                row.version,
            )
            for row in rows
        ),
        empty="no workers; `coordinator worker --agent module:name` starts one",
    )


async def stats(options: Namespace, out: Output) -> None:
    """Print counts over everything."""
    async with connected(options, out) as coord, out.progress("counting"):
        found = await coord.stats()
    if out.json:
        out.record(found)
        return
    values = builtins(found)
    counters = values.pop("counters")
    out.pairs("now", values)
    out.pairs("counted since the data began", counters or {"nothing": "yet"})


async def _last(session: Session, after: str, lines: int) -> list[LogEntry]:
    async with aclosing(session.history(after)) as entries:
        recent: deque[LogEntry] = deque(maxlen=lines)
        async for entry in entries:
            recent.append(entry)
    return list(recent)


def status_of(row: SessionRow) -> str:
    """Say in a word what a session does, what holds it up before what it is at."""
    if row.lifecycle != "open":
        return row.lifecycle
    if row.reset_pending:
        return "resetting"
    if row.cancel_pending:
        return "stopping"
    if row.phase != "idle":
        return row.phase
    return "entering" if row.entering else "asking" if row.question else row.phase


def last_sweep(stats: Stats) -> str:
    """Say when an orchestrator was last heard of."""
    if stats.unswept_ms is None:
        return "no orchestrator has swept yet"
    return f"an orchestrator swept {span(stats.unswept_ms)} ago"


def objects(rows: Iterable[object], out: Output) -> None:
    """Print one object a line."""
    for row in rows:
        out.record(row)


def _show_entry(entry: LogEntry, out: Output) -> None:
    if out.json:
        out.record(entry)
        return
    fields = {name: text for name, text in entry.fields.items() if name != "at_ms"}
    told = " ".join(f"{name}={text if name in _WHOLE else short(text)}" for name, text in fields.items())
    # One line an entry, whatever the agent said.
    out.line(
        harmless(f"{moment(int(entry.id.partition('-')[0]))}  {entry.type:<18}  {told}", keep_lines=False).rstrip()
    )


def short(text: str) -> str:
    """Cut a text that is too long for a table."""
    return text if len(text) <= _WIDE else f"{text[: _WIDE - 1]}…"


def moment(ms: int) -> str:
    """Give a time of the server's clock in milliseconds as local time; empty for 0."""
    if not ms:
        return ""
    at = datetime.fromtimestamp(ms / 1000, UTC).astimezone()
    today = at.date() == datetime.now(UTC).astimezone().date()
    return at.strftime("%H:%M:%S.%f" if today else "%Y-%m-%d %H:%M:%S.%f")[:-3]
