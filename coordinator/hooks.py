"""Running user handlers for events that settle nothing, and giving up those that always fail."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from coordinator.domain.events import AgentReady, Event
from coordinator.handlers import EVALUATED, HandlerError, Handlers, SettledTurn, deadly
from coordinator.services import Kernel
from coordinator.session import Session
from coordinator.streams.backoff import after_failure
from coordinator.streams.group import Entry, Group

_log = logging.getLogger(__name__)


class Hooks:
    """Runs the handlers of an event without the guard, at least once, and then acknowledges its entry."""

    def __init__(self, kernel: Kernel, group: Group, handlers: Handlers, session: Callable[[str], Session]) -> None:
        self._kernel = kernel
        self._group = group
        self._handlers = handlers
        self._session = session
        self._most: Final[int] = kernel.store.settings.handler_tries
        self._failures: dict[tuple[int, str], int] = {}
        """Of the entries in hand; only what handlers did counts, not what Redis left unanswered."""

    async def handle(self, entry: Entry, event: Event) -> float | None:
        """Run what is registered: None when the entry is over, else seconds until the next try."""
        if self._concerns(entry, event) and (error := deadly(entry.deliveries, self._most)):
            await self._give_up(entry, event, error)
            return None
        try:
            await self._run(entry, event)
        except HandlerError as error:
            failures = self._failures[entry.key] = self._failures.get(entry.key, 0) + 1
            if failures < self._most:
                return after_failure(failures - 1)
            await self._give_up(entry, event, str(error))
        else:
            await self._group.acknowledge(entry)
        self._failures.pop(entry.key, None)
        return None

    def _concerns(self, entry: Entry, event: Event) -> bool:
        if isinstance(event, AgentReady):
            return bool(self._handlers.turn_complete)
        return bool(self._handlers.by_event.get(entry.fields["type"]))

    async def _run(self, entry: Entry, event: Event) -> None:
        session = self._session(event.session_id)
        if not isinstance(event, AgentReady):
            await self._handlers.happened(entry.fields["type"], event, session)
        elif event.reason in EVALUATED and not event.cancel_kind:
            await self._handlers.settled(SettledTurn.of(event), session)

    async def _give_up(self, entry: Entry, event: Event, error: str) -> None:
        kind = entry.fields["type"]
        _log.error("%s of session %s was given up: %s", kind, event.session_id, error)
        await self._kernel.settlements.give_up(event.session_id, entry.id, kind, event.key, error)
