"""What ends by itself: finding it, and ending it by compare-and-set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from coordinator.store.queue import Placements
    from coordinator.store.store import Store

OUTAGE_MS = 3000
"""A partition that nobody swept for this long gets one lease of grace (PROTOCOL: expire)."""
OVERDUE_MS = 5000
"""How long after its time a deadline looks as if nobody sweeps."""
MOST_SWEPT = 100
KINDS = (
    "placement", "lease", "start", "acceptance", "cancel", "reset", "entry", "maintenance", "question", "settlement",
    "suspect", "retention",
)  # fmt: skip
_RESTARTING = frozenset({"lease", "start", "acceptance", "cancel", "maintenance", "reset", "entry"})


class Due(msgspec.Struct, frozen=True):
    """A deadline that is over."""

    kind: str
    session_id: str
    score: str
    """Its time as the sorted set has it; ending it compares this."""


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """What one look at a partition found."""

    due: tuple[Due, ...]
    next_ms: int | None
    """Milliseconds until the earliest deadline, 0 when one is due; None when there is none."""


class Expired(msgspec.Struct, frozen=True, kw_only=True):
    """What ending a deadline answered: OK, PLACE, NOT_DUE or GONE."""

    verdict: Verdict
    placed: str = ""
    """The token for which a placement was offered, or empty."""


class Deadlines:
    """The sweeper's scripts. Any number of sweepers may run; each ending takes effect once."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def sweep(self, partition: int) -> Sweep:
        """Look for what is due in a partition, at most a hundred at a time."""
        reply = await self._store.call_partition("sweep", partition, outage_ms=OUTAGE_MS, most=MOST_SWEPT)
        now, first, *members = reply.details
        due = []
        for member, score in zip(members[::2], members[1::2], strict=True):
            kind, _, session_id = member.partition(":")
            due.append(Due(kind, session_id, score))
        next_ms = max(0, int(float(first)) - int(now)) if first != "0" else None
        return Sweep(due=tuple(due), next_ms=next_ms)

    async def expire(self, kind: str, session_id: str, score: str, next_token: str = "") -> Expired:
        """End what is due, unless its deadline was moved since `score` was read; offer the placement that follows."""
        args: dict[str, str | int] = {"score": score}
        if kind in _RESTARTING:
            args["next_token"] = next_token or new_id("a")
        if kind == "entry":
            args["next_entry"] = new_id("n")
        reply = await self._store.call(f"expire_{kind}", session_id, **args)
        place = ""
        if reply.word is Verdict.PLACE:
            place = reply.details[0]
            await self._placements.offer(session_id, place, int(reply.details[1]))
        elif reply.word is Verdict.OK and "next_token" in args and reply.details[0]:
            place = reply.details[0]
            await self._placements.offer(session_id, place)
        return Expired(verdict=reply.word, placed=place)
