"""Following a session's log: history first, then live, without a gap, from any entry on."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from typing import Any, Final

from coordinator.domain.errors import InvalidId, SessionUnknown, StoreUnavailable
from coordinator.domain.records import LogEntry
from coordinator.store.store import Store
from coordinator.streams.hints import Hints
from coordinator.streams.reading import read, read_together

TRIMMED: Final = "log.trimmed"
START: Final = "0"
_ENTRY_ID: Final = re.compile(r"\d{1,20}(-\d{1,20})?")
_BATCH: Final = 100


async def follow(
    store: Store, hints: Hints, session_id: str, after: str = START, *, live: bool = True
) -> AsyncGenerator[LogEntry, None]:
    """Yield a session's log from behind the entry id `after`; with `live`, go on for as long as the session exists.

    Where entries were trimmed before they could be read, one entry `log.trimmed` stands for them (`first`: the id
    that the log now begins with). While the store can't be reached a live follower waits on. Raises `SessionUnknown`,
    and `InvalidId` if `after` is no entry id.
    """
    if not _ENTRY_ID.fullmatch(after):
        raise InvalidId(f"{after!r:.40} is no id of a log entry: use 0, or one that follow gave, like 1700000000000-0")
    reader = LogReader(store, session_id, after)
    if not await reader.exists():
        raise SessionUnknown.named(session_id)
    with hints.waiter(session_id) as waiter:
        while True:
            try:
                entries = await reader.read()
                if not (entries or reader.more or await reader.exists()):
                    return
            except StoreUnavailable:
                if not live:
                    raise
                entries = []
            for entry in entries:
                yield entry
            if reader.more:
                continue
            if not live:
                return
            await waiter.changed()


class LogReader:
    """Reads one log forward in batches and knows when entries were lost to trimming in between."""

    def __init__(self, store: Store, session_id: str, after: str = START) -> None:
        keys = store.keys.session(session_id)
        self._store = store
        self._record, self._log = keys["session"], keys["log"]
        # A log keeps at least so many entries, so a batch that is not full has reached its end without a gap.
        self._count = min(_BATCH, store.settings.max_log)
        self._after = after
        self._seen: int | None = 0 if _is_start(after) else None
        self.more = True
        """Whether another batch may be there already."""

    async def exists(self) -> bool:
        """Whether the session has a record."""
        return bool(await read(self._store, "EXISTS", self._record))

    async def read(self) -> list[LogEntry]:
        """Give the next batch; empty when there is nothing new."""
        if not self.more:
            found = await read(self._store, "XRANGE", self._log, f"({self._after}", "+", "COUNT", self._count)
            if len(found) < self._count:
                return self._taken(found)
        return await self._read_checked()

    async def _read_checked(self) -> list[LogEntry]:
        found, info = await read_together(
            self._store,
            ("XRANGE", self._log, f"({self._after}", "+", "COUNT", self._count),
            ("XINFO STREAM", self._log),
        )
        if not isinstance(info, dict):
            self.more = False
            return []
        trimmed = int(info["entries-added"]) - int(info["length"])
        first = _id_of(info["first-entry"])
        behind = bool(first) and _key(self._after) < _key(first)
        # How many were seen is known from the log's start or end on; else an id below the first has to do.
        missed = behind and trimmed > (self._seen if self._seen is not None else 0)
        self.more = len(found) == self._count
        if not self.more:
            self._seen = int(info["entries-added"])
        elif found and found[0][0] == first:
            self._seen = trimmed + len(found)
        elif self._seen is not None:
            self._seen += len(found)
        entries = self._taken(found, counted=True)
        return [LogEntry(first, TRIMMED, {"first": first}), *entries] if missed else entries

    def _taken(self, found: list[Any], *, counted: bool = False) -> list[LogEntry]:
        entries = [_entry(entry_id, fields) for entry_id, fields in found]
        if entries:
            self._after = entries[-1].id
        if self._seen is not None and not counted:
            self._seen += len(entries)
        return entries


async def inserted_at(store: Store, session_id: str, message_id: str) -> str | None:
    """Find the id of the newest log entry that put a message into the inbox, searching from the log's end."""
    log, end = store.keys.session(session_id)["log"], "+"
    while True:
        found = await read(store, "XREVRANGE", log, end, "-", "COUNT", _BATCH)
        for entry_id, fields in found:
            entry = _entry(entry_id, fields)
            if entry.type == "inbox.inserted" and entry.fields.get("message_id") == message_id:
                return entry.id
        if len(found) < _BATCH:
            return None
        end = f"({found[-1][0]}"


def _entry(entry_id: str, fields: dict[str, str]) -> LogEntry:
    return LogEntry(entry_id, fields.get("type", ""), {name: text for name, text in fields.items() if name != "type"})


def _id_of(entry: Any) -> str:
    return str(entry[0]) if entry else ""


def _key(entry_id: str) -> tuple[int, int]:
    ms, _, number = entry_id.partition("-")
    return int(ms), int(number or 0)


def _is_start(entry_id: str) -> bool:
    return _key(entry_id) == (0, 0)
