"""Settling a turn that has ended, once, whoever delivers its ready and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from coordinator.domain.events import AgentReady
    from coordinator.store.store import Reply, Store


class Settled(msgspec.Struct, frozen=True, kw_only=True):
    """What a settlement's script answered."""

    verdict: Verdict
    """OK, STALE and NO_SESSION (both acknowledged), FAILED, DEAD.

    GUARDED, GUARD_LOST, RESETTING, EVALUATE: nothing was written.
    """
    detail: str = ""
    """The outcome, what differs, or the number of failures."""
    ms_left: int = 0
    """With GUARDED: when the guard runs out, in milliseconds."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What a ready's turn may do to its session, as it was when its settlement began."""

    verdict: Verdict
    """OK, or what `Settled` says of a ready that is not to be settled now, with its `detail` and `ms_left`."""
    detail: str = ""
    ms_left: int = 0
    failures: int = 0
    """Failed tries of its handlers so far."""
    evaluates: Literal["evaluate", "moved", "question", "none"] = "none"
    """`evaluate`: on_turn_complete may run. `moved`: a pending move comes first. `question`: its question is open."""
    cancel: str = ""
    """The kind of the stop that the turn counts as ended by, also of one that came after its end; empty for none."""
    workflow: str = ""
    """Empty when the turn is not of the present step entry: nothing can be decided for the step then."""
    step: str = ""
    step_entry: str = ""
    signalled: bool = False


class Settlements:
    """The replica's scripts. Whatever the same ready is asked for again, its turn is settled at most once."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def settle(
        self,
        event: AgentReady,
        entry_id: str,
        guard_number: int = 0,
        *,
        seen: Begun | None = None,
        step_to: str = "",
        complaint: str = "",
    ) -> Settled:
        """Settle the turn that `event` names and acknowledge its entry, in one script: OK with the outcome.

        Under a guard, `seen` is what `begin` answered and `step_to` the step that its evaluation goes to; `complaint`
        is for the session's log, when the step could not be evaluated. EVALUATE without a guard: a workflow step is
        concerned, so begin under one; with a guard: what was seen has changed.
        """
        return _settled(
            await self._store.call(
                "settle",
                event.session_id,
                entry_id=entry_id,
                guard_number=guard_number,
                step_to=step_to,
                seen=f"{seen.evaluates} {seen.cancel}" if seen else "",
                seen_entry=seen.step_entry if seen else "",
                next_entry=new_id("n"),
                complaint=complaint[:2000],
                **_identity(event),
            )
        )

    async def begin(self, event: AgentReady, entry_id: str, guard_number: int) -> Begun:
        """Ask, under the guard, whether the ready is current, and what its turn's end may do."""
        reply = await self._store.call(
            "settle_begin", event.session_id, entry_id=entry_id, guard_number=guard_number, **_identity(event)
        )
        if reply.word is not Verdict.OK:
            refused = _settled(reply)
            return Begun(verdict=reply.word, detail=refused.detail, ms_left=refused.ms_left)
        failures, evaluates, cancel, workflow, step, step_entry, signalled = reply.details
        return Begun(
            verdict=reply.word,
            failures=int(failures),
            evaluates=evaluates,
            cancel=cancel,
            workflow=workflow,
            step=step,
            step_entry=step_entry,
            signalled=signalled == "1",
        )

    async def give_up(self, session_id: str, event_id: str, event_type: str, key: str, error: str) -> None:
        """Move an event that settles nothing to the dead stream: its hook has failed too often."""
        await self._store.call(
            "give_up", session_id, event_id=event_id, event_type=event_type, event_key=key, error_text=error[:2000]
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
                next_entry=new_id("n"),
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
