"""What a replica does with one entry of an event stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

import msgspec

from coordinator.domain.errors import CoordinatorError, GuardLost
from coordinator.domain.events import AgentReady, Event, decode
from coordinator.domain.ids import is_id
from coordinator.domain.verdicts import Verdict
from coordinator.handlers import EVALUATED, HandlerError, Handlers, SettledTurn
from coordinator.services import Kernel
from coordinator.session import Session
from coordinator.settings import Settings
from coordinator.streams.group import Entry, Group

_log = logging.getLogger(__name__)

_DELIVERIES_A_TRY: Final = 3
"""An entry that was delivered this often for every try that a handler has, unanswered, kills its readers."""
_RECORDED: Final = {
    "execution_id": "last_execution",
    "generation": "last_generation",
    "claim_id": "last_claim",
    "turn": "last_turn",
    "reason": "last_reason",
    "worker_id": "last_worker",
    "attempt": "last_attempt",
    "at_ms": "last_ms",
}
"""A ready's fields, and where the record keeps them."""


class Settling:
    """Handles entries: settles what is current, drops what is stale, runs handlers, gives up what can't work.

    Whatever Redis leaves unanswered raises, and the entry stays pending.
    """

    def __init__(
        self, kernel: Kernel, group: Group, handlers: Handlers, session: Callable[[str], Session], owner: str
    ) -> None:
        self._kernel = kernel
        self._settings: Settings = kernel.store.settings
        self._group = group
        self._handlers = handlers
        self._session = session
        self._owner = owner

    async def handle(self, entry: Entry, tries: int) -> float | None:
        """Do all for one entry that can be done now: None when it is over, else seconds until the next try."""
        try:
            event = decode(entry.fields)
        except msgspec.ValidationError as error:
            return await self._malformed(entry, tries, error)
        if isinstance(event, AgentReady) and entry.fields.get("settlement") != "none":
            return await self._ready(entry, event, tries)
        return await self._notify(entry, event, tries)

    async def _ready(self, entry: Entry, event: AgentReady, tries: int) -> float | None:
        if event.reason in EVALUATED and self._handlers.turn_complete:
            return await self._evaluate(entry, event, tries)
        settled = await self._kernel.settlements.settle(event, entry.id)
        return _busy(tries) if settled.verdict is Verdict.GUARDED else None

    async def lost(self, partition: int, number: int) -> None:
        """Count entries that were trimmed away unhandled; their sessions are found by their settlement deadline."""
        _log.warning("%d entries of partition %d were gone before they were handled", number, partition)
        await self._count("malformed", partition, number)

    async def _evaluate(self, entry: Entry, event: AgentReady, tries: int) -> float | None:
        guards, session_id = self._kernel.guards, event.session_id
        guard = await guards.acquire(session_id, self._owner)
        if guard.verdict is Verdict.GUARD_BUSY:
            return _busy(tries)
        if guard.verdict is not Verdict.OK:
            await self._kernel.settlements.settle(event, entry.id)
            return None
        try:
            return await self._under_guard(entry, event, guard.number, tries)
        finally:
            await asyncio.shield(self._release(session_id, guard.number))

    async def _under_guard(self, entry: Entry, event: AgentReady, number: int, tries: int) -> float | None:
        settlements = self._kernel.settlements
        begun = await settlements.begin(event, entry.id, number)
        if begun.verdict is not Verdict.OK:
            return None if begun.verdict in {Verdict.STALE, Verdict.NO_SESSION} else _busy(tries)
        most = self._settings.handler_tries
        if entry.deliveries > most * _DELIVERIES_A_TRY:
            error = f"delivered {entry.deliveries} times, and every replica was gone before it answered."
            return await self._handlers_failed(entry, event, number, error, tries, most=0)
        try:
            await self._run_handlers(event, number)
        except HandlerError as error:
            return await self._handlers_failed(entry, event, number, str(error), tries, most=most)
        settled = await settlements.settle(event, entry.id, number)
        return _busy(tries) if settled.verdict in {Verdict.GUARDED, Verdict.GUARD_LOST} else None

    async def _handlers_failed(
        self, entry: Entry, event: AgentReady, number: int, error: str, tries: int, *, most: int
    ) -> float | None:
        failed = await self._kernel.settlements.failed(event, entry.id, number, error, most)
        if failed.verdict is not Verdict.DEAD:
            return _failed(tries)
        _log.error("turn %d of session %s was given up: %s", event.turn, event.session_id, error)
        return None

    async def _run_handlers(self, event: AgentReady, number: int) -> None:
        turn = SettledTurn.of(event)
        run = asyncio.create_task(self._handlers.settled(turn, self._session(event.session_id)))
        hold = asyncio.create_task(self._hold(event.session_id, number))
        try:
            await asyncio.wait({run, hold}, return_when=asyncio.FIRST_COMPLETED, timeout=self._settings.guard_hold)
            if run.done():
                await run
            elif hold.done():
                raise GuardLost(f"The guard of session {event.session_id} was lost while handlers ran; they run again.")
            else:
                raise HandlerError(f"handlers took longer than {self._settings.guard_hold:g} s together.")
        finally:
            for task in (run, hold):
                task.cancel()
            await asyncio.gather(run, hold, return_exceptions=True)

    async def _hold(self, session_id: str, number: int) -> None:
        held = True
        while held:
            await asyncio.sleep(self._settings.guard_ttl / 3)
            held = await self._kernel.guards.extend(session_id, self._owner, number)

    async def _release(self, session_id: str, number: int) -> None:
        # What can't be released runs out by itself, and must not undo what was answered before.
        with contextlib.suppress(TimeoutError, CoordinatorError):
            async with asyncio.timeout(self._settings.guard_ttl):
                await self._kernel.guards.release(session_id, self._owner, number)

    async def _notify(self, entry: Entry, event: Event, tries: int) -> float | None:
        """What settles nothing: handlers run without the guard, and then the entry is acknowledged."""
        try:
            if not isinstance(event, AgentReady):
                await self._handlers.happened(entry.fields["type"], event, self._session(event.session_id))
            elif event.reason in EVALUATED:
                await self._handlers.settled(SettledTurn.of(event), self._session(event.session_id))
        except HandlerError as error:
            if tries + 1 < self._settings.handler_tries:
                return _failed(tries)
            _log.error("%s of session %s was given up: %s", entry.fields["type"], event.session_id, error)
            await self._count("dead", entry.partition, 1)
            await self._group.bury(entry, self._kernel.store.keys.partition(entry.partition)["dead"], str(error))
            return None
        await self._group.acknowledge(entry)
        return None

    async def _malformed(self, entry: Entry, tries: int, error: Exception) -> float | None:
        if tries == 0:
            _log.warning("entry %s of partition %d can't be read: %s", entry.id, entry.partition, error)
            await self._count("malformed", entry.partition, 1)
        event = await self._recorded(entry)
        if event is not None:
            return await self._ready(entry, event, tries)
        await self._group.acknowledge(entry)
        return None

    async def _recorded(self, entry: Entry) -> AgentReady | None:
        """Give the ready that an unreadable entry stands for, by the record of the session that it names."""
        session_id, store = entry.fields.get("session_id", ""), self._kernel.store
        if not is_id(session_id):
            return None
        key = store.keys.session(session_id)["session"]
        unsettled, last_entry, *values = await store.fields(key, "unsettled", "last_entry", *_RECORDED.values())
        if not unsettled or last_entry != entry.id:
            return None
        fields = {name: value or "0" for name, value in zip(_RECORDED, values, strict=True)}
        return msgspec.convert({"type": "agent.ready", "session_id": session_id, **fields}, AgentReady, strict=False)

    async def _count(self, what: str, partition: int, number: int) -> None:
        store = self._kernel.store
        await store.redis.execute_command("HINCRBY", store.keys.partition(partition)["counters"], what, number)


def _busy(tries: int) -> float:
    """50 ms, doubling to 1 s: somebody holds the guard."""
    return min(1.0, 0.05 * (1 << min(tries, 10)))


def _failed(tries: int) -> float:
    """200 ms, doubling to 5 s: a handler failed."""
    return min(5.0, 0.2 * (1 << min(tries, 10)))
