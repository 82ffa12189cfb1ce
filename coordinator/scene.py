"""What an explanation is made from: one session, as it was read at about one moment."""

from __future__ import annotations

import msgspec

from coordinator.domain.records import Snapshot
from coordinator.services.deadlines import OVERDUE_MS
from coordinator.services.workflows import Published


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
    published: Published = Published()
    """What is published of the present step."""

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

    @property
    def leads_to(self) -> str:
        """The step that a completed turn leads to from the present one, or "" for none."""
        workflow, step = self.published.workflow, self.published.step
        return workflow.after(step.name) if workflow and step else ""

    @property
    def lacks_signal(self) -> bool:
        """Whether a turn's end leads on only once the present step was signalled."""
        step = self.published.step
        return bool(self.leads_to and step and step.requires_signal and not self.seen.signalled)

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
