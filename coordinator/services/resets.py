"""Context resets: a marker in the record, ended by the worker that replaced the provider's session, or by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from coordinator.domain.errors import Superseded, UsageError
from coordinator.domain.ids import check_id, new_id
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal
from coordinator.services.receipts import digest, offered
from coordinator.store.store import Reply

if TYPE_CHECKING:
    from coordinator.domain.records import ResetStage
    from coordinator.store.queue import Placements
    from coordinator.store.store import Store


class Resets:
    """Beginning and ending resets. One a session; a repeat of its id joins it, also after its end."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def begin(self, session_id: str, reset_id: str, guard_number: int, *, entry_id: str = "") -> ResetStage:
        """Begin a reset under the guard, or learn what became of the one with this id, for which no guard is needed.

        What is open is stopped first, by an exclusive cancel. Raises GuardLost, ResetInProgress for another one,
        CancelConflict while a cancel is pending, SessionBusy during maintenance, SessionClosed, SessionUnknown,
        ConflictingRepeat, and Superseded when the step entry `entry_id`, for which it would be, is over.
        """
        reply = await self._store.call(
            "reset_begin",
            session_id,
            reset_id=check_id("reset", reset_id),
            operation_id=reset_id,
            digest=digest("reset", entry_id),
            entry_id=entry_id,
            guard_number=guard_number,
            next_token=new_id("a"),
        )
        if reply.word is Verdict.GONE:
            raise Superseded(f"Step entry {entry_id!r} of session {session_id!r} is over; nothing was changed.")
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id, message_id=reset_id)
        stage, place = reply.details
        if place:
            await self._placements.offer(session_id, place)
        if stage == "ended":
            stage, _ = await self.state(session_id, reset_id)
        return cast("ResetStage", stage)

    async def is_called(self, session_id: str, execution_id: str, reset_id: str) -> bool:
        """Whether this execution's agent is to reset its context for that reset now. Raises StoreUnavailable."""
        key = self._store.keys.session(session_id)["session"]
        found = await self._store.fields(key, "reset_id", "execution_id", "phase")
        return found == [reset_id, execution_id, "maintenance"]

    async def end(
        self,
        session_id: str,
        execution_id: str,
        reset_id: str,
        *,
        committed: bool,
        resume_token: str = "",
        why: str = "",
        called: bool = True,
        next_token: str = "",
    ) -> bool:
        """Report, as the execution's worker, how the reset that it was told of went. False: it has ended otherwise.

        A failure after the provider was `called` ends the execution, since nobody knows which context it has.
        `next_token` is for a repeat after an unknown outcome: the same one must be given again.
        """
        reply = await self._store.call(
            "reset_end",
            session_id,
            reset_id=reset_id,
            execution_id=execution_id,
            outcome="committed" if committed else "failed",
            resume_token=resume_token,
            why=why[:2000],
            called=int(called),
            next_token=next_token or new_id("a"),
        )
        return await offered(reply, session_id, self._placements)

    async def state(self, session_id: str, reset_id: str) -> tuple[ResetStage, str]:
        """How far a reset is, and why it failed. Raises SessionUnknown, and UsageError for one that never began.

        The record keeps the newest reset, the log the earlier ones and the reasons.
        """
        keys = self._store.keys.session(session_id)
        schema, running, last, outcome = await self._store.fields(
            keys["session"], "schema", "reset_id", "reset_last", "reset_outcome"
        )
        if schema is None:
            raise refusal(Reply(Verdict.NO_SESSION, []), session_id)
        if running == reset_id:
            return "running", ""
        if last == reset_id and outcome == "committed":
            return "committed", ""
        stages: tuple[ResetStage, ...] = ("failed", "committed")
        for stage in stages:
            entry = await self._store.newest(keys["log"], f"reset.{stage}", reset_id=reset_id)
            if entry:
                return stage, entry["why"]
        if last == reset_id:
            return "failed", "its reason is no longer in the log"
        msg = f"Session {session_id!r} knows no reset {reset_id!r}: it never began, or is too old."
        raise UsageError(msg)
