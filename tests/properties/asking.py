"""Questions of the agent, and all rules together."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from coordinator.domain.verdicts import Verdict
from tests.properties.machine import REASONS, STEPS, is_open, now_and_then
from tests.properties.stepping import Stepping


class Everything(Stepping):
    """All rules."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[str] = ["q0"]

    @precondition(is_open)
    @rule(data=st.data(), fresh=st.sampled_from([True, True, False]))
    def ask(self, data: st.DataObject, fresh: bool) -> None:
        """A new question, or one that was asked before: it looks for the answer."""
        question = self.new("q") if fresh else data.draw(st.sampled_from(self.questions[-3:]))
        self.questions += [question] if fresh else []
        ownership, model = self.ownership, self.model
        found = self.world.run(self.kernel.questions.ask(self.sid, ownership, question, "which?"))
        assert found.verdict == model.ask(question)
        assert found.answer == ("this one" if found.verdict is Verdict.ANSWERED else "")
        if found.verdict is Verdict.OK:
            self.calls[question] = lambda: self.kernel.questions.ask(self.sid, ownership, question, "which?")

    @precondition(lambda self: self.model.question)
    @rule(waits=st.booleans())
    def answer(self, waits: bool) -> None:
        """Perhaps its agent has given up waiting before."""
        question, model = self.model.question, self.model
        if not waits:
            self.made(self.new("x"), lambda: self.kernel.questions.leave(self.sid, question))
            model.leave_question(question)
        one = self.new("m")
        found = self.put(one, lambda: self.kernel.questions.answer(self.sid, question, "this one", message_id=one))
        self.ids.append(one)
        assert found == model.answer(question, one)

    @precondition(lambda self: is_open(self) and self.model.prompt.answered)
    @rule()
    def unheard(self) -> None:
        """The agent had left when the answer came."""
        prompt, ownership = self.model.prompt, self.ownership
        assert prompt
        question = prompt.answered
        self.made(self.new("x"), lambda: self.kernel.questions.give_back(self.sid, ownership, question))
        self.model.give_back()

    @precondition(now_and_then(3))
    @rule(data=st.data())
    def answer_late(self, data: st.DataObject) -> None:
        """To any question, mostly one that is closed."""
        one, question = self.new("m"), data.draw(st.sampled_from(self.questions[-3:]))
        found = self.put(one, lambda: self.kernel.questions.answer(self.sid, question, "this one", message_id=one))
        self.ids.append(one)
        assert found == self.model.answer(question, one)

    @precondition(lambda self: self.model.question)
    @rule()
    def expire_question(self) -> None:
        self.expired("question")
        turn = self.model.unsettled
        self.model.question_timeout()
        if self.model.unsettled != turn:
            # Its ready is there once more, so that a repeat of the settlement would settle it rightly.
            self.calls = {
                name: call for name, call in self.calls.items() if "-" not in name or name.startswith("reset")
            }

    @precondition(lambda self: is_open(self) and not self.model.question and not self.model.operation)
    @rule(ends=st.booleans(), settles=st.booleans(), over=st.booleans())
    def asking_turn(self, ends: bool, settles: bool, over: bool) -> None:
        """A question, the end of the turn that asked it, and nobody who answers."""
        self.output()
        self.ask(data=None, fresh=True)
        if ends:
            self.finish(reason="completed", undelivered=False)
        if self.model.unsettled and settles and not self.begun:
            self.settle()
            if over and self.model.question:
                self.expire_question()

    @precondition(lambda self: self.model.lifecycle == "open" and not is_open(self) and not self.begun)
    @precondition(lambda self: not self.model.reset and self.model.phase != "maintenance")
    @rule(
        asks=st.booleans(), ends=st.booleans(), reason=st.sampled_from(REASONS), step_to=st.sampled_from(["", *STEPS])
    )
    def next_turn(self, asks: bool, ends: bool, reason: str, step_to: str) -> None:
        """All that the next turn waits for, and the turn."""
        if self.model.unsettled:
            self.whole_settlement(step_to=step_to, enters=True)
        if self.model.entering:
            self.enter_end(how="prompt")
        if self.model.phase == "idle":
            self.send(wake=True, into="next-turn", steer=False)
        if self.model.guard:
            self.released()
        self.claim()
        if is_open(self) and asks:
            self.asking_turn(ends=ends, settles=True, over=False)
        elif is_open(self) and ends:
            self.output()
            self.finish(reason=reason, undelivered=False)
