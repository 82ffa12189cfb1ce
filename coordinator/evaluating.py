"""Settling a turn under its session's guard: what its end means for handlers and for the session's workflow."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from coordinator.domain.errors import GuardLost
from coordinator.domain.events import AgentReady
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step
from coordinator.handlers import HandlerError, Handlers, SettledTurn, deadly
from coordinator.services import Kernel
from coordinator.services.settlements import Begun
from coordinator.services.workflows import Published
from coordinator.session import Session
from coordinator.settings import Settings
from coordinator.streams.backoff import after_failure, while_busy
from coordinator.streams.group import Entry

_log = logging.getLogger(__name__)

_BEGINNINGS: Final = 5
"""How often a turn is evaluated anew at once when what was read has changed meanwhile; later it is tried again."""
_STAYS: Final = "the turn's end moves nothing"
_OVER: Final = frozenset({Verdict.OK, Verdict.STALE, Verdict.NO_SESSION})


class Evaluating:
    """Evaluates `on_turn_complete`, the step's setting and the Python handlers alike, and settles by the result.

    What comes first, a pending move or a question, is decided by the scripts, before and once more at the end.
    """

    def __init__(self, kernel: Kernel, handlers: Handlers, session: Callable[[str], Session], owner: str) -> None:
        self._kernel = kernel
        self._settings: Settings = kernel.store.settings
        self._handlers = handlers
        self._session = session
        self._owner = owner
        self._ran: dict[tuple[int, str], str] = {}
        """Of entries whose handlers took longer than a guard lives unextended: empty, or the failure to be counted.

        Something blocked the event loop, and would again: they are not run anew only because the guard was lost.
        """

    async def settle(self, entry: Entry, event: AgentReady, tries: int) -> float | None:
        """Take the guard and settle the turn: None when that is over, else seconds until the next try."""
        async with self._kernel.guards.taken(event.session_id, self._owner) as guard:
            if guard.verdict is Verdict.GUARD_BUSY:
                return while_busy(tries)
            if guard.verdict is not Verdict.OK:
                await self._kernel.settlements.settle(event, entry.id)
                return None
            try:
                delay = await self._under_guard(entry, event, guard.number, tries)
            except HandlerError as error:
                most = self._settings.handler_tries
                delay = await self._handlers_failed(entry, event, guard.number, str(error), tries, most=most)
        if delay is None:
            self._ran.pop(entry.key, None)
        return delay

    async def _under_guard(self, entry: Entry, event: AgentReady, number: int, tries: int) -> float | None:
        settlements, ran = self._kernel.settlements, entry.key in self._ran
        for _ in range(_BEGINNINGS):
            begun = await settlements.begin(event, entry.id, number)
            if begun.verdict is not Verdict.OK:
                return None if begun.verdict in {Verdict.STALE, Verdict.NO_SESSION} else while_busy(tries)
            known = await self._published(begun)
            is_complete = _is_completion(begun, known.step)
            if error := self._ran.get(entry.key):
                raise HandlerError(error)
            if is_complete and not ran and self._handlers.turn_complete:
                if error := deadly(entry.deliveries, self._settings.handler_tries):
                    return await self._handlers_failed(entry, event, number, error, tries, most=0)
                began = time.monotonic()
                await self._run_handlers(SettledTurn.of(event, begun.cancel), number)
                ran = True
                if time.monotonic() - began > self._settings.guard_ttl:
                    self._ran[entry.key] = ""
                if known.step is not None:
                    # They may have moved the session, or given the signal that the step asks for.
                    continue
            target, complaint = _decision(known, begun) if is_complete else ("", known.missing)
            settled = await settlements.settle(
                event, entry.id, number, seen=begun, step_to=target, complaint=complaint and f"{complaint}; {_STAYS}"
            )
            if settled.verdict is not Verdict.EVALUATE:
                return None if settled.verdict in _OVER else while_busy(tries)
        return while_busy(tries)

    async def _published(self, begun: Begun) -> Published:
        """Look up the step that the turn ended in, if its end concerns one; the scripts keep no definitions."""
        if begun.evaluates != "evaluate" or not begun.workflow:
            return Published()
        return await self._kernel.workflows.published(begun.workflow, begun.step)

    async def _handlers_failed(
        self, entry: Entry, event: AgentReady, number: int, error: str, tries: int, *, most: int
    ) -> float | None:
        failed = await self._kernel.settlements.failed(event, entry.id, number, error, most)
        if failed.verdict is Verdict.GUARD_LOST:
            # It held up the event loop, and is counted under the next guard.
            self._ran[entry.key] = error
            return while_busy(0)
        self._ran.pop(entry.key, None)
        if failed.verdict is not Verdict.DEAD:
            return after_failure(tries)
        _log.error("turn %d of session %s was given up: %s", event.turn, event.session_id, error)
        return None

    async def _run_handlers(self, turn: SettledTurn, number: int) -> None:
        run = asyncio.create_task(self._handlers.settled(turn, self._session(turn.session_id)))
        hold = asyncio.create_task(self._hold(turn.session_id, number))
        try:
            await asyncio.wait({run, hold}, return_when=asyncio.FIRST_COMPLETED, timeout=self._settings.guard_hold)
            if run.done():
                await run
            elif hold.done() and (late := hold.result()) > self._settings.guard_ttl / 3:
                raise HandlerError(
                    f"something blocked the event loop for {late:.0f} s, and the guard was lost meanwhile."
                )
            elif hold.done():
                raise GuardLost(f"The guard of session {turn.session_id} was lost while handlers ran; they run again.")
            else:
                raise HandlerError(f"handlers took longer than {self._settings.guard_hold:g} s together.")
        finally:
            for task in (run, hold):
                task.cancel()
            await asyncio.gather(run, hold, return_exceptions=True)

    async def _hold(self, session_id: str, number: int) -> float:
        """Extend the guard until it is lost; gives by how many seconds the last extension came too late."""
        clock, pause = asyncio.get_running_loop().time, self._settings.guard_ttl / 3
        while True:
            due = clock() + pause
            await asyncio.sleep(pause)
            late = clock() - due
            if not await self._kernel.guards.extend(session_id, self._owner, number):
                return late


def _is_completion(begun: Begun, step: Step | None) -> bool:
    """Whether the turn's end is a completion: of the stops only a person's is, at a step that says so."""
    if begun.evaluates != "evaluate":
        return False
    return not begun.cancel or (begun.cancel == "user" and step is not None and step.cancel_triggers_turn_complete)


def _decision(known: Published, begun: Begun) -> tuple[str, str]:
    """Give the step that follows, or "" to stay, and what is wrong. A person's stop needs no signal."""
    if known.workflow is None or known.step is None:
        return "", known.missing
    if known.step.requires_signal and not begun.signalled and begun.cancel != "user":
        return "", ""
    target = known.workflow.after(known.step.name)
    if target and known.workflow.step(target) is None:
        return "", f"step {begun.step} of workflow {begun.workflow} leads to {target}, which is no step"
    return target, ""
