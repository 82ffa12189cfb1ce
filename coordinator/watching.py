"""What a session shows: its record, its log, and the waits for what becomes of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from coordinator.domain.ids import check_id
from coordinator.domain.records import LogEntry, Snapshot, TurnResult
from coordinator.services import Kernel
from coordinator.services.reentry import refuse
from coordinator.settings import Settings
from coordinator.streams.hints import Hints
from coordinator.streams.log import follow
from coordinator.turn import result_of


class Watching:
    """The calls of a `Session` that only look."""

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str) -> None:
        self.id = check_id("session", session_id)
        self._kernel = kernel
        self._hints = hints
        self._settings = settings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id!r})"

    async def snapshot(self) -> Snapshot:
        """Read the whole record and inbox at one moment."""
        return await self._kernel.snapshots.read(self.id)

    def follow(self, after: str = "0") -> AsyncGenerator[LogEntry, None]:
        """Yield the log from behind entry id `after`: history first, then live, until the session is removed.

        Entries that were trimmed before they could be read show as one `log.trimmed`. While Redis can't be reached it
        waits. Raises `InvalidId` if `after` is no entry id.
        """
        return follow(self._kernel.store, self._hints, self.id, after)

    def history(self, after: str = "0") -> AsyncGenerator[LogEntry, None]:
        """Yield what the log holds now from behind entry id `after`, and end. Raises as `follow`."""
        return follow(self._kernel.store, self._hints, self.id, after, live=False)

    async def wait_idle(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the public name
        """Wait until the session is idle, settled, and nothing is about to start; on a closing one, until it is closed.

        A turn that a killed worker leaves behind is waited for, too, and so is its successor; so are the entry of a
        workflow's step, and a reset, whatever may follow it. Raises `TimeoutError` after `timeout` seconds, which
        changes nothing, and `Reentry` inside this session's own turn, handler or guard.
        """
        refuse(self.id, "wait_idle")

        async def look() -> bool | None:
            return await self._kernel.snapshots.is_idle(self.id) or None

        await self._hints.until(self.id, look, timeout, f"waiting until session {self.id} is idle")

    async def result(self, message_id: str, timeout: float | None = None) -> TurnResult:  # noqa: ASYNC109
        """Wait until the turn that took this message has ended, and tell how.

        A message that went back in line is followed into its next turn. Raises `TimeoutError` after `timeout` seconds,
        which changes nothing; `MessageNotPending` if it was discarded, never sent, or trimmed from the log; `Reentry`
        inside this session's own turn, handler or guard.
        """
        return await result_of(self._kernel, self._hints, self.id, message_id, timeout)
