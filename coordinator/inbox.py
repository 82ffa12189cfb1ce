"""Editing what waits in a session's inbox."""

from __future__ import annotations

from coordinator.domain.errors import UsageError
from coordinator.domain.ids import check_id
from coordinator.services import Kernel


class SessionInbox:
    """The pending messages of one session: `session.inbox`. What a turn has taken is beyond any edit.

    Every call is one script: a message is always in exactly one place, and an edit never wakes. Each takes an
    `operation_id` of the caller's, under which it may be repeated, and raises `MessageNotPending` for a message that
    was claimed, discarded or never sent, `SessionUnknown`, `SessionClosed` (also while closing), `InvalidId`, and
    `ConflictingRepeat` for an operation id that was used for something else.
    """

    def __init__(self, kernel: Kernel, session_id: str) -> None:
        self.session_id = session_id
        self._kernel = kernel

    async def remove(self, message_id: str, *, operation_id: str | None = None) -> None:
        """Take a pending message out; the log shows it as discarded."""
        await self._kernel.inbox.remove(self.session_id, check_id("message", message_id), operation_id)

    async def replace(self, message_id: str, text: str, *, operation_id: str | None = None) -> None:
        """Give a pending message another text; its place, id and wish to run stay.

        Raises `MessageTooLarge`, `MessageInvalid` and `InboxFull` as well.
        """
        await self._kernel.inbox.replace(self.session_id, check_id("message", message_id), text, operation_id)

    async def move(self, message_id: str, *, before: str | None = None, operation_id: str | None = None) -> None:
        """Put a pending message before another pending one, in that one's list; without one, at its own list's end.

        Raises `UsageError` for a message that is to go before itself.
        """
        if before == message_id:
            raise UsageError(f"message {message_id} can't go before itself; name another one, or none for the end")
        other = check_id("message", before) if before is not None else ""
        await self._kernel.inbox.move(self.session_id, check_id("message", message_id), other, operation_id)

    async def steer(self, message_id: str, *, operation_id: str | None = None) -> None:
        """Move a pending message to the end of next-step: the running turn takes it at its next boundary.

        Raises `CancelConflict` while that turn is being stopped, since it would take nothing more.
        """
        await self._kernel.inbox.steer(self.session_id, check_id("message", message_id), operation_id)

    async def clear(self, *, operation_id: str | None = None) -> None:
        """Discard everything pending, each message visibly; what runs goes on."""
        await self._kernel.inbox.clear(self.session_id, operation_id)
