"""One session, as clients and handlers use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, get_args

import msgspec

from coordinator.domain.errors import MessageNotPending, SessionUnknown, UsageError
from coordinator.domain.ids import check_id
from coordinator.domain.records import LogEntry, OnBusy, Receipt, SessionPolicy, Snapshot, TurnResult
from coordinator.guard import Guard
from coordinator.services import Kernel
from coordinator.services.reentry import refuse
from coordinator.settings import Settings
from coordinator.streams.hints import Hints
from coordinator.streams.log import follow, inserted_at
from coordinator.streams.results import TurnWatch
from coordinator.streams.waiting import bounded

_ON_BUSY: Final[tuple[str, ...]] = get_args(OnBusy)


class Session:
    """A handle on one session; made by `Coordinator.session`, which does no I/O.

    Every call raises `StoreUnavailable` when Redis can't be reached, and all but `open` raise `SessionUnknown` when no
    such session was opened. A call that changes something may be repeated.
    """

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str) -> None:
        self.id = check_id("session", session_id)
        self._kernel = kernel
        self._hints = hints
        self._settings = settings

    def __repr__(self) -> str:
        return f"Session({self.id!r})"

    async def open(self, policy: SessionPolicy | None = None) -> bool:
        """Make the session, or change the policy of one that is open; true if it is new.

        No policy is the default policy. Raises `SessionClosed` on a closing or closed session, until retention has
        removed it, and `UsageError` for a policy with a word that is none.
        """
        return await self._kernel.sessions.open(self.id, _checked(policy or SessionPolicy()))

    async def send(
        self,
        text: str,
        *,
        message_id: str | None = None,
        wake: bool = True,
        on_busy: OnBusy = "enqueue",
        sender: str | None = None,
    ) -> Receipt:
        """Put a message at the end of next-turn: it gets a turn of its own, and wakes an idle session.

        The same `message_id` within `receipts` seconds gives the first answer, as a duplicate, and inserts nothing.
        `on_busy` says what a session that is not idle does: line it up, take it into the running turn, or refuse.
        Raises `ConflictingRepeat`, `SessionBusy` (only if rejecting), `SessionClosed`, `InboxFull`, `MessageTooLarge`,
        `MessageInvalid`.
        """
        if on_busy not in _ON_BUSY:
            raise UsageError(f"on_busy={on_busy!r} is none of {', '.join(_ON_BUSY)}")
        return await self._kernel.inbox.send(
            self.id, text, message_id=message_id, wake=wake, on_busy=on_busy, sender=sender or "-"
        )

    async def steer(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Put a message into next-step: the running turn takes it at its next boundary. Wakes; raises as `send`."""
        return await self._kernel.inbox.send(self.id, text, message_id=message_id, list="next-step")

    async def inject(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Put a message into next-step without waking an idle session. Raises as `send`."""
        return await self._kernel.inbox.send(self.id, text, message_id=message_id, list="next-step", wake=False)

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

        A turn that a killed worker leaves behind is waited for, too, and so is its successor. Raises `TimeoutError`
        after `timeout` seconds, which changes nothing, and `Reentry` inside this session's own turn, handler or guard.
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
        refuse(self.id, "result")
        check_id("message", message_id)
        return await bounded(self._result(message_id), timeout, f"waiting for the turn of message {message_id}")

    async def _result(self, message_id: str) -> TurnResult:
        start = await inserted_at(self._kernel.store, self.id, message_id)
        if start is None:
            await self.snapshot()
            raise MessageNotPending(
                f"session {self.id} knows no message {message_id}: it was never sent, or the log no longer has it"
            )
        watch = TurnWatch(message_id)
        async with aclosing(self.follow(after=start)) as entries:
            async for entry in entries:
                result = watch.feed(entry)
                if result is not None:
                    return result
        raise SessionUnknown(f"session {self.id} was removed by its retention")

    async def close(self) -> str:
        """Discard the inbox and let nothing start any more; `closing` while a prompt is open, else `closed`.

        `wait_idle` waits for the end. A repeat answers the state it finds. Raises `Reentry` inside this session's own
        turn or handler.
        """
        refuse(self.id, "close")
        return await self._kernel.sessions.close(self.id)

    def guard(self, timeout: float | None = None) -> Guard:
        """Hold the session's guard: `async with session.guard(timeout=30) as guard`.

        Waits up to `timeout` seconds (default `guard_wait`) and then raises `GuardBusy`; raises `Reentry` at once in a
        task that is inside already. `GuardLost` comes at the next call on a guard that was lost, or at the body's end.
        """
        return Guard(self._kernel, self._hints, self._settings, self.id, wait=timeout)


def _checked(policy: SessionPolicy) -> SessionPolicy:
    """Check what a dynamically typed caller may have put in: what is stored is compared with these words only."""
    try:
        msgspec.convert(msgspec.structs.asdict(policy), SessionPolicy)
    except msgspec.ValidationError as error:
        raise UsageError(f"this can't be a session's policy: {error}") from None
    if policy.retries < 1:
        raise UsageError(f"retries={policy.retries} can't be: a message has at least 1 attempt")
    return policy
