"""The per-session guard: a lease with an owner and a fencing number."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.errors import CoordinatorError
from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

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

    @contextlib.asynccontextmanager
    async def taken(self, session_id: str, owner: str) -> AsyncIterator[GuardState]:
        """Try once to take the guard, and give it back at the end. For what is shorter than `guard_ttl`."""
        state = await self.acquire(session_id, owner)
        if state.verdict is not Verdict.OK:
            yield state
            return
        try:
            yield state
        finally:
            await asyncio.shield(self._give_back(session_id, owner, state.number))

    async def _give_back(self, session_id: str, owner: str, number: int) -> None:
        # What can't be released runs out by itself, and must not undo what was answered before.
        with contextlib.suppress(TimeoutError, CoordinatorError):
            async with asyncio.timeout(self._store.settings.guard_ttl):
                await self.release(session_id, owner, number)
