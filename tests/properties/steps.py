"""The model's workflow: entries, moves, and what a turn's end may do (PROTOCOL, sections 7 and 8)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.properties.activities import RANK, Activities

NATURAL = {"completed", "max_tokens"}


@dataclass
class Steps(Activities):
    """Entries are numbered here, and have ids in the record."""

    workflow: str = ""
    step: str = ""
    entry: int = 0
    entering: bool = False
    tries: int = 0
    entry_sequence: int = 0
    dropped: bool = False
    failed: bool = False
    signalled: int = 0
    moving: str = ""
    """Where the pending move goes."""
    deferred: bool = False
    """Whether it waits for the turn that is under way, whatever is entered meanwhile."""
    question: str = ""
    question_turn: int = 0
    waits: bool = False
    reason: str = ""
    last_turn: int = 0
    last_entry: int = 0
    last_kind: str = ""
    interrupted_by: str = ""
    """The message of an interrupt that parked the prompt of the entry that is under way."""
    late_kind: str = ""
    returned: bool = False
    outcome: str = ""

    # --- entries

    def begin_entry(self, step: str) -> None:
        """A transition: the step's prompt takes its place in the sequence now."""
        self.step, self.entering, self.dropped, self.failed = step, True, False, False
        self.entry += 1
        self.sequence += 1
        self.tries, self.signalled, self.entry_sequence, self.interrupted_by = 0, 0, self.sequence, ""

    def enter_end(self, message_id: str, *, ok: bool) -> None:
        """Its prompt, without an id if it has none, goes first; a stop that came meanwhile parks or drops it."""
        if ok:
            self.entering = False
            self.note("step.entered", self.step)
            if message_id:
                self.insert(message_id, "next-turn", wake=True, first=True, sequence=self.entry_sequence)
            line = self.lists["next-turn"]
            ids = [one.id for one in line]
            if message_id and self.dropped:
                self.drop(line[0], "cancelled")
            elif message_id and self.interrupted_by in ids:
                line.insert(ids.index(self.interrupted_by), line.pop(0))
                self.note("inbox.moved", message_id)
        else:
            self.fail_entry()
        self.go_on()

    def expire_entry(self) -> None:
        self.tries += 1
        if self.tries == 3:
            self.fail_entry()
            self.go_on()

    def fail_entry(self) -> None:
        """It parks; an activity with nothing open ends."""
        self.entering, self.failed = False, True
        if self.phase == "running" and not self.prompt:
            self.exit(parks=True)
        else:
            self.mark = self.sequence

    def go_on(self) -> None:
        if not (self.deferred and (self.prompt or self.unsettled)):
            self.apply_move()
        if self.phase == "idle" and self.lifecycle == "open" and self.wakes:
            self.start()

    # --- moves

    def apply_move(self) -> None:
        """To where the session is it changes nothing, unless that step was not entered."""
        step, self.moving = self.moving, ""
        if step:
            self.note("move.applied", step)
        if step and (step != self.step or self.failed):
            self.begin_entry(step)

    def move_to(self, step: str, *, deferred: bool) -> str:
        if self.lifecycle != "open":
            return "CLOSED"
        self.moving, self.deferred = step, deferred
        if self.unsettled or self.entering or (deferred and self.phase == "running"):
            self.note("move.pending", step)
            return "pending"
        self.apply_move()
        return "applied"

    # --- a turn's end

    @property
    def stopper(self) -> str:
        """A stop between the end and the settlement counts as well."""
        return self.late_kind if RANK[self.late_kind] > RANK[self.last_kind] else self.last_kind

    @property
    def in_step(self) -> bool:
        return bool(self.workflow) and not (self.entering or self.failed) and self.last_entry == self.entry

    def note_late_stop(self, kind: str) -> None:
        if not self.prompt and self.unsettled and RANK[kind] > RANK[self.late_kind]:
            self.late_kind = kind

    def evaluation(self) -> str:
        if self.lifecycle != "open":
            return "none"
        if self.moving and not self.returned and not self.entering:
            return "moved"
        if self.question and self.question_turn == self.last_turn:
            return "question"
        if self.stopper == "":
            return "evaluate" if self.reason in NATURAL else "none"
        may = self.stopper == "user" and self.reason in NATURAL | {"cancelled", "escalated"}
        return "evaluate" if may else "none"

    def settle(self, outcome: str = "") -> None:
        self.note("turn.settled", self.last_turn, outcome)
        self.unsettled, self.late_kind, self.outcome = 0, "", outcome

    def settlement(self, guard: int, seen: tuple[str, str, int] | None, step_to: str) -> str:
        """The word of a refusal, or the outcome. `seen` is what the replica was told: word, whose stop, entry."""
        if self.reset:
            return "RESETTING"
        if guard != self.guard:
            return "GUARD_LOST" if guard else "GUARDED"
        word = self.evaluation()
        if word == "evaluate" and (guard or self.in_step) and (seen is None or seen[:2] != (word, self.stopper)):
            return "EVALUATE"
        outcome = word
        if word == "evaluate":
            outcome = "none" if self.stopper else "stayed"
            if step_to and seen and seen[2] == self.entry and self.in_step:
                outcome = "advanced"
        if outcome == "question":
            # What the expiry of the question reads again.
            self.last_kind = self.stopper
        self.settle(outcome)
        if outcome == "advanced":
            self.begin_entry(step_to)
        elif outcome == "moved":
            self.apply_move()
        self.guard = 0
        return outcome
