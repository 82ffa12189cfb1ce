"""The model's turns: claims, ends, the exit decision (PROTOCOL, section 5; section 9 for losses)."""

from __future__ import annotations

from dataclasses import dataclass, field

from coordinator.domain.records import SessionPolicy
from tests.properties.inbox import Inbox, Message

NATURAL = {"completed", "max_tokens"}


@dataclass
class Prompt:
    """The prompt that is owed."""

    turn: int
    batch: list[Message]
    attempt: int
    accepted: bool = False


@dataclass
class Turns(Inbox):
    """The record, over the inbox and the log. Of executions it knows only whether one is up."""

    policy: SessionPolicy = field(default_factory=SessionPolicy)
    lifecycle: str = "open"
    phase: str = "idle"
    up: bool = False
    driven: bool = False
    turn: int = 0
    generation: int = 0
    unsettled: int = 0
    revision: int = 0
    guard: int = 0
    direct: str = ""
    stopped_by_user: int = 0
    prompt: Prompt | None = None
    operation: tuple[str, str] | None = None
    outcomes: dict[str, str] = field(default_factory=dict)
    reason: str = ""

    # --- activities

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

    def end_prompt(self, reason: str, *, back: bool = False) -> int:
        """The one end of a prompt. It settles the operation; answers the attempts of what went back."""
        assert self.prompt
        highest = 0
        for message in reversed(self.prompt.batch if back else []):
            message.attempt += 1
            highest = max(highest, message.attempt)
            self.lists[message.list].insert(0, message)
            self.note("inbox.returned", message.id)
        self.note("turn.ended", self.prompt.turn, reason)
        self.unsettled, self.prompt, self.reason = self.prompt.turn, None, reason
        self.settle_operation(reason if reason in {"cancelled", "escalated"} else "completed")
        if self.policy.settlement == "none":
            self.settle("none")
        return highest

    def lose(self, reason: str) -> bool:
        """Section 9: what no agent accepted goes back, parked at the third time; under an operation it is used up."""
        assert self.prompt
        if self.operation:
            self.end_prompt("escalated")
        elif self.prompt.accepted:
            again = self.policy.lost_turns == "retry" and self.prompt.attempt < self.policy.retries
            self.end_prompt(reason, back=again)
        else:
            return self.end_prompt(reason, back=True) >= 3
        return False

    # --- the driver

    def claim(self) -> str:
        head = self.lists["next-turn"][:1]
        if self.guard and not (head and head[0].guard == self.guard):
            return "GUARDED"
        if self.unsettled and not self.guard:
            return "UNSETTLED"
        if self.unsettled:
            self.settle("superseded")
        self.turn += 1
        self.note("turn.started", self.turn)
        if not self.pending:
            self.note("turn.ended", self.turn, "completed")
            self.exit()
            return "EMPTY"
        batch = self.lists["next-step"] + head
        self.lists = {"next-step": [], "next-turn": self.lists["next-turn"][1:]}
        self.generation += 1
        self.mark, self.driven = 0, True
        self.prompt = Prompt(self.turn, batch, 1 + max(one.attempt for one in batch))
        for message in batch:
            self.note("inbox.claimed", message.id)
        return "OK"

    def step(self) -> None:
        """A turn that is being stopped takes nothing more."""
        assert self.prompt
        if not self.operation:
            for message in self.lists["next-step"]:
                self.note("inbox.claimed", message.id)
            self.prompt.batch += self.lists["next-step"]
            self.lists["next-step"] = []

    def finish(self, reason: str, *, undelivered: bool = False) -> str:
        """After a stop the stop's row counts, whatever the agent says."""
        assert self.prompt
        stopped = self.operation is not None
        if reason == "interrupted" or (undelivered and not self.prompt.accepted and not stopped):
            parks = self.lose(reason)
        else:
            self.end_prompt(reason)
            parks = reason in {"error", "blocked"} and self.policy.after_error == "park"
        self.up = self.up and reason != "interrupted"
        return self.exit(natural=reason in NATURAL and not stopped, parks=parks and not stopped)

    def lost(self) -> None:
        """The lease is over, or the prompt was never accepted: the execution is never used again."""
        parks = self.lose("lost") if self.prompt else False
        self.up = False
        if self.phase == "running" and self.driven:
            self.exit(parks=parks)

    def settle(self, outcome: str = "") -> None:
        outcome = outcome or ("stayed" if self.reason in NATURAL else "none")
        self.note("turn.settled", self.unsettled, outcome)
        self.unsettled = 0

    def settle_operation(self, outcome: str) -> None:
        if self.operation:
            self.revision += 1
            self.note("cancel.settled", self.operation[0], outcome, self.revision)
            self.outcomes[self.operation[0]] = outcome
            self.operation = None
