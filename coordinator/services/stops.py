"""Stopping what runs, and putting something in its place."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast, get_args

import msgspec

from coordinator.domain.errors import UsageError
from coordinator.domain.ids import check_id, chosen_id, new_id
from coordinator.domain.records import Outcome
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal
from coordinator.services.bodies import check_body
from coordinator.services.receipts import digest, offered, receipt_of
from coordinator.store.store import Reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from coordinator.domain.records import CancelKind, Ownership, Receipt
    from coordinator.store.queue import Placements
    from coordinator.store.store import Store

_OUTCOMES = frozenset(get_args(Outcome))


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """What a cancel answered at once."""

    ticket: str
    """The operation to wait for: this call's, or the one that it joined."""
    outcome: Outcome | None
    """None while the operation is pending."""


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True):
    """What taking a direct prompt back answered."""

    verdict: Verdict
    """OK: taken back, nothing else has changed. NOT_DUE: its wait is not over. GONE: it was claimed, or discarded."""
    execution_id: str = ""
    generation: int = 0
    """What is owed, with OK; empty and 0 when nothing is."""
    ms_left: int = 0
    """With NOT_DUE: milliseconds until its wait is over."""


class Stops:
    """Cancels and replacements. One operation a session; what comes meanwhile joins it, or is refused by name."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def cancel(
        self,
        session_id: str,
        *,
        kind: CancelKind = "user",
        keep_inbox: bool = True,
        expected_turn: int = 0,
        expected_generation: int = 0,
        guard_number: int = 0,
        operation_id: str | None = None,
    ) -> Stop:
        """Stop exactly what is open now, or end an activity that has nothing open; answers at once.

        Raises TurnChanged when the expected turn or generation is not current, CancelConflict when an operation is
        recorded that this kind can't join (a person's stop is never refused), SessionUnknown, ConflictingRepeat.
        """
        operation_id = chosen_id("operation", operation_id, "o")
        reply = await self._store.call(
            "cancel",
            session_id,
            operation_id=operation_id,
            digest=digest(kind, keep_inbox, expected_turn, expected_generation),
            kind=kind,
            keep_inbox=int(keep_inbox),
            expected_turn=expected_turn,
            expected_generation=expected_generation,
            guard_number=guard_number,
            next_token=new_id("a"),
        )
        if reply.word not in {Verdict.OK, Verdict.DUPLICATE}:
            raise refusal(reply, session_id, message_id=operation_id)
        ticket, outcome = reply.details[:2]
        if reply.word is Verdict.OK and reply.details[2]:
            await self._placements.offer(session_id, reply.details[2])
        return Stop(ticket=ticket, outcome=cast("Outcome", outcome) if outcome else None)

    async def outcome(self, session_id: str, ticket: str) -> Outcome | None:
        """How an operation has ended; None while it is pending. Raises SessionUnknown, and UsageError for no operation.

        The record keeps the newest operation, the log the earlier ones, and a receipt what had nothing to stop or
        joined another's operation; `lost` says that the log has been trimmed.
        """
        keys = self._store.keys.session(session_id)
        schema, pending, last, outcome = await self._store.fields(
            keys["session"], "schema", "cancel_id", "cancel_last", "cancel_outcome"
        )
        if schema is None:
            raise refusal(Reply(Verdict.NO_SESSION, []), session_id)
        if pending == ticket:
            return None
        if last == ticket:
            return cast("Outcome", outcome)
        entry = await self._store.newest(keys["log"], "cancel.settled", operation_id=ticket)
        return cast("Outcome", entry["outcome"]) if entry else await self._first_answer(session_id, ticket)

    async def _first_answer(self, session_id: str, operation_id: str) -> Outcome | None:
        """What the receipt of a call says that recorded no operation of its own, or whose end the log has lost."""
        words = (await self._store.text(self._store.keys.receipt(session_id, operation_id))).split(" ")
        if words[-1] in _OUTCOMES:
            return cast("Outcome", words[-1])
        if words[-1] == "-":
            return "lost" if words[1] == operation_id else await self.outcome(session_id, words[1])
        if words[1:]:
            return "idle"
        msg = f"Session {session_id!r} knows no operation {operation_id!r}: it was never made, or is too old."
        raise UsageError(msg)

    async def put_first(  # noqa: PLR0913 - one script, one call
        self,
        session_id: str,
        body: str = "",
        *,
        kind: str,
        chosen: Sequence[str] = (),
        message_id: str | None = None,
        sender: str = "-",
        expected_turn: int = 0,
        expected_generation: int = 0,
        guard_number: int = 0,
    ) -> Receipt:
        """Put a message, or chosen pending ones, first in line and stop what runs: both, or neither.

        `kind` is `replace` or `parent` (an interrupt: what was queued before is parked). Raises what `Inbox.send`
        raises, and TurnChanged, CancelConflict, GuardLost, MessageNotPending for a chosen message.
        """
        message_id = chosen_id("message", message_id, "m")
        if not chosen:
            check_body(body, self._store.settings.max_body)
        reply = await self._store.call(
            "put_first",
            session_id,
            *chosen,
            message_id=message_id,
            body=body,
            digest=digest(kind, expected_turn, expected_generation, body, *chosen),
            sender=check_id("sender", sender),
            kind=kind,
            expected_turn=expected_turn,
            expected_generation=expected_generation,
            guard_number=guard_number,
            token=new_id("a"),
            next_token=new_id("a"),
        )
        return await receipt_of(reply, session_id, message_id, self._placements)

    async def put_direct(
        self,
        session_id: str,
        body: str,
        *,
        wait: float,
        message_id: str | None = None,
        sender: str = "-",
        guard_number: int = 0,
    ) -> Receipt:
        """Put a direct prompt first in line, for at most `wait` seconds; it stops nothing.

        Behind something that is owed or unsettled, or a step that is being entered, the wait is at most
        `predecessor_wait`, and the placement `latched`. Raises what `Inbox.send` raises, and GuardLost,
        ResetInProgress, PredecessorPending when another direct prompt waits.
        """
        message_id = chosen_id("message", message_id, "m")
        check_body(body, self._store.settings.max_body)
        reply = await self._store.call(
            "put_direct",
            session_id,
            message_id=message_id,
            body=body,
            digest=digest("direct", body),
            sender=check_id("sender", sender),
            guard_number=guard_number,
            wait_ms=round(wait * 1000),
            behind_ms=round(self._store.settings.predecessor_wait * 1000),
            token=new_id("a"),
            next_token=new_id("a"),
        )
        return await receipt_of(reply, session_id, message_id, self._placements)

    async def is_known(self, session_id: str, operation_id: str) -> bool:
        """Whether a call with that id was answered, so that another is its repeat. Raises StoreUnavailable."""
        return bool(await self._store.text(self._store.keys.receipt(session_id, operation_id)))

    async def withdraw(self, session_id: str, message_id: str) -> Withdrawn:
        """Take a direct prompt back whose wait is over, unless it was claimed or discarded."""
        reply = await self._store.call("withdraw", session_id, message_id=message_id)
        match reply.word:
            case Verdict.OK:
                execution_id, generation = reply.details
                return Withdrawn(verdict=reply.word, execution_id=execution_id, generation=int(generation))
            case Verdict.NOT_DUE:
                return Withdrawn(verdict=reply.word, ms_left=max(1, int(reply.details[0])))
            case _:
                return Withdrawn(verdict=reply.word)

    async def escalate(self, session_id: str, ownership: Ownership, why: str) -> bool:
        """End the open prompt as escalated at once, for the worker that owns it. False when there is nothing to end."""
        reply = await self._store.call(
            "escalate",
            session_id,
            **ownership.proof(),
            why=why,
            next_token=new_id("a"),
        )
        return await offered(reply, session_id, self._placements)
