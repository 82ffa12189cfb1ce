"""Messages into a session's inbox."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from coordinator.domain.errors import MessageInvalid, MessageTooLarge
from coordinator.domain.ids import check_id, new_id
from coordinator.domain.records import Receipt
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal

if TYPE_CHECKING:
    from coordinator.domain.records import ListName, OnBusy
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
        message_id = check_id("message", message_id) if message_id is not None else new_id("m")
        self._check_body(body)
        digest = blake2b(f"{list} {wake} {on_busy} {body}".encode(), digest_size=8).hexdigest()
        reply = await self._store.call(
            "send",
            session_id,
            message_id=message_id,
            body=body,
            digest=digest,
            list=list,
            wake=int(wake),
            on_busy=on_busy,
            sender=check_id("sender", sender),
            token=new_id("a"),
        )
        if reply.word not in {Verdict.OK, Verdict.DUPLICATE}:
            raise refusal(reply, session_id, message_id=message_id)
        placement, sequence = reply.details[:2]
        duplicate = reply.word is Verdict.DUPLICATE
        if not duplicate and reply.details[2]:
            await self._placements.offer(session_id, reply.details[2])
        return Receipt(message_id=message_id, sequence=int(sequence), duplicate=duplicate, placement=placement)

    def _check_body(self, body: str) -> None:
        limit = self._store.settings.max_body
        try:
            size = len(body.encode())
        except UnicodeEncodeError as error:
            msg = f"The message is no valid text: {error.reason} at character {error.start}."
            raise MessageInvalid(msg) from None
        if not size:
            msg = "The message is empty; send some text."
            raise MessageInvalid(msg)
        if size > limit:
            msg = f"The message has {size} bytes; at most {limit} are allowed (COORDINATOR_MAX_BODY)."
            raise MessageTooLarge(msg)
