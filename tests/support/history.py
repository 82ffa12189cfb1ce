"""What the oracle makes of a log: turns, messages, and what broke a rule."""

from __future__ import annotations

from typing import Final

import msgspec

NATURAL: Final = frozenset({"completed", "max_tokens"})
FORCED: Final = frozenset({"lost", "interrupted", "escalated"})
REASONS: Final = NATURAL | FORCED | {"cancelled", "error", "blocked"}


class TurnSeen(msgspec.Struct, kw_only=True):
    """One turn, as the log tells it."""

    turn: int
    generation: int
    """0 for an empty turn, which has no prompt."""
    execution_id: str
    claim_id: str
    attempt: int
    messages: list[str] = msgspec.field(default_factory=list)
    returned: list[str] = msgspec.field(default_factory=list)
    accepted: bool = False
    text: str = ""
    reason: str = ""
    """Empty while it is open."""
    settled: list[str] = msgspec.field(default_factory=list)


class MessageSeen(msgspec.Struct, kw_only=True):
    """One message, as the log tells it."""

    message_id: str
    line: str
    sequence: int
    wake: bool
    kind: str = ""
    rank: float = 0.0
    """Its place among all that was ever pending; what is first in line has a low one."""
    turns: list[int] = msgspec.field(default_factory=list)
    returned: int = 0
    discarded: str = ""


class Violation(msgspec.Struct, frozen=True):
    """A rule, and what broke it."""

    rule: str
    what: str
