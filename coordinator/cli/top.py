"""`coordinator top`: everything at a glance, again and again until Ctrl-C."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import msgspec

from coordinator import overview
from coordinator.cli.connecting import connected
from coordinator.cli.inspection import last_sweep, status_of
from coordinator.cli.output import harmless
from coordinator.overview import SessionRow, Stats, WorkerRow

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable

    from coordinator.cli.output import Output
    from coordinator.client import Coordinator

_QUIET: Final = frozenset({"idle", "closed"})
_RATES: Final = ("turns", "settled", "stale")
_MOST: Final = 15
"""Rows of a table for people."""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """One look at everything."""

    stats: Stats
    by_status: dict[str, int]
    """Of the newest 1,000 sessions."""
    per_second: dict[str, float]
    """What was counted since the look before; empty in the first one."""
    overdue: tuple[str, ...]
    """Sessions with a deadline that no sweep has met, and which: they are stuck until an orchestrator lives."""
    busy: tuple[SessionRow, ...]
    """The sessions that are not idle, the one that has been so for longest first."""
    workers: tuple[WorkerRow, ...]


async def top(options: Namespace, out: Output) -> None:
    """Print one look after another."""
    async with connected(options, out) as coord:
        live = _live() if sys.stdout.isatty() and not out.json else None
        before: tuple[Frame, float] | None = None
        with live or nullcontext():
            for left in range(options.frames or sys.maxsize, 0, -1):
                frame = await _look(coord, before)
                before = frame, time.monotonic()
                if live is not None:
                    live.update(_picture(frame), refresh=True)
                elif out.json:
                    out.record(frame)
                else:
                    _print(_picture(frame))
                if left > 1:
                    await asyncio.sleep(options.interval)


async def _look(coord: Coordinator, before: tuple[Frame, float] | None) -> Frame:
    rows, stats = await coord.sessions(), await coord.stats()
    by_status: dict[str, int] = {}
    for row in rows:
        by_status[status_of(row)] = by_status.get(status_of(row), 0) + 1
    rates = {}
    if before:
        frame, at = before
        passed = time.monotonic() - at
        for name in _RATES:
            counted = stats.counters.get(name, 0) - frame.stats.counters.get(name, 0)
            rates[name] = round(counted / passed, 1)
    return Frame(
        stats=stats,
        by_status=dict(sorted(by_status.items())),
        per_second=rates,
        overdue=tuple(await overview.overdue(coord.kernel.store)),
        busy=tuple(sorted((row for row in rows if status_of(row) not in _QUIET), key=lambda row: row.status_ms)),
        workers=tuple(await coord.workers()),
    )


def _live() -> Any:
    from rich.live import Live

    return Live(auto_refresh=False, screen=True)


def _print(picture: Any) -> None:
    from rich.console import Console

    Console(highlight=False, soft_wrap=True).print(picture)


def _picture(frame: Frame) -> Any:
    from rich.console import Group
    from rich.text import Text

    stats, told = frame.stats, [f"{number} {status}" for status, number in frame.by_status.items()]
    rates = [f"{number:g} {name}/s" for name, number in frame.per_second.items()]
    lines = [
        f"sessions  {stats.sessions}: {', '.join(told) or 'none'}",
        f"turns     {stats.counters.get('turns', 0)}" + (f" ({', '.join(rates)})" if rates else ""),
        f"events    {stats.events_pending} pending, {stats.counters.get('stale', 0)} stale, {stats.dead} given up",
        f"workers   {stats.workers} alive, {stats.hosted} of {stats.capacity} places taken",
        f"replicas  {last_sweep(stats)}",
        f"stuck     {', '.join(frame.overdue[:_MOST]) or 'none'}",
    ]
    busy = [
        (one.session_id, status_of(one), one.turn, one.generation, one.pending, one.step, one.worker_id)
        for one in frame.busy[:_MOST]
    ]
    workers = [(row.worker_id, row.hosted, row.capacity, f"{row.lease_ms / 1000:.1f} s") for row in frame.workers]
    tables = [
        _table(("session", "status", "turn", "generation", "pending", "step", "worker"), busy) if busy else "",
        _table(("worker", "sessions", "capacity", "lease"), workers[:_MOST]) if workers else "",
    ]
    return Group(*(Text(harmless(line, keep_lines=False)) for line in lines), *filter(None, tables))


def _table(columns: Iterable[str], rows: Iterable[Iterable[object]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None)
    for column in columns:
        table.add_column(column.upper(), no_wrap=True)
    for row in rows:
        table.add_row(*(Text(harmless(str(cell), keep_lines=False)) for cell in row))
    return table
