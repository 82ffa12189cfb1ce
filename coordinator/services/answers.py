"""The one place where a script's word becomes an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.errors import (
    CancelConflict,
    ConflictingRepeat,
    CoordinatorError,
    GuardBusy,
    GuardLost,
    InboxFull,
    MessageNotPending,
    PredecessorPending,
    ResetInProgress,
    ScriptContractError,
    SessionBusy,
    SessionClosed,
    SessionUnknown,
    Superseded,
    TurnChanged,
    UsageError,
)
from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from coordinator.store.store import Reply


def refusal(reply: Reply, session_id: str, *, message_id: str = "") -> CoordinatorError:  # noqa: C901, PLR0911, PLR0912 - a table
    """The error that a refusing reply means to a caller; its sentence says what to do."""
    details = reply.details
    match reply.word:
        case Verdict.NO_SESSION:
            return SessionUnknown.named(session_id)
        case Verdict.CLOSED:
            return SessionClosed(f"Session {session_id!r} is closed; use another session id.")
        case Verdict.BUSY:
            return SessionBusy(
                f"Session {session_id!r} is busy ({details[0]}); wait for it, or send with on_busy=enqueue."
            )
        case Verdict.FULL:
            return InboxFull(
                f"The inbox of session {session_id!r} is full: {details[0]} messages, {details[1]} bytes are pending "
                "(COORDINATOR_MAX_INBOX, COORDINATOR_MAX_INBOX_BYTES); wait until the agent has taken some."
            )
        case Verdict.CONFLICT:
            return ConflictingRepeat(
                f"Id {message_id!r} was used in session {session_id!r} with another text or other options; "
                "use a new id for a new message."
            )
        case Verdict.GUARD_BUSY:
            owner, ms = details[1], int(details[0])
            return GuardBusy(f"The guard of session {session_id!r} is held by {owner} for up to {ms} ms.", owner, ms)
        case Verdict.GUARD_LOST:
            return GuardLost(f"The guard of session {session_id!r} was lost; nothing was changed. Take it again.")
        case Verdict.TURN_CHANGED:
            return TurnChanged(
                f"Session {session_id!r} is not at the turn that was meant any more; nothing was changed."
            )
        case Verdict.OPERATION:
            return CancelConflict(
                f"Session {session_id!r} is being stopped ({details[0]}); wait until that has ended, then try again."
            )
        case Verdict.GONE:
            name = details[0] if details and details[0] else message_id
            return MessageNotPending(f"Message {name!r} is not pending in session {session_id!r} any more.")
        case Verdict.OWED:
            return PredecessorPending(
                f"Direct prompt {details[0]!r} of session {session_id!r} waits already, and only one may; "
                "nothing was changed."
            )
        case Verdict.RESETTING:
            return ResetInProgress(
                f"Session {session_id!r} is being reset ({details[0]}); wait until that has ended, then try again."
            )
        case Verdict.WORKFLOW:
            return UsageError(
                f"Session {session_id!r} can't be opened so with workflow {details[0]!r}: no workflow goes with "
                "settlement=none, and a session that is on one can't leave it for another."
            )
        case Verdict.SUPERSEDED | Verdict.STALE:
            return Superseded(f"Session {session_id!r} has another owner by now; nothing was changed.")
        case _:
            return ScriptContractError(f"An answer that its caller can't mean anything to: {reply.word} {details}")
