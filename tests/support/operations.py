"""What the oracle makes of cancel operations: one at a time, each settled once, with what it was recorded for."""

from __future__ import annotations

from typing import Final, Protocol

from coordinator.domain.records import LogEntry

OUTCOMES: Final = frozenset({"cancelled", "escalated", "completed"})
"""Those of an operation that was recorded; `idle` and `cancelled` at once leave none."""


class Check(Protocol):
    """Notes a violation of a rule unless it holds."""

    def __call__(self, rule: str, what: str, *, holds: bool) -> bool:
        """Whether it holds."""


class Operations:
    """Fed with every entry of a log; `outcomes` is what became of each operation."""

    def __init__(self, check: Check) -> None:
        self.pending = ""
        self.kind = ""
        self.revision = 0
        self.outcomes: dict[str, str] = {}
        self.kinds: dict[str, list[str]] = {}
        """Of each operation: the kinds that it had, the first first."""
        self.by_user: list[int] = []
        """The turns that a person stopped."""
        self._turn = 0
        self._check = check

    def feed(self, entry: LogEntry, open_turn: int) -> None:
        """Take an entry; others than those of operations are none of its business."""
        match entry.type:
            case "cancel.requested":
                self._requested(entry.fields, open_turn)
            case "cancel.settled":
                self._settled(entry.fields, open_turn)
            case "turn.cancelled_by_user":
                turn = int(entry.fields["turn"])
                self._check("5", f"turn {turn} was stopped by a person twice", holds=turn not in self.by_user)
                self.by_user.append(turn)
            case _:
                pass

    def _rises(self, fields: dict[str, str]) -> None:
        revision = int(fields["revision"])
        self._check("11", f"revision {revision} after {self.revision}", holds=revision == self.revision + 1)
        self.revision = revision

    def _requested(self, fields: dict[str, str], open_turn: int) -> None:
        operation_id, kind = fields["operation_id"], fields["kind"]
        self._rises(fields)
        joins = self.pending == operation_id
        self._check("11", f"{operation_id} beside {self.pending}", holds=joins or not self.pending)
        self._check("11", f"{operation_id} again as {kind}", holds=(kind != self.kind) is joins or not self.pending)
        self._check("11", f"{operation_id} after its end", holds=operation_id not in self.outcomes)
        named = not open_turn or int(fields["turn"]) == open_turn
        self._check("4", f"{operation_id} names turn {fields['turn']}, not {open_turn}", holds=named)
        self.pending, self.kind, self._turn = operation_id, kind, open_turn
        self.kinds.setdefault(operation_id, []).append(kind)

    def _settled(self, fields: dict[str, str], open_turn: int) -> None:
        operation_id, outcome = fields["operation_id"], fields["outcome"]
        self._rises(fields)
        self._check("11", f"{operation_id} settled, not {self.pending}", holds=operation_id == self.pending)
        self._check("11", f"{operation_id} ended as {outcome}", holds=outcome in OUTCOMES)
        self._check("7", f"{operation_id} settled before its turn ended", holds=not open_turn)
        self.outcomes[operation_id] = outcome
        self.pending = self.kind = ""
