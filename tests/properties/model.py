"""Stops of one session in plain Python: PROTOCOL, sections 5 and 6, to be read as the rules.

It has no clock, no keys and no ids of its own. Every method is one script: it answers the word, placement or ticket
that the script answers, and notes what the log has to show.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.properties.turns import Turns

RANK = {"silent": 1, "parent": 2, "user": 3, "replace": 4, "system": 4, "close": 5}
EXCLUSIVE = {"replace", "system"}
PARKS = {"user", "parent"}


@dataclass
class Model(Turns):
    """A session with what clients do to it."""

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

    def first(self, kind: str, message_id: str, chosen: list[str], *, expected: int = 0, guard: int = 0) -> str:
        """Replace, interrupt (`parent`) or direct: first in line and what runs stopped, both or neither."""
        if refused := self._refused(kind, chosen, expected):
            return refused
        # A parent that meets a person's stop cancels nothing, and its message waits its turn.
        yields = self.operation is not None and self.operation[1] == "user"
        interrupts, phase = kind == "parent" and not yields, self.phase
        if interrupts and phase != "idle":
            self.park(spares_direct=self.direct in chosen)
        if chosen:
            self.put_first(chosen)
        else:
            self.insert(message_id, "next-turn", wake=True, first=not yields, guard=guard)
        self.direct = message_id if kind == "direct" else self.direct
        if phase == "idle":
            self.start()
        elif self.prompt or phase == "maintenance":
            if interrupts or (kind == "replace" and self.prompt):
                self.stop(message_id, kind)
            return "latched"
        elif interrupts:
            self.exit()
        return "started" if phase == "idle" or interrupts else "queued"

    def _refused(self, kind: str, chosen: list[str], expected: int) -> str:
        if self.lifecycle != "open":
            return "CLOSED"
        if not self.is_expected(expected):
            return "TURN_CHANGED"
        if not all(map(self.find, chosen)):
            return "GONE"
        if self.operation and (kind != "parent" or self.operation[1] in EXCLUSIVE):
            return "OPERATION"
        return "OWED" if kind == "direct" and (self.prompt or self.find(self.direct)) else ""

    def steer(self, message_id: str) -> str:
        """What is being stopped takes nothing more."""
        if self.find(message_id) is not None and self.operation:
            return "OPERATION"
        return super().steer(message_id)

    # --- operations

    def is_expected(self, turn: int) -> bool:
        return turn in {0, self.prompt.turn if self.prompt else self.unsettled}

    def stop(self, operation_id: str, kind: str) -> str:
        """Record an operation for what is open, or join: the strongest kind counts."""
        if self.operation is None:
            self.operation = (operation_id, kind)
        elif RANK[kind] > RANK[self.operation[1]]:
            self.operation = (self.operation[0], kind)
        else:
            return self.operation[0]
        self.revision += 1
        self.note("cancel.requested", *self.operation, self.revision)
        return self.operation[0]

    def park(self, *, spares_direct: bool = False) -> None:
        """All that was sent so far; the direct prompt that waits is discarded, since its caller waits for it."""
        self.mark = self.sequence
        if not spares_direct and (direct := self.find(self.direct)):
            self.drop(direct, "cancelled")

    def cancel(self, operation_id: str, kind: str, *, keep: bool, expected: int = 0) -> str:
        """The word of a refusal, or the ticket. A person's stop is never refused for what else is recorded."""
        if not self.is_expected(expected):
            return "TURN_CHANGED"
        if self.operation and (kind in EXCLUSIVE or (self.operation[1] in EXCLUSIVE and kind != "user")):
            return "OPERATION"
        if not keep:
            self.discard("cancelled")
        if kind in PARKS and self.phase != "idle":
            self.park()
        if kind == "user" and (self.prompt or self.unsettled) and self.stopped_by_user != self.turn:
            self.stopped_by_user = self.turn
            self.note("turn.cancelled_by_user", self.turn)
        if self.operation or self.prompt or (self.phase == "maintenance" and kind in PARKS):
            return self.stop(operation_id, kind)
        self.outcomes[operation_id] = "cancelled" if kind in PARKS and self.phase == "running" else "idle"
        if self.outcomes[operation_id] == "cancelled":
            self.exit()
        return operation_id

    def escalate(self) -> None:
        """The deadline of the operation, or the worker that says that its agent can't acknowledge."""
        if self.prompt:
            self.end_prompt("escalated")
            self.up = False
            self.exit()
        else:
            self.end_job("escalated")

    def end_job(self, outcome: str) -> None:
        self.settle_operation(outcome)
        self.exit()

    def close(self) -> str:
        if self.lifecycle == "open":
            self.discard("closed")
            self.mark, self.lifecycle = self.sequence, "closing"
            if self.prompt or self.phase == "maintenance":
                self.stop("close", "close")
            else:
                self.exit()
        return self.lifecycle
