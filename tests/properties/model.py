"""One session in plain Python: PROTOCOL, sections 5 to 8, to be read as the rules.

It has no clock, no keys and no ids of its own. Every method is one script: it answers the word, placement or ticket
that the script answers, and notes what the log has to show.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.properties.questions import Questions

EXCLUSIVE = {"replace", "system"}
PARKS = {"user", "parent"}


@dataclass
class Model(Questions):
    """A session with what clients do to it."""

    stopped_by_user: int = 0

    # --- clients

    def send(self, message_id: str, *, into: str = "next-turn", wake: bool = True, steer: bool = False) -> str:
        """A waking one starts an idle session, and goes to next-turn while something is being stopped."""
        if self.lifecycle == "closed":
            return "CLOSED"
        into = "next-step" if steer and self.prompt else into
        self.insert(message_id, "next-turn" if self.operation and wake else into, wake=wake)
        if self.lifecycle == "closing" or (self.phase == "idle" and not wake):
            return "parked"
        if self.phase == "idle":
            self.start()
            return "started"
        return "latched" if self.phase == "maintenance" or (self.operation and wake) else "queued"

    def first(self, kind: str, message_id: str, chosen: list[str], *, expected: int = 0) -> str:
        """Replace or interrupt (`parent`): first in line and a stop of what runs, both or neither; none in resets."""
        if refused := self._refused(kind, chosen, expected):
            return refused
        # A parent that meets a person's stop cancels nothing, and its message waits its turn.
        yields = self.operation is not None and self.operation[1] == "user"
        interrupts, phase = kind == "parent" and not yields, self.phase
        if interrupts and (phase != "idle" or self.entering):
            self.park(spares_direct=self.direct in chosen)
        if interrupts:
            self.note_late_stop(kind)
        if interrupts and self.entering:
            self.interrupted_by = self.interrupted_by or (chosen or [message_id])[-1]
        if chosen:
            self.put_first(chosen)
        else:
            self.insert(message_id, "next-turn", wake=True, first=not yields)
        if phase == "idle":
            self.start()
        elif self.prompt or phase == "maintenance":
            if not self.reset and (interrupts or (kind == "replace" and self.prompt)):
                self.stop(message_id, kind)
            return "latched"
        elif interrupts:
            self.exit()
        return "started" if phase == "idle" or interrupts else "queued"

    def put_first(self, chosen: list[str]) -> None:
        """A direct prompt that is chosen is its caller's no more."""
        super().put_first(chosen)
        if self.direct in chosen:
            self.direct = self.direct_is = ""

    def _refused(self, kind: str, chosen: list[str], expected: int) -> str:
        if self.lifecycle != "open":
            return "CLOSED"
        if not self.is_expected(expected):
            return "TURN_CHANGED"
        if not all(map(self.find, chosen)):
            return "GONE"
        if self.operation and not self.reset and (kind != "parent" or self.operation[1] in EXCLUSIVE):
            return "OPERATION"
        return ""

    def put_direct(self, message_id: str, guard: int) -> str:
        """First in line; it stops nothing, and only one may wait."""
        if self.lifecycle != "open":
            return "CLOSED"
        if self.reset:
            return "RESETTING"
        other = self.find(self.direct)
        # One that came back in line and was parked has nobody who waits for it.
        if other and self.direct_is != "over" and not (self.direct_is == "claimed" and not self.is_awake(other)):
            return "OWED"
        if self.direct_is == "over":
            self.drop_direct("expired")
        self.insert(message_id, "next-turn", wake=True, first=True, guard=guard)
        self.direct, self.direct_is = message_id, "waits"
        waits = self.prompt or self.unsettled or self.entering or self.phase == "maintenance"
        if self.phase == "idle":
            self.start()
            return "latched" if waits else "started"
        return "latched" if waits else "queued"

    def withdraw(self, message_id: str) -> str:
        """Taken back when its time is over, and when a turn has given it back."""
        if not message_id or self.direct != message_id or not self.has_direct:
            return "GONE"
        if self.direct_is == "waits":
            return "NOT_DUE"
        self.drop_direct("expired")
        return "OK"

    def steer(self, message_id: str) -> str:
        """What is being stopped takes nothing more."""
        if self.find(message_id) is not None and self.operation:
            return "OPERATION"
        return super().steer(message_id)

    # --- operations

    def is_expected(self, turn: int) -> bool:
        return turn in {0, self.prompt.turn if self.prompt else self.unsettled}

    def park(self, *, spares_direct: bool = False) -> None:
        """All that was sent so far; the direct prompt that waits is discarded, since its caller waits for it."""
        self.mark = self.sequence
        if not spares_direct:
            self.drop_direct("cancelled")

    def cancel(self, operation_id: str, kind: str, *, keep: bool, expected: int = 0) -> str:
        """The word of a refusal, or the ticket. A person's stop is never refused for what else is recorded."""
        if not self.is_expected(expected):
            return "TURN_CHANGED"
        exclusive = kind in EXCLUSIVE or (self.operation and self.operation[1] in EXCLUSIVE and kind != "user")
        if self.operation and exclusive and not self.reset:
            return "OPERATION"
        if not keep:
            self.discard("cancelled")
            self.dropped = self.dropped or self.entering
        if kind in PARKS and (self.phase != "idle" or self.entering):
            self.park()
        if kind == "user" and (self.prompt or self.unsettled) and self.stopped_by_user != self.turn:
            self.stopped_by_user = self.turn
            self.note("turn.cancelled_by_user", self.turn)
        if kind in PARKS:
            self.note_late_stop(kind)
        return self._stop(operation_id, kind)

    def _stop(self, operation_id: str, kind: str) -> str:
        """A reset is never touched: the call shares its stop's ticket, or finds nothing to stop."""
        if self.reset and self.operation:
            return self.operation[0]
        if not self.reset and (self.operation or self.prompt or (self.job and kind in PARKS)):
            return self.stop(operation_id, kind)
        ends = kind in PARKS and self.phase == "running" and not self.reset
        self.outcomes[operation_id] = "cancelled" if ends else "idle"
        if ends:
            self.exit()
        return operation_id

    def escalate(self) -> None:
        """The deadline of the operation, or the worker that says that its agent can't acknowledge."""
        if self.prompt:
            self.end_prompt("escalated")
            self.void()
            self.leave(natural=False, parks=False, confirmed=False)
        else:
            self.end_job("escalated")

    def end_job(self, outcome: str) -> None:
        self.settle_operation(outcome)
        self.exit()

    def close(self) -> str:
        if self.lifecycle == "open":
            self.discard("closed")
            self.mark, self.lifecycle = self.sequence, "closing"
            if self.question:
                self.expire_question("closed")
            self.failed, self.entering = self.failed or self.entering, False
            self._cut_reset()
            if self.prompt or self.phase == "maintenance":
                self.stop("close", "close")
            else:
                self.exit()
        return self.lifecycle

    def _cut_reset(self) -> None:
        called = self.called
        if self.reset:
            self.end_reset("failed")
        if called:
            self.void()
            self.rest()
