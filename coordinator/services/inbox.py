"""Messages into a session's inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.ids import check_id, chosen_id, new_id
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal
from coordinator.services.bodies import check_body
from coordinator.services.receipts import digest, receipt_of

if TYPE_CHECKING:
    from coordinator.domain.records import ListName, OnBusy, Receipt
    from coordinator.store.queue import Placements
    from coordinator.store.store import Store


class Inbox:
    """Sending. A message is accepted when the call returns: it is in a turn, in the inbox, or visibly discarded."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def send(
        self,
        session_id: str,
        body: str,
        *,
        message_id: str | None = None,
        list: ListName = "next-turn",  # noqa: A002 - the word of the contract
        wake: bool = True,
        on_busy: OnBusy = "enqueue",
        sender: str = "-",
    ) -> Receipt:
        """Put a message in line; a waking one starts an idle session.

        Repeating a `message_id` within the receipts' time gives the first answer and inserts nothing.
        Raises InvalidId, MessageTooLarge, InboxFull, ConflictingRepeat for an id that came with another body or other
        options, SessionBusy for `on_busy="reject"` on a session that is not idle, SessionUnknown, SessionClosed.
        """
        message_id = chosen_id("message", message_id, "m")
        check_body(body, self._store.settings.max_body)
        reply = await self._store.call(
            "send",
            session_id,
            message_id=message_id,
            body=body,
            digest=digest(list, wake, on_busy, body),
            list=list,
            wake=int(wake),
            on_busy=on_busy,
            sender=check_id("sender", sender),
            token=new_id("a"),
        )
        return await receipt_of(reply, session_id, message_id, self._placements)

    async def remove(self, session_id: str, message_id: str, operation_id: str | None = None) -> None:
        """Take a pending message out. Raises MessageNotPending, SessionUnknown, SessionClosed."""
        await self._edit("edit_remove", session_id, message_id, operation_id)

    async def replace(self, session_id: str, message_id: str, body: str, operation_id: str | None = None) -> None:
        """Give a pending message another body; its place, id and wish to run stay. Raises as `remove` and `send`."""
        check_body(body, self._store.settings.max_body)
        await self._edit("edit_replace", session_id, message_id, operation_id, body=body)

    async def move(self, session_id: str, message_id: str, before: str = "", operation_id: str | None = None) -> None:
        """Put a pending message before another one, in that one's list; without one, at its own list's end."""
        await self._edit("edit_move", session_id, message_id, operation_id, before=before)

    async def steer(self, session_id: str, message_id: str, operation_id: str | None = None) -> None:
        """Move a pending message to the end of next-step. Raises CancelConflict while the turn is being stopped."""
        await self._edit("edit_steer", session_id, message_id, operation_id)

    async def clear(self, session_id: str, operation_id: str | None = None) -> None:
        """Discard everything pending; what runs goes on. Raises SessionUnknown, SessionClosed."""
        await self._edit("edit_clear", session_id, "", operation_id)

    async def _edit(self, script: str, session_id: str, message_id: str, operation_id: str | None, **args: str) -> None:
        operation_id = chosen_id("operation", operation_id, "o")
        reply = await self._store.call(
            script,
            session_id,
            operation_id=operation_id,
            message_id=message_id,
            digest=digest(script, message_id, *args.values()),
            **args,
        )
        if reply.word is not Verdict.OK:
            named = operation_id if reply.word is Verdict.CONFLICT else message_id
            raise refusal(reply, session_id, message_id=named)
