"""The structs that cross the public interface. Names are those of the JSON output and of redis-cli."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

ListName = Literal["next-turn", "next-step"]
Placement = Literal["started", "latched", "parked", "queued", "delivered"]
OnBusy = Literal["enqueue", "steer", "replace", "reject"]
CancelKind = Literal["user", "parent", "silent", "system"]
MoveAnswer = Literal["applied", "pending"]
ResetStage = Literal["running", "committed", "failed"]
Outcome = Literal["cancelled", "escalated", "completed", "lost", "idle"]
Lifecycle = Literal["open", "closing", "closed"]


class SessionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How one session treats settlement and failures. Chosen by `open`, changed by opening again."""

    settlement: Literal["required", "none"] = "required"
    """`required`: the next turn waits until a replica settled the last one. `none`: a finish settles itself."""
    lost_turns: Literal["fail", "retry"] = "fail"
    """What becomes of a turn that the agent accepted and whose worker died."""
    retries: int = 3
    """How many attempts a message gets under `lost_turns="retry"`; one that no agent accepted is parked after 3."""
    after_error: Literal["park", "continue"] = "park"
    """Whether an `error` or `blocked` end parks what is queued."""
    on_handler_failure: Literal["continue", "park"] = "continue"
    """Whether a settlement that was given up parks what is queued."""


class Ownership(msgspec.Struct, frozen=True):
    """The triple that proves whose prompt it is. All three are compared wherever one of them matters."""

    execution_id: str
    generation: int
    claim_id: str

    def proof(self) -> dict[str, Any]:
        """The three, as scripts name them."""
        return msgspec.structs.asdict(self)


NOBODY: Final = Ownership("", 0, "")
"""Of a call that no turn makes."""


class Message(msgspec.Struct, frozen=True):
    """A message as a turn receives it."""

    message_id: str
    list: ListName
    kind: str
    attempt: int
    """0 the first time; one more for every time it was put back in line."""
    body: str


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of every call that inserts a message."""

    message_id: str
    sequence: int
    duplicate: bool
    """True for a repeat: nothing was inserted and the other fields are the first call's."""
    placement: Placement
    """`started`: this call started the driver. `latched`: it runs after what is in the way.
    `parked`: non-waking on an idle session, or the session is closing. `delivered`: the agent that asked has this
    answer. `queued`: all else."""


class InboxEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A pending or in-flight message, as `snapshot` shows it."""

    message_id: str
    sequence: int
    list: ListName
    wake: bool
    awake: bool
    """True while it is pending, waking and above the park mark: such a message restarts the session."""
    kind: str
    attempt: int
    sender: str
    body: str


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """The two pending lists and the messages of the open turn, each in order."""

    next_turn: tuple[InboxEntry, ...] = ()
    next_step: tuple[InboxEntry, ...] = ()
    in_flight: tuple[InboxEntry, ...] = ()


class Deadline(msgspec.Struct, frozen=True):
    """Something that ends by itself. `at_ms` is on the server's clock."""

    kind: str
    at_ms: int


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The whole record and inbox of a session, read at one moment."""

    session_id: str
    lifecycle: Lifecycle
    status: Literal["idle", "running"]
    phase: Literal["idle", "running", "maintenance"]
    policy: SessionPolicy
    turn: int
    """The number of the newest turn; 0 before the first."""
    generation: int
    """The number of the newest prompt; it never goes down or repeats."""
    open_turn: int
    """The turn that is open now; 0 when none is."""
    attempt: int
    accepted: bool
    """True once the agent took the open prompt."""
    activity: str
    execution_id: str
    execution_status: Literal["none", "starting", "ready", "running", "failed"]
    worker_id: str
    resume_token: str
    unsettled_turn: int
    last_turn: int
    """The numbered turn that ended last; 0 before the first."""
    last_reason: str
    last_outcome: str
    """What the settlement of that turn did: `advanced stayed moved question none`, `failed` when its handlers did, or
    `superseded`; empty while it is unsettled."""
    handler_failures: int
    cancel_pending: bool
    cancel_kind: str
    """The kind of the pending operation: the strongest of those that joined it; empty without one."""
    cancel_id: str
    """The ticket of the pending operation, or of the last one."""
    cancel_outcome: str
    """How the last operation ended; empty while one is pending, and before the first."""
    cancel_revision: int
    """One more for every change of an operation; it never goes down."""
    maintenance: str
    """The name of the maintenance job that has the session; empty without one."""
    reset_pending: bool
    """Whether the session's context is being reset: nothing starts meanwhile."""
    reset_id: str
    """The reset that is on, or the last one."""
    reset_outcome: str
    """How the last reset ended: `committed` or `failed`; empty while one is on, and before the first."""
    workflow: str
    """The name of the session's workflow; empty without one."""
    step: str
    """The step that the session is at."""
    step_entry: str
    """The id of that step's present entry: another one each time that it is entered."""
    step_failed: bool
    """True if the step's entry has failed: it is the present one, and was not entered."""
    signalled: bool
    """True once the present entry of the step was signalled."""
    entering: str
    """The id of the entry that is under way; empty when none is."""
    pending_move: str
    """The step of the move that the next settlement applies; empty without one."""
    question: str
    """The id of the open question; its text is in the log. Empty without one."""
    question_turn: int
    """The turn that asked it; 0 without one."""
    sequence: int
    park_mark: int
    waiting_for: str
    """Empty, or what holds up the next turn: placement, start, settlement, guard, reset, entry, question."""
    guard_owner: str
    guard_number: int
    guard_ms: int
    """Milliseconds until the guard's lease ends; 0 when it is free."""
    suspects: tuple[str, ...]
    """Executions whose end nobody has confirmed; they are never used again."""
    now_ms: int
    """The server's clock when this was read."""
    deadlines: tuple[Deadline, ...]
    opened_ms: int
    status_ms: int
    inbox: Inbox


class LogEntry(msgspec.Struct, frozen=True):
    """One entry of a session's log. `fields` is text to text, `type` left out."""

    id: str
    type: str
    fields: dict[str, str]


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended, as its log tells."""

    turn: int
    generation: int
    reason: str
    text: str
    error: str
