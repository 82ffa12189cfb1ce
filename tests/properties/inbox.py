"""The model's inbox and log: messages that are pending, and what clients may do with one."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Message:
    """One that is pending or in flight."""

    id: str
    sequence: int
    wake: bool
    list: str
    attempt: int = 0
    guard: int = 0


@dataclass
class Inbox:
    """Two ordered lists, the park mark, and the log."""

    sequence: int = 0
    mark: int = 0
    lists: dict[str, list[Message]] = field(default_factory=lambda: {"next-step": [], "next-turn": []})
    log: list[tuple[str, ...]] = field(default_factory=list)

    def note(self, *what: object) -> None:
        self.log.append(tuple(map(str, what)))

    @property
    def pending(self) -> list[Message]:
        return self.lists["next-step"] + self.lists["next-turn"]

    @property
    def wakes(self) -> bool:
        """The latch is derived: a waking message above the mark is pending."""
        return any(self.is_awake(one) for one in self.pending)

    def is_awake(self, message: Message) -> bool:
        return message.wake and message.sequence > self.mark

    def find(self, message_id: str) -> Message | None:
        return next((one for one in self.pending if one.id == message_id), None)

    def insert(
        self, message_id: str, into: str, *, wake: bool, first: bool = False, guard: int = 0, sequence: int = 0
    ) -> None:
        """With a `sequence`, one that was drawn before."""
        self.sequence += 0 if sequence else 1
        message = Message(message_id, sequence or self.sequence, wake, into, guard=guard)
        self.lists[into].insert(0 if first else len(self.lists[into]), message)
        self.note("inbox.inserted", message_id)

    def put_first(self, chosen: list[str]) -> None:
        """Chosen ones go to the head of next-turn in the order of the call, awake whatever they were."""
        for message_id in reversed(chosen):
            self.sequence += 1
            message = self._move(message_id, "next-turn", 0)
            message.sequence, message.wake = self.sequence, True

    def drop(self, message: Message, why: str) -> None:
        self.lists[message.list].remove(message)
        self.note("inbox.discarded", message.id, why)

    def discard(self, why: str) -> None:
        for message in self.pending:
            self.drop(message, why)

    def move(self, message_id: str, before: str) -> str:
        """Before another one, in that one's list; without one to the end of its own."""
        message, other = self.find(message_id), self.find(before)
        if message is None or (before and (other is None or other is message)):
            return "GONE"
        into = other.list if other else message.list
        rest = [one for one in self.lists[into] if one is not message]
        self._move(message_id, into, rest.index(other) if other else len(rest))
        return "OK"

    def steer(self, message_id: str) -> str:
        if self.find(message_id) is None:
            return "GONE"
        self._move(message_id, "next-step", len(self.lists["next-step"]))
        return "OK"

    def remove(self, message_id: str) -> str:
        message = self.find(message_id)
        if message is None:
            return "GONE"
        self.drop(message, "removed")
        return "OK"

    def _move(self, message_id: str, into: str, place: int) -> Message:
        message = self.find(message_id)
        assert message
        self.lists[message.list].remove(message)
        self.lists[into].insert(place, message)
        message.list = into
        self.note("inbox.moved", message_id)
        return message
