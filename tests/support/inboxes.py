"""The oracle's inbox: both lists and every message, played again from the log."""

from __future__ import annotations

from tests.support.history import MessageSeen, TurnSeen, Violation
from tests.support.operations import Operations


class InboxOracle:
    """What became of each message, and what broke a rule on the way."""

    def __init__(self) -> None:
        self.turns: dict[int, TurnSeen] = {}
        self.messages: dict[str, MessageSeen] = {}
        self.violations: list[Violation] = []
        self.operations = Operations(self._check)
        self._open: TurnSeen | None = None
        self._pending: dict[str, list[str]] = {"next-turn": [], "next-step": []}
        self._sequence = 0
        self._drawn: set[int] = set()
        """Numbers that no message had, when a higher one came."""

    def _check(self, rule: str, what: str, *, holds: bool) -> bool:
        if not holds:
            self.violations.append(Violation(rule, what))
        return holds

    def _inserted(self, fields: dict[str, str]) -> None:
        message_id, sequence = fields["message_id"], int(fields["sequence"])
        self._check("9", f"{message_id} was inserted twice", holds=message_id not in self.messages)
        kind = fields.get("kind", "")
        self._numbered(message_id, sequence, was_drawn=kind == "entry")
        self.messages[message_id] = MessageSeen(
            message_id=message_id, line=fields["list"], sequence=sequence, wake=fields["wake"] == "1", kind=kind
        )
        first = kind in {"replace", "direct", "entry", "answer"} or (
            kind == "parent" and self.operations.kind != "user"
        )
        self._put(message_id, fields["list"], 0 if first else None)

    def _numbered(self, message_id: str, sequence: int, *, was_drawn: bool) -> None:
        """Numbers rise by one; a step's prompt has one that was drawn when the step was decided."""
        holds = sequence in self._drawn if was_drawn else sequence > self._sequence
        self._check("9", f"{message_id} has sequence {sequence}", holds=holds or sequence > self._sequence)
        self._drawn |= set(range(self._sequence + 1, sequence))
        self._drawn.discard(sequence)
        self._sequence = max(sequence, self._sequence)

    def _put(self, message_id: str, name: str, place: int | None) -> None:
        """Into a list, at a place or at its end; the ranks say in which order the list is to stay."""
        line, ranks = self._pending[name], [one.rank for one in self.messages.values()]
        if place is None or place >= len(line):
            rank, place = max(ranks) + 1, len(line)
        elif place == 0:
            # Ahead of all that waits, and behind what the open turn gives back if it is lost.
            head, turn = self.messages[line[0]].rank, self._open
            flying = [self.messages[one] for one in (turn.messages if turn else [])]
            below = [one.rank for one in flying if one.line == name and one.rank < head]
            rank = (max(below) + head) / 2 if below else head - 1
        else:
            rank = (self.messages[line[place - 1]].rank + self.messages[line[place]].rank) / 2
        line.insert(place, message_id)
        self.messages[message_id].line, self.messages[message_id].rank = name, rank

    def _moved(self, fields: dict[str, str]) -> None:
        message_id, before = fields["message_id"], fields.get("before", "")
        source, target = self._pending[self.messages[message_id].line], self._pending[fields["list"]]
        if not self._check("9", f"{message_id} was moved and is not pending", holds=message_id in source):
            return
        source.remove(message_id)
        known = not before or before in target
        self._check("9", f"{message_id} was moved before {before}, which is not there", holds=known)
        self._put(message_id, fields["list"], target.index(before) if before in target else None)
        if sequence := fields.get("sequence"):
            self._numbered(message_id, int(sequence), was_drawn=False)
            self.messages[message_id].sequence = int(sequence)

    def _claimed(self, fields: dict[str, str]) -> None:
        message_id, turn, line = fields["message_id"], self._open, self._pending[fields["list"]]
        at_head = line[:1] == [message_id]
        self._check("9", f"{message_id} was claimed and is not the head of {fields['list']}", holds=at_head)
        if message_id not in line:
            return
        line.remove(message_id)
        named = turn is not None and int(fields["turn"]) == turn.turn
        if not self._check("4", f"{message_id} was claimed for turn {fields['turn']}, not open", holds=named):
            return
        assert turn is not None
        message = self.messages[message_id]
        others = [self.messages[one] for one in turn.messages if self.messages[one].line == "next-turn"]
        if fields["list"] == "next-turn" and others:
            given = message.kind == "answer"
            self._check("9", f"turn {turn.turn} took a second next-turn message", holds=given)
            # An answer for the agent that waits belongs behind what the turn began with.
            message.rank = max(one.rank for one in others)
        turn.messages.append(message_id)
        message.turns.append(turn.turn)

    def _returned(self, fields: dict[str, str]) -> None:
        message_id, turn = fields["message_id"], self._open
        flying = turn is not None and message_id in turn.messages and message_id not in turn.returned
        if not self._check("9", f"{message_id} went back and was in no open turn", holds=flying):
            return
        assert turn is not None
        message = self.messages[message_id]
        if fields.get("why") == "unheard":
            self._unheard(message, turn)
            return
        message.returned += 1
        turn.returned.append(message_id)
        line = self._pending[message.line]
        line.insert(0, message_id)
        ordered = [self.messages[one].rank for one in line]
        self._check("9", f"{message_id} went back out of order", holds=ordered == sorted(ordered))
        self._check("9", f"{message_id} hides an attempt", holds=int(fields["attempt"]) == message.returned)

    def _unheard(self, message: MessageSeen, turn: TurnSeen) -> None:
        """An answer that the turn was given and its agent never saw: as if it had not been in it."""
        self._check("9", f"{message.message_id} is no answer", holds=message.kind == "answer")
        turn.messages.remove(message.message_id)
        message.turns.remove(turn.turn)
        line = self._pending[message.line]
        message.rank = min((self.messages[one].rank for one in line), default=0.0) - 1
        line.insert(0, message.message_id)

    def _discarded(self, fields: dict[str, str]) -> None:
        message_id, line = fields["message_id"], self._pending[fields["list"]]
        if self._check("9", f"{message_id} was discarded and is not pending", holds=message_id in line):
            line.remove(message_id)
            self.messages[message_id].discarded = fields["why"]

    @property
    def pending(self) -> dict[str, list[str]]:
        """What is in each list now."""
        return self._pending

    @property
    def open(self) -> TurnSeen | None:
        """The turn that is open now."""
        return self._open
