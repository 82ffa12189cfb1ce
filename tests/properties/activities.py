"""The model's record, and what owns the session (PROTOCOL, section 5), also while its context is reset (section 8)."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.domain.records import SessionPolicy
from tests.properties.inbox import Inbox, Message

RANK = {"": 0, "silent": 1, "parent": 2, "user": 3, "replace": 4, "system": 4, "close": 5}


@dataclass
class Prompt:
    """The prompt that is owed."""

    turn: int
    batch: list[Message]
    attempt: int
    entry: int
    """The step entry that it began in."""
    accepted: bool = False
    answered: str = ""
    answer: str = ""


@dataclass
class Activities(Inbox):
    """The record, over the inbox and the log. Of executions it knows whether one is up, and how many are suspect."""

    policy: SessionPolicy = field(default_factory=SessionPolicy)
    lifecycle: str = "open"
    phase: str = "idle"
    up: bool = False
    driven: bool = False
    suspects: int = 0
    turn: int = 0
    generation: int = 0
    unsettled: int = 0
    revision: int = 0
    guard: int = 0
    prompt: Prompt | None = None
    operation: tuple[str, str] | None = None
    outcomes: dict[str, str] = field(default_factory=dict)
    reset: str = ""
    resets: dict[str, str] = field(default_factory=dict)
    """How those that are over have ended."""
    resume: str = ""

    def start(self) -> None:
        self.phase, self.driven = "running", False
        self.note("session.status", "running")

    def rest(self) -> None:
        if self.phase == "running":
            self.note("session.status", "idle")
        self.phase = "idle"

    def exit(self, *, natural: bool = False, parks: bool = False) -> str:
        """5.4: closing first, a completed turn goes on with anything, every other end only with what is awake."""
        if self.lifecycle == "closing":
            self.rest()
            self.discard("closed")
            self.lifecycle = "closed"
            self.note("session.closed")
            return "GONE"
        if natural and self.pending:
            return "GO_ON"
        if parks:
            self.mark = self.sequence
        self.rest()
        if natural or not self.wakes:
            return "GONE"
        self.start()
        return "RESTARTED"

    def void(self) -> None:
        """Nobody knows whether the agent has stopped: it is never used again."""
        self.up = False
        self.suspects += 1

    def settle_operation(self, outcome: str) -> None:
        if self.operation:
            self.revision += 1
            self.note("cancel.settled", self.operation[0], outcome, self.revision)
            self.outcomes[self.operation[0]] = outcome
            self.operation = None

    # --- resets

    @property
    def called(self) -> bool:
        """The worker has the session, to replace the provider's."""
        return bool(self.reset) and self.phase == "maintenance"

    @property
    def job(self) -> bool:
        return self.phase == "maintenance" and not self.reset

    def leave(self, *, natural: bool, parks: bool, confirmed: bool) -> str:
        """Under the marker only the driver's own word confirms the stop."""
        if not self.reset:
            return self.exit(natural=natural, parks=parks)
        return self.quiesced() if confirmed else self.fail_reset()

    def quiesced(self) -> str:
        """Nothing is open: without an execution there is nothing to call, and a suspect one makes it fail."""
        self.rest()
        if self.suspects:
            return self.fail_reset()
        if not self.up:
            self.resume = ""
            self.end_reset("committed")
            return self.exit()
        self.phase = "maintenance"
        return "GONE"

    def end_reset(self, outcome: str) -> None:
        self.note(f"reset.{outcome}", self.reset)
        self.resets[self.reset], self.reset = outcome, ""

    def fail_reset(self) -> str:
        """A failed reset parks; a turn that is being stopped for it goes on to its end."""
        self.end_reset("failed")
        if self.prompt:
            self.mark = self.sequence
            return "GO_ON"
        return self.exit(parks=True)

    def fail_call(self) -> None:
        """The deadline, or a worker that is gone: an agent that may be in the call is not used again."""
        if self.called:
            self.void()
        self.fail_reset()

    def reset_begin(self, reset_id: str, *, entered: bool = True) -> str:
        """The stage, or the word of a refusal."""
        if self.lifecycle != "open":
            return "CLOSED"
        if not entered:
            return "SUPERSEDED"
        if self.reset:
            return "RESETTING"
        if self.operation:
            return "OPERATION"
        if self.phase == "maintenance":
            return "BUSY"
        self.reset = reset_id
        self.note("reset.started", reset_id)
        if self.suspects:
            self.fail_reset()
        elif self.prompt:
            self.stop(reset_id, "system")
        else:
            self.quiesced()
        return self.resets.get(reset_id, "running")

    def reset_end(self, resume: str, *, provider: bool = True) -> None:
        """The worker's answer while it has the session: a fresh context, or it failed, perhaps before any call."""
        if resume:
            self.resume = resume
            self.end_reset("committed")
            self.exit()
        elif provider:
            self.fail_call()
        else:
            self.fail_reset()

    def stop(self, operation_id: str, kind: str) -> str:
        """Record an operation for what is open, or join: the strongest kind counts."""
        if self.operation is None:
            self.operation = (operation_id, kind)
            self.outcomes.pop(operation_id, None)
        elif RANK[kind] > RANK[self.operation[1]]:
            self.operation = (self.operation[0], kind)
        else:
            return self.operation[0]
        self.revision += 1
        self.note("cancel.requested", *self.operation, self.revision)
        return self.operation[0]
