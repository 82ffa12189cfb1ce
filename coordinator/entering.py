"""Carrying out a session's entry into a workflow step, which a script decided: reset, then the step's prompt."""

from __future__ import annotations

import contextlib
import logging
from functools import partial
from typing import Final, Literal

from coordinator.domain.errors import (
    CancelConflict,
    ContentionError,
    GuardBusy,
    GuardLost,
    OwnershipError,
    ResetInProgress,
    SessionBusy,
    SessionUnknown,
    UsageError,
)
from coordinator.domain.events import StepEntering
from coordinator.domain.records import ResetStage
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step
from coordinator.services import Kernel
from coordinator.streams.backoff import while_busy
from coordinator.streams.group import Entry, Group

_log = logging.getLogger(__name__)

_REFUSED: Final = (OwnershipError, ContentionError, UsageError)


class EntryFailed(Exception):
    """Raised when a step can't be entered; the text, for the session's log, says why."""


class Entering:
    """Carries out entries, any number of times and on any replica: each part of one is done once.

    Whatever Redis leaves unanswered raises, and the stream's entry stays pending.
    """

    def __init__(self, kernel: Kernel, group: Group, owner: str) -> None:
        self._kernel = kernel
        self._group = group
        self._owner = owner

    async def handle(self, entry: Entry, event: StepEntering, tries: int) -> float | None:
        """Do what can be done now: None when that is all, else seconds until the next try."""
        try:
            return await self._enter(entry, event, tries)
        except SessionUnknown:
            await self._group.acknowledge(entry)
            return None

    async def _enter(self, entry: Entry, event: StepEntering, tries: int) -> float | None:
        end = partial(self._kernel.workflows.enter_end, event.session_id, event.entry_id, entry.id)
        try:
            step = await self._step(event)
            stage = await self._reset(event) if step.reset_agent_context else "committed"
            if stage == "busy":
                return while_busy(tries)
            if stage == "running":
                # The script that ends the reset announces the entry again, and so does the entry's own deadline.
                await self._group.acknowledge(entry)
                return None
            await end(body=step.prompt if step.auto_start else "")
        except EntryFailed as error:
            if await end(error=str(error)):
                _log.warning("session %s did not enter step %s: %s", event.session_id, event.step, error)
        return None

    async def _step(self, event: StepEntering) -> Step:
        known = await self._kernel.workflows.published(event.workflow, event.step)
        if known.step is None:
            raise EntryFailed(
                f"{known.missing}: start an orchestrator with the right file, then move the session again"
            )
        return known.step

    async def _reset(self, event: StepEntering) -> Literal["busy", "running", "committed"]:
        try:
            stage = await self._begun(event)
        except (GuardBusy, GuardLost, SessionBusy, CancelConflict, ResetInProgress):
            # Each of them has a bound. Failing would park what is sent meanwhile, which is no part of stopping a turn.
            return "busy"
        except SessionUnknown:
            raise
        except _REFUSED as error:
            raise EntryFailed(f"its agent could not be reset: {error}") from error
        if stage == "failed":
            _, why = await self._kernel.resets.state(event.session_id, _reset_id(event))
            raise EntryFailed(f"the reset of its agent failed: {why}")
        return stage

    async def _begun(self, event: StepEntering) -> ResetStage:
        with contextlib.suppress(GuardLost):
            # A repeat needs no guard, and somebody who holds it by now may be waiting for this entry.
            return await self._begin(event, 0)
        async with self._kernel.guards.taken(event.session_id, self._owner) as guard:
            if guard.verdict is Verdict.GUARD_BUSY:
                raise GuardBusy(f"the guard of session {event.session_id} is held", guard.owner, guard.ms_left)
            return await self._begin(event, guard.number)

    async def _begin(self, event: StepEntering, guard_number: int) -> ResetStage:
        return await self._kernel.resets.begin(
            event.session_id, _reset_id(event), guard_number, entry_id=event.entry_id
        )


def _reset_id(event: StepEntering) -> str:
    return f"reset-{event.entry_id}"
