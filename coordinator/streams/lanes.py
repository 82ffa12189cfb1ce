"""Entries in hand: those of one lane one after another, those of many lanes side by side."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from coordinator.streams.backoff import Backoff
from coordinator.streams.group import Entry

_log = logging.getLogger(__name__)

Handle: TypeAlias = Callable[[Entry, int], Awaitable[float | None]]
"""Handles an entry, given how often that was tried before: None when done, or seconds until the next try."""

MOST_IN_HAND: Final = 4_000
_QUIET: Final = 1.0


def session_of(entry: Entry) -> str:
    """The lane of an entry's session."""
    return entry.fields.get("session_id", entry.id)


class Lanes:
    """One lane a session, or as `lane` says. An entry that has to wait holds up its lane and takes none of the `slots`.

    `handle` may fail: nothing is acknowledged then, and the entry is tried again with back-off.
    """

    def __init__(self, handle: Handle, slots: int, lane: Callable[[Entry], str] = session_of) -> None:
        self._handle = handle
        self._lane_of = lane
        self._slots = asyncio.Semaphore(slots)
        self._lanes: dict[str, deque[Entry]] = {}
        self._since: dict[tuple[int, str], float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._complained = float("-inf")

    def add(self, entry: Entry) -> None:
        """Take an entry in hand; one that is in hand already is not taken twice."""
        if entry.key in self._since:
            return
        self._since[entry.key] = time.monotonic()
        if len(self._since) >= MOST_IN_HAND:
            self._has_room.clear()
        name = self._lane_of(entry)
        lane = self._lanes.get(name)
        if lane is not None:
            lane.append(entry)
            return
        lane = self._lanes[name] = deque((entry,))
        task = asyncio.create_task(self._run(name, lane))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def holds(self, partition: int, entry_id: str) -> bool:
        """Whether that entry is in hand."""
        return (partition, entry_id) in self._since

    @property
    def has_room(self) -> bool:
        """Whether more can be taken now."""
        return self._has_room.is_set()

    async def room(self) -> None:
        """Wait until there is room for more."""
        await self._has_room.wait()

    def held(self, seconds: float) -> dict[int, list[str]]:
        """Give the ids in hand for at least `seconds`, by partition."""
        before = time.monotonic() - seconds
        found: dict[int, list[str]] = {}
        for (partition, entry_id), since in self._since.items():
            if since <= before:
                found.setdefault(partition, []).append(entry_id)
        return found

    async def close(self, seconds: float) -> None:
        """Begin nothing more, give what is being handled `seconds` to end, then cancel it."""
        self._closing.set()
        tasks = set(self._tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _run(self, name: str, lane: deque[Entry]) -> None:
        while lane and not self._closing.is_set():
            await self._finish(lane[0])
            entry = lane.popleft()
            if self._closing.is_set():
                break
            self._forget(entry)
        if not lane:
            del self._lanes[name]

    def _forget(self, entry: Entry) -> None:
        self._since.pop(entry.key, None)
        if len(self._since) < MOST_IN_HAND:
            self._has_room.set()

    async def _finish(self, entry: Entry) -> None:
        tries = 0
        backoff = Backoff(most=5.0)
        while True:
            async with self._slots:
                if self._closing.is_set():
                    return
                try:
                    delay = await self._handle(entry, tries)
                except Exception as error:  # noqa: BLE001 - whatever it is, the entry is unanswered, not stale
                    delay = backoff.next()
                    self._complain(entry, error)
            if delay is None or await self._closed_within(delay):
                return
            tries += 1

    async def _closed_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._closing.wait()
        except TimeoutError:
            return False

    def _complain(self, entry: Entry, error: Exception) -> None:
        # In an outage every lane fails: one line a second says so as well as thousands.
        if time.monotonic() - self._complained >= _QUIET:
            self._complained = time.monotonic()
            _log.warning("entry %s of partition %d stays pending: %s", entry.id, entry.partition, error)
