"""What users hang on to events: which handlers there are, and how one is run."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import msgspec

from coordinator.domain.errors import CoordinatorError, UsageError
from coordinator.domain.events import AgentReady, Event
from coordinator.domain.texts import told
from coordinator.services.reentry import inside
from coordinator.session import Session

_log = logging.getLogger(__name__)

EVENTS: Final = (
    "agent.boot_ready", "agent.failed", "agent.lost", "agent.stopped", "step.entered", "question.asked",
)  # fmt: skip
"""The events that `on_event` takes."""
_OWN: Final = {
    "agent.ready": "agent.ready is settled by the orchestrator; use on_turn_complete to act on a turn's end.",
    "step.entering": "step.entering is carried out by the orchestrator; use on_step_entered to act on what it did.",
}
"""The events that replicas act on themselves, and what to use instead."""
EVALUATED: Final = ("completed", "max_tokens")
"""The reasons for which a turn's end is handed to `on_turn_complete`, whatever its workflow says of stops."""
_DELIVERIES_A_TRY: Final = 3
"""An entry that was delivered this often for every try that a handler has, unanswered, kills its readers."""
_GRACE: Final = 1.0
_SHOWN: Final = 500


class SettledTurn(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that has ended and is being settled. Validated under the guard; nothing in it changes any more."""

    session_id: str
    turn: int
    generation: int
    execution_id: str
    claim_id: str
    reason: str
    """`completed` or `max_tokens`; `cancelled` or `escalated` at a step with `cancel_triggers_turn_complete`."""
    cancel_kind: str
    """Empty, or `user` for a turn that a person stopped at such a step; handlers are run for no other stop."""
    worker_id: str
    attempt: int
    """1 the first time, one more for every time that the turn's messages were put back in line."""
    at_ms: int
    """When the turn ended, in ms on the server's clock."""

    @property
    def key(self) -> str:
        """The idempotency key: the same for every run for this turn, and for no other."""
        return self.claim_id

    @classmethod
    def of(cls, event: AgentReady, cancel_kind: str = "") -> SettledTurn:
        """The turn that an `agent.ready` names, and the stop, perhaps a later one, that it counts as ended by."""
        same = {name: getattr(event, name) for name in cls.__struct_fields__}
        return cls(**{**same, "cancel_kind": cancel_kind})


TurnHandler: TypeAlias = Callable[[SettledTurn, Session], Awaitable[None]]
EventHandler: TypeAlias = Callable[[Any, Session], Awaitable[None]]
AnyHandler: TypeAlias = Callable[[Any, Session], Awaitable[None]]


class HandlerError(CoordinatorError):
    """Raised when a user's handler failed or took too long; the text says which one and how."""

    retryable = True


class Handlers:
    """The registered handlers, in order of registration. Each run has `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self.turn_complete: list[TurnHandler] = []
        self.by_event: dict[str, list[EventHandler]] = {}

    def add_turn_complete(self, handler: TurnHandler) -> None:
        """Register a handler of settled turns.

        Raises UsageError when it is not an async function.
        """
        self.turn_complete.append(_checked(handler))

    def add_event(self, name: str, handler: EventHandler) -> None:
        """Register a handler of one type of event.

        Raises UsageError when there is no such event to handle, or the handler is not an async function.
        """
        if name in _OWN:
            raise UsageError(_OWN[name])
        if name not in EVENTS:
            raise UsageError(f"There is no event {name!r} to handle; there are {', '.join(EVENTS)}.")
        self.by_event.setdefault(name, []).append(_checked(handler))

    async def settled(self, turn: SettledTurn, session: Session) -> None:
        """Run all handlers of settled turns, one after another.

        Raises HandlerError at the first that fails or takes too long; the later ones are not run.
        """
        for handler in self.turn_complete:
            await self._run(handler, turn, turn.session_id, session)

    async def happened(self, name: str, event: Event, session: Session) -> None:
        """Run all handlers of this event.

        Raises HandlerError as `settled` does.
        """
        for handler in self.by_event.get(name, ()):
            await self._run(handler, event, event.session_id, session)

    async def _run(self, handler: AnyHandler, subject: object, session_id: str, session: Session) -> None:
        task = asyncio.create_task(_inside(handler, subject, session_id, session))
        try:
            done, _ = await asyncio.wait({task}, timeout=self._timeout)
        except asyncio.CancelledError:
            await _abandon(task, handler)
            raise
        if not done:
            await _abandon(task, handler)
            raise HandlerError(f"{_name(handler)} took longer than {self._timeout:g} s.")
        if task.cancelled():
            raise HandlerError(f"{_name(handler)} cancelled itself.")
        if error := task.exception():
            _log.warning("handler %s failed for session %s", _name(handler), session_id, exc_info=error)
            raise HandlerError(f"{_name(handler)}: {told(error)}"[:_SHOWN])


async def _inside(handler: AnyHandler, subject: object, session_id: str, session: Session) -> None:
    with inside("handler", session_id):
        try:
            await handler(subject, session)
        except (SystemExit, KeyboardInterrupt) as error:
            # Left alone it would end the replica, and then, entry by entry, each one that takes over. A person's Ctrl-C
            # does not come this way: signals, and asyncio.run, end the replica's own task.
            raise HandlerError("a handler must not end the process.") from error


async def _abandon(task: asyncio.Task[None], handler: AnyHandler) -> None:
    # A handler that swallows its cancellation must not hold up the session for ever.
    task.cancel()
    _, late = await asyncio.wait({task}, timeout=_GRACE)
    if late:
        _log.error("handler %s ignores its cancellation and is left running", _name(handler))
    elif not task.cancelled() and (error := task.exception()):
        _log.warning("handler %s failed while it was stopped: %r", _name(handler), error)


def deadly(deliveries: int, tries: int) -> str:
    """Why an entry whose handlers have `tries` is given up unrun; empty unless it was delivered too often for that."""
    if deliveries <= tries * _DELIVERIES_A_TRY:
        return ""
    return f"delivered {deliveries} times, and every replica was gone before it answered."


def _checked(handler: AnyHandler) -> AnyHandler:
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004 - an object with an async __call__ is a handler too
        return handler
    raise UsageError(f"A handler is an async function of two arguments, and {_name(handler)} is not: use `async def`.")


def _name(handler: object) -> str:
    return getattr(handler, "__qualname__", None) or type(handler).__qualname__
