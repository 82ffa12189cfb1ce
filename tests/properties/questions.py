"""The model's questions (PROTOCOL, section 8)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.properties.turns import Turns


@dataclass
class Questions(Turns):
    """One a session; it belongs to a turn, and outlives its end."""

    asked: list[str] = field(default_factory=list)

    def ask(self, question_id: str) -> str:
        prompt = self.prompt
        assert prompt
        if prompt.answered == question_id:
            return "ANSWERED"
        if self.question == question_id:
            return "OK"
        if question_id in self.asked:
            return "GONE"
        if self.operation:
            return "SUPERSEDED"
        if self.question:
            return "BUSY"
        prompt.accepted = True
        self.question = question_id
        self.asked.append(question_id)
        self.question_turn, self.waits = prompt.turn, True
        self.note("question.asked", question_id)
        return "OK"

    def leave_question(self, question_id: str) -> None:
        """The agent waits no longer; the question stays."""
        self.waits = self.waits and self.question != question_id

    def give_back(self) -> None:
        """The answer that the agent did not hear is the next prompt, and its turn is stopped."""
        prompt = self.prompt
        assert prompt
        if not prompt.answered or self.operation:
            return
        (message,) = [one for one in prompt.batch if one.id == prompt.answer]
        prompt.batch.remove(message)
        self.lists[message.list].insert(0, message)
        self.note("inbox.returned", message.id)
        self.stop(prompt.answer, "silent")
        prompt.answered = prompt.answer = ""

    def answer(self, question_id: str, message_id: str) -> str:
        """The first answer wins: to the agent that waits, else first in line and a silent stop of a turn that asked."""
        if self.lifecycle != "open":
            return "CLOSED"
        if not self.question or self.question != question_id:
            return "STALE"
        prompt = self.prompt
        asks = prompt is not None and prompt.turn == self.question_turn and not self.operation
        is_delivered = asks and self.waits
        self.note("question.answered", question_id)
        self.question, self.question_turn, self.waits = "", 0, False
        self.insert(message_id, "next-turn", wake=True, first=True)
        if prompt and is_delivered:
            self.take(self.lists["next-turn"][:1], prompt)
            prompt.answered, prompt.answer = question_id, message_id
            return "delivered"
        if self.phase == "idle":
            self.start()
            return "started"
        if asks:
            self.stop(message_id, "silent")
            return "latched"
        return "latched" if self.phase == "maintenance" or self.operation else "queued"

    def question_timeout(self) -> None:
        """A silent stop of the turn that asked; its evaluation after all if no stop has met it, and no later turn."""
        question_id, turn = self.question, self.question_turn
        self.expire_question("timeout")
        if self.prompt:
            if self.prompt.turn == turn and not self.operation:
                self.stop(question_id, "silent")
        elif self.last_turn == turn and not self.unsettled and self.outcome == "question" and not self.stopper:
            self.unsettled = turn
