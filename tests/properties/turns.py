"""The model's turns: claims, ends, the exit decision (PROTOCOL, section 5; section 9 for losses)."""

from __future__ import annotations

from dataclasses import dataclass

from tests.properties.activities import Prompt
from tests.properties.inbox import Message
from tests.properties.steps import NATURAL, Steps


@dataclass
class Turns(Steps):
    """What a driver does, and what ends what it does."""

    direct: str = ""
    """The newest direct prompt."""
    direct_is: str = ""
    """Whether it waits, is over its time, or was claimed."""

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
        self.unsettled = self.last_turn = self.prompt.turn
        self.last_entry, self.reason, self.returned = self.prompt.entry, reason, back
        self.last_kind = self.operation[1] if self.operation else ""
        self.prompt = None
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

    @property
    def has_direct(self) -> bool:
        return self.find(self.direct) is not None

    def drop_direct(self, why: str) -> None:
        if direct := self.find(self.direct):
            self.drop(direct, why)
        self.direct = self.direct_is = ""

    @property
    def holders_direct(self) -> Message | None:
        """The direct prompt of the guard's holder, wherever it is in line."""
        direct = self.find(self.direct)
        if direct is None or self.direct_is == "over" or direct.list != "next-turn":
            return None
        return direct if self.guard and direct.guard == self.guard else None

    def _is_held_up(self) -> bool:
        head = self.lists["next-turn"][:1]
        is_his = head and head[0].guard == self.guard and head[0].id != self.direct
        return self.guard > 0 and not is_his and not self.holders_direct

    def take(self, batch: list[Message], prompt: Prompt) -> None:
        for message in batch:
            self.lists[message.list].remove(message)
            self.note("inbox.claimed", message.id)
            if message.id == self.direct:
                self.direct_is = "claimed"
        prompt.batch += batch

    def claim(self) -> str:
        if self._is_held_up():
            return "GUARDED"
        if self.entering:
            return "ENTERING"
        if self.unsettled and not self.guard:
            return "UNSETTLED"
        if self.unsettled:
            self.settle("superseded")
        if self.has_direct and self.direct_is == "over":
            self.drop_direct("expired")
        if (his := self.holders_direct) and self.lists["next-turn"][0] is not his:
            self.lists["next-turn"].remove(his)
            self.lists["next-turn"].insert(0, his)
            self.note("inbox.moved", his.id)
        self.turn += 1
        self.note("turn.started", self.turn)
        if not self.pending:
            self.note("turn.ended", self.turn, "completed")
            self.exit()
            return "EMPTY"
        batch = self.lists["next-step"] + self.lists["next-turn"][:1]
        self.generation += 1
        self.mark, self.driven = 0, True
        self.prompt = Prompt(self.turn, [], 1 + max(one.attempt for one in batch), self.entry)
        self.take(batch, self.prompt)
        if self.question:
            self.expire_question("turn")
        return "OK"

    def step_boundary(self) -> None:
        """A turn that is being stopped takes nothing more."""
        assert self.prompt
        if not self.operation:
            self.take(list(self.lists["next-step"]), self.prompt)

    def finish(self, reason: str, *, undelivered: bool = False) -> str:
        """After a stop the stop's row counts, whatever the agent says."""
        assert self.prompt
        stopped, leaves = self.operation is not None, reason == "interrupted"
        if leaves or (undelivered and not self.prompt.accepted and not stopped):
            parks = self.lose(reason)
        else:
            self.end_prompt(reason)
            parks = reason in {"error", "blocked"} and self.policy.after_error == "park"
        if leaves:
            self.void()
        natural = reason in NATURAL and not stopped
        return self.leave(natural=natural, parks=parks and not stopped, confirmed=not leaves)

    def lost(self) -> None:
        """The lease is over, or the prompt was never accepted: the execution is never used again."""
        if self.called:
            self.fail_call()
            return
        parks = self.lose("lost") if self.prompt else False
        self.void()
        if self.phase == "running" and self.driven:
            self.leave(natural=False, parks=parks, confirmed=False)

    def released(self) -> None:
        """An execution that drives nothing is given up: nothing is there to be called any more."""
        self.up = False
        if self.called:
            self.quiesced()

    # --- questions

    def expire_question(self, why: str) -> None:
        self.note("question.expired", self.question, why)
        self.question, self.question_turn, self.waits = "", 0, False
