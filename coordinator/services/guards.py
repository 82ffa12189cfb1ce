"""The per-session guard: a lease with an owner and a fencing number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from coordinator.store.store import Store


class GuardState(msgspec.Struct, frozen=True, kw_only=True):
    """What taking the guard answered."""

    verdict: Verdict
    """OK, GUARD_BUSY or NO_SESSION."""
    number: int = 0
    """The fencing number of this hold; higher than that of every hold before."""
    ms_left: int = 0
    owner: str = ""


class Guards:
    """The guard's scripts. The lease is `guard_ttl`; who holds it longer than that extends it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def acquire(self, session_id: str, owner: str) -> GuardState:
        """Take the guard if it is free; the owner's own repeat extends its lease and gives the same number."""
        reply = await self._store.call("guard_acquire", session_id, owner=owner)
        if reply.word is Verdict.OK:
            return GuardState(verdict=reply.word, number=int(reply.details[0]), owner=owner)
        if reply.word is Verdict.GUARD_BUSY:
            return GuardState(verdict=reply.word, ms_left=max(1, int(reply.details[0])), owner=reply.details[1])
        return GuardState(verdict=reply.word)

    async def extend(self, session_id: str, owner: str, number: int) -> bool:
        """Begin the lease anew. False when the guard was lost."""
        reply = await self._store.call("guard_extend", session_id, owner=owner, fence=number)
        return reply.word is Verdict.OK

    async def release(self, session_id: str, owner: str, number: int) -> bool:
        """Give the guard back. False when it was lost before."""
        reply = await self._store.call("guard_release", session_id, owner=owner, fence=number)
        return reply.word is Verdict.OK
