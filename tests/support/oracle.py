"""What a session's log proves: its turns, its messages, and every invariant of the protocol that it breaks.

The oracle knows nothing but the log (and, at the end, a snapshot): it plays the inbox and the gate again, entry by
entry, and compares. Rules are named by the number of the invariant; `order` stands for the order of log entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Self

from coordinator.domain.records import LogEntry
from tests.support.history import FORCED, NATURAL, REASONS, TurnSeen
from tests.support.inboxes import InboxOracle


class Oracle(InboxOracle):
    """Feed it a log from its start, entry by entry; `violations` grows with everything that must not be."""

    def __init__(self, *, settlement: str = "required", lost_turns: str = "fail") -> None:
        super().__init__()
        self.intervals: list[list[int]] = []
        """The turns of each running interval."""
        self.workers: dict[str, str] = {}
        """Execution id to worker id, of those that booted."""
        self.stale = 0
        self.running = False
        self.closed = False
        self._required = settlement == "required"
        self._retries = lost_turns == "retry"
        self._generation = 0
        self._claims: set[str] = set()

    def feed_all(self, entries: Iterable[LogEntry]) -> Self:
        """Feed many."""
        for entry in entries:
            self.feed(entry)
        return self

    def feed(self, entry: LogEntry) -> None:
        """Take the next entry."""
        handler = _HANDLERS.get(entry.type)
        if handler is not None:
            handler(self, entry.fields)
        else:
            self._stop(entry)

    def _status(self, fields: dict[str, str]) -> None:
        running = fields["status"] == "running"
        self._check("order", f"status {fields['status']} was said twice", holds=running != self.running)
        self._check("7", f"status {fields['status']} while a turn is open", holds=self._open is None)
        self._check("order", "running after it was closed", holds=not (running and self.closed))
        self.running = running
        if running:
            self.intervals.append([])

    def _closed(self, _: dict[str, str]) -> None:
        self._check("7", "closed while a turn is open", holds=self._open is None)
        self._check("9", "closed with messages pending", holds=not any(self._pending.values()))
        self._check("order", "closed twice", holds=not self.closed)
        self.closed = True

    def _stop(self, entry: LogEntry) -> None:
        self.operations.feed(entry, self._open.turn if self._open else 0)

    def _started(self, fields: dict[str, str]) -> None:
        self._check("4", "a turn began under an operation", holds=not self.operations.pending)
        number, generation, claim = int(fields["turn"]), int(fields.get("generation", "0")), fields.get("claim_id", "")
        newest = max(self.turns, default=0)
        self._check("1", f"turn {number} began while {newest} is open", holds=self._open is None)
        self._check("order", f"turn {number} follows turn {newest}", holds=number == newest + 1)
        self._check("order", f"turn {number} began outside a running interval", holds=self.running and not self.closed)
        if self._required and (before := self.turns.get(newest)) and before.generation:
            self._check("7", f"turn {number} began before {newest} was settled", holds=bool(before.settled))
        if generation:
            self._check("2", f"generation {generation} after {self._generation}", holds=generation > self._generation)
            self._check("2", f"claim {claim} opened two turns", holds=claim not in self._claims)
            self._generation = max(generation, self._generation)
            self._claims.add(claim)
        self._open = self.turns[number] = TurnSeen(
            turn=number,
            generation=generation,
            execution_id=fields["execution_id"],
            claim_id=claim,
            attempt=int(fields.get("attempt", "0")),
        )
        if self.intervals:
            self.intervals[-1].append(number)

    def _names_open(self, what: str, fields: dict[str, str]) -> TurnSeen | None:
        turn, named = self._open, _identity(fields)
        same = turn is not None and named == (turn.turn, turn.generation, turn.execution_id)
        return turn if self._check("4", f"{what} of {named}, which is not open", holds=same) else None

    def _accepted(self, fields: dict[str, str]) -> None:
        if turn := self._names_open("acceptance", fields):
            self._check("4", f"turn {turn.turn} was accepted twice", holds=not turn.accepted)
            turn.accepted = True

    def _output(self, fields: dict[str, str]) -> None:
        if turn := self._names_open("output", fields):
            self._check("4", f"turn {turn.turn} speaks before it was accepted", holds=turn.accepted)
            turn.text += fields["text"]

    def _ended(self, fields: dict[str, str]) -> None:
        turn = self._names_open("end", fields)
        if turn is None:
            return
        self._open, turn.reason = None, fields["reason"]
        forced = turn.reason == "escalated"
        self._check(
            "7", f"turn {turn.turn} escalated with no operation", holds=bool(self.operations.pending) or not forced
        )
        self._check("7", f"turn {turn.turn} ended as {turn.reason}", holds=turn.reason in REASONS)
        empty = fields.get("empty") == "1"
        self._check("9", f"turn {turn.turn} ran without a message", holds=empty == (not turn.messages))
        self._check("2", f"turn {turn.turn} has no generation", holds=empty == (not turn.generation))
        whole = sorted(turn.returned) == sorted(turn.messages)
        self._check("9", f"turn {turn.turn} gave back a part of its batch", holds=whole or not turn.returned)
        if turn.returned and not empty:
            may = turn.reason in FORCED or turn.reason == "error"
            self._check("9", f"turn {turn.turn} ended {turn.reason} and gave its messages back", holds=may)
            again = not turn.accepted or (self._retries and turn.reason in FORCED)
            self._check("9", f"turn {turn.turn} was accepted and gave its messages back", holds=again)
        elif turn.reason in FORCED - {"escalated"} and not turn.accepted:
            self._check("9", f"turn {turn.turn} was never accepted and its messages are gone", holds=empty)

    def _settled(self, fields: dict[str, str]) -> None:
        number, generation, execution_id = _identity(fields)
        turn, outcome = self.turns.get(number), fields["outcome"]
        ended = (
            turn is not None
            and bool(turn.reason)
            and (turn.generation, turn.execution_id)
            == (
                generation,
                execution_id,
            )
        )
        if not self._check("4", f"settlement of turn {number} generation {generation}, not ended", holds=ended):
            return
        assert turn is not None
        # A question only puts the evaluation off: when nobody answers, it is made after all.
        self._check("3", f"turn {number} was settled twice", holds=turn.settled in ([], ["question"]))
        by_person = outcome == "advanced" and turn.turn in self.operations.by_user
        rightly = turn.reason in NATURAL or by_person or outcome not in {"stayed", "advanced"}
        self._check("5", f"turn {number} ended {turn.reason} and was evaluated", holds=rightly)
        turn.settled.append(outcome)

    def _ready_stale(self, _: dict[str, str]) -> None:
        self.stale += 1

    def _booted(self, fields: dict[str, str]) -> None:
        known = fields["execution_id"] in self.workers
        self._check("4", f"execution {fields['execution_id']} booted twice", holds=not known)
        self.workers[fields["execution_id"]] = fields["worker_id"]

    def _trimmed(self, _: dict[str, str]) -> None:
        self._check("order", "the log was trimmed: nothing can be proved", holds=False)


def _identity(fields: dict[str, str]) -> tuple[int, int, str]:
    return int(fields["turn"]), int(fields.get("generation", "0")), fields["execution_id"]


_HANDLERS: Final[dict[str, Callable[[Oracle, dict[str, str]], None]]] = {
    "session.status": Oracle._status,
    "session.closed": Oracle._closed,
    "inbox.inserted": Oracle._inserted,
    "inbox.claimed": Oracle._claimed,
    "inbox.returned": Oracle._returned,
    "inbox.moved": Oracle._moved,
    "inbox.discarded": Oracle._discarded,
    "turn.started": Oracle._started,
    "agent.running": Oracle._accepted,
    "output": Oracle._output,
    "turn.ended": Oracle._ended,
    "turn.settled": Oracle._settled,
    "ready.stale": Oracle._ready_stale,
    "agent.boot_ready": Oracle._booted,
    "log.trimmed": Oracle._trimmed,
}
