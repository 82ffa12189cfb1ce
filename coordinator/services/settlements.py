"""Settling a turn that has ended, once, whoever delivers its ready and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from coordinator.domain.events import AgentReady
    from coordinator.store.store import Reply, Store


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What a settlement's script answered."""

    verdict: Verdict
    """OK, STALE, NO_SESSION (both acknowledged), GUARDED, GUARD_LOST (nothing written), FAILED, DEAD."""
    detail: str = ""
    """The outcome, what differs, or the number of failures."""
    ms_left: int = 0
    """With GUARDED: when the guard runs out, in milliseconds."""


class Settlements:
    """The replica's scripts. Whatever the same ready is asked for again, its turn is settled at most once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def settle(self, event: AgentReady, entry_id: str, guard_number: int = 0) -> Settled:
        """Settle the turn that `event` names and acknowledge its entry, in one script."""
        return _settled(
            await self._store.call(
                "settle", event.session_id, entry_id=entry_id, guard_number=guard_number, **_identity(event)
            )
        )

    async def begin(self, event: AgentReady, entry_id: str, guard_number: int) -> Settled:
        """Ask, under the guard, whether the ready is current: OK, with the handler failures so far as its detail."""
        return _settled(
            await self._store.call(
                "settle_begin", event.session_id, entry_id=entry_id, guard_number=guard_number, **_identity(event)
            )
        )

    async def failed(self, event: AgentReady, entry_id: str, guard_number: int, error: str, tries: int) -> Settled:
        """Count a failed handler: FAILED, or after `tries` of them DEAD, with the turn settled as failed."""
        return _settled(
            await self._store.call(
                "settle_failed",
                event.session_id,
                entry_id=entry_id,
                guard_number=guard_number,
                error_text=error[:2000],
                tries=tries,
                **_identity(event),
            )
        )


def _identity(event: AgentReady) -> dict[str, str | int]:
    return {"execution_id": event.execution_id, "generation": event.generation, "claim_id": event.claim_id}


def _settled(reply: Reply) -> Settled:
    detail = reply.details[0] if reply.details else ""
    if reply.word is Verdict.GUARDED:
        return Settled(verdict=reply.word, ms_left=max(1, int(detail)))
    return Settled(verdict=reply.word, detail=detail)
