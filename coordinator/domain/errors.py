"""Every error that is raised on purpose.

CoordinatorError
├── OwnershipError        lost to another owner: a retry can't win
│   ├── Superseded, GuardLost, TurnChanged
├── ContentionError       somebody else is at it: retry with back-off
│   ├── SessionBusy, GuardBusy, CancelConflict, ResetInProgress, PredecessorPending
├── StoreError            Redis
│   ├── StoreUnavailable (retry), StoreMisconfigured, OutcomeUnknown (look, then decide)
├── UsageError            the call can't work as it was made
│   ├── SessionUnknown, SessionClosed, InvalidId, MessageNotPending, ConflictingRepeat, InboxFull
│   ├── MessageTooLarge, MessageInvalid, UnknownStep, WorkflowUnknown, WorkflowInvalid, QuestionClosed, ResetFailed
│   ├── Reentry, AgentInvalid
│   ├── SettingsError, NotAvailable
└── ScriptContractError   a bug

The text of each is a sentence for the user: what is wrong, and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class CoordinatorError(Exception):
    """Raised when something is refused or failed on purpose; the base of every error here."""

    retryable: ClassVar[bool] = False
    """Whether the same call, made again later with back-off, may succeed."""


class OwnershipError(CoordinatorError):
    """Raised when what the caller owned, or expected to be current, belongs to another by now."""


class Superseded(OwnershipError):
    """Raised when a prompt, activity or execution was replaced; nothing that it does counts any more."""


class GuardLost(OwnershipError):
    """Raised when the session's guard ran out, or was held too long, and its number is not current any more."""


class TurnChanged(OwnershipError):
    """Raised when the expected turn or generation is not the current one; nothing was written."""


class ContentionError(CoordinatorError):
    """Raised when something else has the session at the moment."""

    retryable = True


class SessionBusy(ContentionError):
    """Raised when the session is not idle and the caller asked to be refused then, or maintenance is running."""


class GuardBusy(ContentionError):
    """Raised when another owner holds the session's guard.

    `owner` is the holder's name, `ms_left` the milliseconds after which its guard runs out if it isn't extended.
    """

    def __init__(self, message: str, owner: str = "", ms_left: int = 0) -> None:
        super().__init__(message)
        self.owner = owner
        self.ms_left = ms_left


class CancelConflict(ContentionError):
    """Raised when a replace or reset met a recorded cancel, or a stop took away a waiting direct prompt."""


class ResetInProgress(ContentionError):
    """Raised when the session is being reset, and the call can't wait behind it."""


class PredecessorPending(ContentionError):
    """Raised when the prompt before has not ended within the bound; it is untouched, and still owed.

    `execution_id` and `generation` name what was in the way, `bound` the seconds that were waited; empty or 0 where
    nothing was waited for, or nothing was in the way but the lack of a worker.
    """

    def __init__(self, message: str, execution_id: str = "", generation: int = 0, bound: float = 0.0) -> None:
        super().__init__(message)
        self.execution_id = execution_id
        self.generation = generation
        self.bound = bound


class StoreError(CoordinatorError):
    """Raised when Redis could not do what was asked."""


class StoreUnavailable(StoreError):
    """Raised when Redis can't be reached, doesn't answer in time, is loading, or is a replica for the moment."""

    retryable = True


class StoreMisconfigured(StoreError):
    """Raised when Redis answers, and refuses: password, rights, memory, persistence, version, role or partitions."""


class OutcomeUnknown(StoreError):
    """Raised when the call was sent and its reply lost for good: look at the session before doing it again."""


class UsageError(CoordinatorError):
    """Raised when the call can't work as it was made."""


class SessionUnknown(UsageError):
    """Raised when no session of that id was opened, or its retention has passed."""

    @classmethod
    def named(cls, session_id: str) -> SessionUnknown:
        """Make the usual one."""
        return cls(f"There is no session {session_id!r}; `open` makes one, and `coordinator ls` lists those there are.")


class SessionClosed(UsageError):
    """Raised when the session is closing or closed, and the call would begin something."""


class InvalidId(UsageError):
    """Raised when an id is not 1 to 128 of `A-Z a-z 0-9 _ . -`."""


class MessageNotPending(UsageError):
    """Raised when the message to edit is in no list: claimed, discarded, or never sent."""


class ConflictingRepeat(UsageError):
    """Raised when an operation id comes again with another body or other options."""


class InboxFull(UsageError):
    """Raised when the session's inbox holds as many messages, or bytes, as it may."""


class MessageTooLarge(UsageError):
    """Raised when a message's body is over the limit in bytes of UTF-8."""


class MessageInvalid(UsageError):
    """Raised when a message's body is no text, empty, or text that UTF-8 can't carry."""


class UnknownStep(UsageError):
    """Raised when the session's workflow has no step of that name."""


class WorkflowUnknown(UsageError):
    """Raised when no orchestrator has published a workflow of that name."""


class WorkflowInvalid(UsageError):
    """Raised when a workflow file can't be used; its text has a line for each thing that is wrong, in file order."""


class QuestionClosed(UsageError):
    """Raised when the question was answered, expired, or overtaken by a later turn."""


class ResetFailed(UsageError):
    """Raised when a reset ended without a fresh context; the session goes on with the old one."""


class Reentry(UsageError):
    """Raised when a call from inside a turn, handler or guard would wait for itself."""


class AgentInvalid(UsageError):
    """Raised when the named agent can't be loaded, lacks a method of one, or reports what is no text as text."""


class SettingsError(UsageError):
    """Raised when a setting is not of its kind or out of its range; names the variable and what is allowed."""


class NotAvailable(UsageError):
    """Raised when this version does not have the feature yet."""


class ScriptContractError(CoordinatorError):
    """Raised when a script's reply or slots are outside its header: a bug, worth a report."""
