"""What a replica does with one entry of an event stream."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import msgspec

from coordinator.domain.events import AgentReady, StepEntering, decode
from coordinator.domain.ids import is_id
from coordinator.domain.verdicts import Verdict
from coordinator.entering import Entering
from coordinator.evaluating import Evaluating
from coordinator.handlers import EVALUATED, EVENTS, Handlers
from coordinator.hooks import Hooks
from coordinator.services import Kernel
from coordinator.session import Session
from coordinator.streams.backoff import while_busy
from coordinator.streams.group import Entry, Group
from coordinator.streams.lanes import session_of

_log = logging.getLogger(__name__)

_RECORDED: Final = {
    "execution_id": "last_execution",
    "generation": "last_generation",
    "claim_id": "last_claim",
    "turn": "last_turn",
    "reason": "last_reason",
    "worker_id": "last_worker",
    "attempt": "last_attempt",
    "cancel_kind": "last_cancel_kind",
    "at_ms": "last_ms",
}
"""A ready's fields, and where the record keeps them."""
_NUMBERS: Final = frozenset({"generation", "turn", "attempt", "at_ms"})


def lane(entry: Entry) -> str:
    """Keep apart what a session waits for, and what waits for something else: none of these waits for another.

    A settlement may wait for a guard whose holder waits for an entry, and an entry for a job while nothing holds up the
    settlement; the scripts put them in order. Hooks that fail delay later hooks alone.
    """
    kind = entry.fields.get("type")
    if kind in EVENTS or entry.fields.get("settlement") == "none":
        return f"{session_of(entry)} hooks"
    return f"{session_of(entry)} entry" if kind == "step.entering" else session_of(entry)


class Settling:
    """Handles entries: settles what is current, drops what is stale, enters steps, runs handlers.

    Whatever Redis leaves unanswered raises, and the entry stays pending.
    """

    def __init__(
        self, kernel: Kernel, group: Group, handlers: Handlers, session: Callable[[str], Session], owner: str
    ) -> None:
        self._kernel = kernel
        self._group = group
        self._handlers = handlers
        self._evaluating = Evaluating(kernel, handlers, session, owner)
        # Each takes the guard for itself: the same owner again would count as the repeat of one call.
        self._entering = Entering(kernel, group, f"{owner}-entry")
        self._hooks = Hooks(kernel, group, handlers, session)

    async def handle(self, entry: Entry, tries: int) -> float | None:
        """Do all for one entry that can be done now: None when it is over, else seconds until the next try."""
        try:
            event = decode(entry.fields)
        except msgspec.ValidationError as error:
            return await self._malformed(entry, tries, error)
        if isinstance(event, StepEntering):
            return await self._entering.handle(entry, event, tries)
        if isinstance(event, AgentReady) and entry.fields.get("settlement") != "none":
            return await self._ready(entry, event, tries)
        return await self._hooks.handle(entry, event)

    async def lost(self, partition: int, number: int) -> None:
        """Count entries that were trimmed away unhandled; their sessions are found by their settlement deadline."""
        _log.warning("%d entries of partition %d were gone before they were handled", number, partition)
        await self._count_malformed(partition, number)

    async def _ready(self, entry: Entry, event: AgentReady, tries: int) -> float | None:
        # Of the other reasons only a stop at some steps is evaluated, and the script knows of those.
        if event.reason not in EVALUATED or not self._handlers.turn_complete:
            settled = await self._kernel.settlements.settle(event, entry.id)
            if settled.verdict is not Verdict.EVALUATE:
                return while_busy(tries) if settled.verdict in {Verdict.GUARDED, Verdict.RESETTING} else None
        return await self._evaluating.settle(entry, event, tries)

    async def _malformed(self, entry: Entry, tries: int, error: Exception) -> float | None:
        if tries == 0:
            _log.warning("entry %s of partition %d can't be read: %s", entry.id, entry.partition, error)
            await self._count_malformed(entry.partition, 1)
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
        absent = {name: "0" if name in _NUMBERS else "" for name in _RECORDED}
        fields = {name: value or absent[name] for name, value in zip(_RECORDED, values, strict=True)}
        return msgspec.convert({"type": "agent.ready", "session_id": session_id, **fields}, AgentReady, strict=False)

    async def _count_malformed(self, partition: int, number: int) -> None:
        store = self._kernel.store
        await store.redis.execute_command("HINCRBY", store.keys.partition(partition)["counters"], "malformed", number)
