"""One orchestrator replica: reads the event streams, settles turns, enters steps, sweeps deadlines."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from coordinator.client import Coordinator
from coordinator.domain import workflow_rules
from coordinator.domain.errors import StoreError, UsageError
from coordinator.domain.workflow import Workflow, Workflows
from coordinator.handlers import EventHandler, Handlers, TurnHandler
from coordinator.settling import Settling, lane
from coordinator.store import connections
from coordinator.store.failures import translate
from coordinator.streams.backoff import Backoff
from coordinator.streams.consumer import Consumer
from coordinator.streams.group import Group
from coordinator.streams.lanes import Lanes
from coordinator.streams.takeover import Takeover
from coordinator.streams.trimming import Trimming
from coordinator.sweeper import Sweeper

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 64
"""Entries being settled or handled at one moment."""
_LONG_RUN: Final = 30.0
_Turn = TypeVar("_Turn", bound=TurnHandler)
_Handler = TypeVar("_Handler", bound=EventHandler)


class Orchestrator:
    """A replica. Any number may run, in one process or many; what one leaves undone, another finishes.

    `consumer` is its name in the consumer group, `host:pid:random`, made anew for each. `workflow`, one or a whole
    file of them, is published when it starts to run. From then on all replicas use that definition, those without a
    file as well, until one that starts later publishes another under the same name. Raises WorkflowInvalid for one
    made in Python that a file could not hold, and UsageError for what is no workflow.
    """

    def __init__(self, coord: Coordinator, workflow: Workflow | Workflows | None = None) -> None:
        self.consumer = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._coord = coord
        self._kernel = coord.kernel
        self._settings = self._kernel.store.settings
        self._handlers = Handlers(self._settings.handler_timeout)
        self._workflows = _listed(workflow)
        self._running = False

    def on_turn_complete(self, handler: _Turn) -> _Turn:
        """Register an async function of (SettledTurn, Session), to be run when a turn has completed.

        It is run after validation and under the session's guard, within `handler_timeout` seconds, at least once:
        `turn.key` is the same each time. It is run for the reasons `completed` and `max_tokens`, and for a turn that a
        person stopped if the session's step has `cancel_triggers_turn_complete`; not for other stops, and not while a
        pending move or a question of that turn goes first. It is run before the step's own setting is evaluated, and
        a move that it asks for goes before that. A failure is counted and tried again; after `handler_tries` of them
        the entry goes to the dead stream and the session goes on. With the policy `settlement=none` it is run without
        the guard, whatever is pending. Raises UsageError when it is not an async function.
        """
        self._handlers.add_turn_complete(handler)
        return handler

    def on_step_entered(self, handler: _Handler) -> _Handler:
        """Register an async function of (StepEntered, Session): a session is at a step, whose prompt is in line.

        Run as those of `on_event`; `event.key` names this entry into the step.
        """
        return self.on_event("step.entered")(handler)

    def on_question(self, handler: _Handler) -> _Handler:
        """Register an async function of (QuestionAsked, Session): an agent asks, and `session.answer` answers.

        Run as those of `on_event`; `event.key` names the question.
        """
        return self.on_event("question.asked")(handler)

    def on_event(self, name: str) -> Callable[[_Handler], _Handler]:
        """Register an async function of (event, Session) for one of the events that are listed in `handlers.EVENTS`.

        It is run at least once, without the guard, within `handler_timeout` seconds; it settles nothing, and only the
        handlers of the session's later events wait for it. A failure is tried again with back-off; after
        `handler_tries` of them the entry goes to the dead stream and the error to the session's log, and the policy
        `on_handler_failure` says whether the session is parked. Raises UsageError for another name, or when it is not
        an async function.
        """

        def register(handler: _Handler) -> _Handler:
            self._handlers.add_event(name, handler)
            return handler

        return register

    async def run(self, ready: Callable[[], object] | None = None, *, handle_signals: bool = True) -> None:
        """Publish the workflows and work until cancelled, or SIGTERM: then end what is in hand within `drain` seconds.

        What is left is pending, and another replica takes it over. `ready` is called once, when the groups exist and
        reading starts. Neither a failing Redis nor a failing handler ends it. Raises UsageError when it runs already.
        """
        if self._running:
            raise UsageError("This orchestrator is running already; make another one for another replica.")
        self._running = True
        try:
            async with _until_sigterm(handle_signals) as stop:
                await self._work(ready or (lambda: None), stop)
        finally:
            self._running = False

    async def _work(self, ready: Callable[[], object], stop: asyncio.Event) -> None:
        store, keys = self._kernel.store, self._kernel.store.keys
        streams = [keys.events(partition) for partition in range(keys.partitions)]
        group = Group(store.redis, streams, self.consumer)
        owner = re.sub(r"[^A-Za-z0-9_.-]", "-", f"orchestrator-{self.consumer}")[:100]
        settling = Settling(self._kernel, group, self._handlers, self._coord.session, owner)
        lanes = Lanes(settling.handle, _AT_ONCE, lane)
        takeover = Takeover(group, lanes, self._settings.settlement, settling.lost)
        sweeper = Sweeper(self._kernel.deadlines, keys.partitions, self._settings.sweep, takeover.suspect)
        reading = asyncio.Event()

        def started() -> None:
            if not reading.is_set():
                reading.set()
                ready()

        consumer = Consumer(group, lambda: connections.reader(self._settings.redis_url, self._settings), lanes)

        async def read_on() -> None:
            # What is read next may need the definitions.
            await self._kernel.workflows.publish(self._workflows)
            await consumer.run(started)

        read = asyncio.create_task(_keep("the consumer", read_on))
        upkeep = [
            asyncio.create_task(_keep("the takeover", takeover.run, reading)),
            asyncio.create_task(_keep("the sweeper", sweeper.run)),
            asyncio.create_task(_keep("the trimming", Trimming(store).run, reading)),
        ]
        try:
            await stop.wait()
            takeover.stop_taking()
            await _end([read])
            await lanes.close(self._settings.drain)
        finally:
            await _end([read, *upkeep])
            await lanes.close(0)
            await self._give_back(takeover)

    async def _give_back(self, takeover: Takeover) -> None:
        # A courtesy: without it the others wait until the entries have been idle for long enough.
        try:
            async with asyncio.timeout(1):
                await takeover.give_back()
        except Exception as error:  # noqa: BLE001 - nothing is lost, only time
            _log.debug("could not give entries back: %s", error)


def _listed(workflow: Workflow | Workflows | None) -> tuple[Workflow, ...]:
    if workflow is None:
        return ()
    if isinstance(workflow, Workflow):
        return (workflow_rules.checked(workflow),)
    if isinstance(workflow, Workflows):
        return tuple(map(workflow_rules.checked, workflow.values()))
    raise UsageError(
        f"An Orchestrator takes a Workflow, or Workflows, and not {type(workflow).__name__}; "
        "Workflow.from_toml reads a file."
    )


async def _keep(name: str, loop: Callable[[], Awaitable[None]], after: asyncio.Event | None = None) -> None:
    """Run a loop for as long as the replica lives: a crash is logged, and the loop begun again with back-off."""
    if after is not None:
        await after.wait()
    backoff = Backoff(first=0.2, most=10.0)
    clock = asyncio.get_running_loop().time
    while True:
        began = clock()
        try:
            await loop()
        except Exception as error:  # noqa: BLE001 - a replica outlives its loops
            if clock() - began > _LONG_RUN:
                backoff.succeeded()
            delay = backoff.next()
            meaning = translate(error)
            bug = None if isinstance(meaning, StoreError) else error
            _log.warning("%s failed and begins again in %.2f s: %s", name, delay, meaning, exc_info=bug)
            await asyncio.sleep(delay)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def _until_sigterm(handle_signals: bool) -> AsyncIterator[asyncio.Event]:  # noqa: FBT001 - private
    stop = asyncio.Event()
    if not handle_signals:
        yield stop
        return
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGTERM, stop.set)
    except (NotImplementedError, RuntimeError, ValueError):
        # Not the main thread, or no signals on this platform: the caller cancels.
        yield stop
        return
    try:
        yield stop
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
