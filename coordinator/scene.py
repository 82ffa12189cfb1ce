"""What an explanation is made from: one session, as it was read at about one moment."""

from __future__ import annotations

import msgspec

from coordinator.domain.records import Snapshot
from coordinator.services.deadlines import OVERDUE_MS


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """What was read about one session, at about one moment."""

    seen: Snapshot
    left: dict[str, int]
    """Milliseconds until each deadline, negative when it is over."""
    worker: str
    workers: int
    """Workers that live."""
    room: int
    """Sessions that they could take."""
    question_text: str = ""
    """What the open question asks."""
    reset_why: str = ""
    """Why the last reset has failed."""
    entry_why: str = ""
    """Why the present step could not be entered."""
    missing_step: str = ""
    """Why the present step is in no definition: the beginning of a sentence."""

    @property
    def overdue(self) -> list[str]:
        """Deadlines that a sweep should have met by now."""
        return [kind for kind, left in self.left.items() if left < -OVERDUE_MS]

    @property
    def awake(self) -> int:
        """Pending messages that start an idle session."""
        return sum(entry.awake for entry in (*self.seen.inbox.next_step, *self.seen.inbox.next_turn))

    @property
    def parked(self) -> int:
        """Pending messages that wait for one that wakes."""
        return len(self.seen.inbox.next_step) + len(self.seen.inbox.next_turn) - self.awake

    def until(self, kind: str) -> str:
        """When a deadline is over, for a sentence."""
        left = self.left.get(kind)
        if left is None:
            return "when it ends"
        return f"in {span(left)}" if left >= 0 else f"now (it was due {span(-left)} ago)"


def span(ms: int) -> str:
    """Give a time in milliseconds in the unit that suits people."""
    for unit, size in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * size:
            return f"{ms / size:.1f} {unit}"
    return f"{ms / 1000:.1f} s"
