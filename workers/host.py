"""The executions of one worker: taken from placements, told by hints and heartbeats, ended by drains and losses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from coordinator.domain.errors import StoreError
from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict
from workers.agents.protocol import Execution
from workers.driver import Driver
from workers.launch import bury
from workers.persistence import persist
from workers.telling import Telling

if TYPE_CHECKING:
    from coordinator.client import Coordinator
    from coordinator.services.executions import Held
    from coordinator.session import Session
    from workers.agents.function import AgentFactory
    from workers.agents.protocol import Agent

logger = logging.getLogger(__name__)

GRACE: Final = 1.0
"""Seconds between asking an agent to end its turn, cancelling it, and giving it up, when its worker has to stop it."""
_FLOORS: Final = 10_000
_ACCEPT: Final = 15.0


class NoRoom(Exception):
    """Raised when a placement can't be taken: the worker is full, or leaving."""


class Host(Telling):
    """One worker's executions: at most one a session, at most `max_sessions`."""

    def __init__(self, coord: Coordinator, worker_id: str, factory: AgentFactory, max_sessions: int) -> None:
        super().__init__()
        self.kernel = coord.kernel
        self.worker_id = worker_id
        self.max_sessions = max_sessions
        self.start_timeout = coord.settings.start_timeout
        self.provider_reset = coord.settings.provider_reset
        self.heartbeat = coord.settings.heartbeat
        self.graves: dict[str, Driver] = {}
        """By execution id: given up or dropped, and their agents have not ended yet."""
        self.draining = False
        self.room = asyncio.Event()
        self.room.set()
        self._coord = coord
        self._factory = factory
        self._idle_execution = coord.settings.idle_execution
        self._left = asyncio.Event()
        self._floors: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def make_agent(self) -> Agent:
        """A fresh agent, or the shared one."""
        return self._factory()

    def session(self, session_id: str) -> Session:
        """The client that a turn has for its session."""
        return self._coord.session(session_id)

    async def accept(self, session_id: str, token: str) -> None:
        """Take an activity that was offered, unless another worker has it, and begin to drive it.

        Raises NoRoom, and StoreError if Redis does not answer for some time; the offer then stands.
        """
        hosted = self.drivers.get(session_id)
        if hosted is not None:
            hosted.run(token)
            return
        if self.draining or len(self.drivers) >= self.max_sessions:
            raise NoRoom
        store = self.kernel.store
        execution = Execution(session_id, new_id("x"), self.worker_id, "", store)
        driver = self.drivers[session_id] = Driver(self, execution, self._floors.pop(session_id, 0))
        self._count()
        until = time.monotonic() + _ACCEPT
        try:
            accepted = await persist(
                lambda: self.kernel.executions.accept(session_id, token, execution.execution_id, self.worker_id),
                f"placement of session {session_id}",
                lambda: time.monotonic() < until,
            )
        except BaseException:
            self._forget(driver)
            raise
        if accepted.verdict is not Verdict.OK:
            logger.debug("placement of session %s: %s", session_id, accepted.verdict)
            self._forget(driver)
            return
        execution.resume_token = driver.saved_resume = accepted.resume_token
        driver.accepted = True
        self._spawn(driver.drive(token), f"drive {session_id}")

    def held(self) -> dict[int, list[Held]]:
        """What the next renewals have to name, by partition."""
        partition_of, found = self.kernel.store.keys.partition_of, defaultdict(list)
        for driver in self.drivers.values():
            if driver.accepted:
                found[partition_of(driver.session_id)].append(driver.held())
        return found

    def release_idle(self) -> None:
        """Give up the executions that have had nothing to do for `idle_execution` seconds."""
        before = time.monotonic() - self._idle_execution
        for driver in self.drivers.values():
            if driver.accepted and driver.idle and driver.idle_since < before:
                driver.release("it was idle")

    def make_room(self, count: int) -> None:
        """Give up to `count` executions up that have nothing to do, those that have been idle for longest first."""
        idle = [driver for driver in self.drivers.values() if driver.accepted and driver.idle]
        for driver in sorted(idle, key=lambda one: one.idle_since)[:count]:
            driver.release("its place is needed")

    def self_stop(self, partition: int) -> None:
        """End every agent of a partition whose leases could not be renewed for too long."""
        partition_of = self.kernel.store.keys.partition_of
        for driver in [one for one in self.drivers.values() if partition_of(one.session_id) == partition]:
            if driver.turn is not None:
                driver.interrupt("self-stop", GRACE)
            elif driver.accepted:
                driver.drop("its lease could not be renewed")

    def left(self, driver: Driver) -> None:
        """Hear that a driver has ended: its agent is ended, and Redis told when it is gone."""
        self.graves[driver.execution.execution_id] = driver
        self._forget(driver)
        self._spawn(self._bury(driver), f"bury {driver.execution.execution_id}")

    async def drain(self, seconds: float, hurry: asyncio.Event) -> None:
        """Give everything up: idle executions now, running turns after `seconds` or when hurried, as interrupted."""
        self.draining = True
        self._count()
        for driver in list(self.drivers.values()):
            driver.drain()
        if not await self._empty(seconds, hurry):
            grace = GRACE / 5 if hurry.is_set() else GRACE
            for driver in list(self.drivers.values()):
                driver.interrupt("draining", grace)
            await self._empty(2 * grace + 5 * GRACE, asyncio.Event())
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=GRACE)
        for driver in self.drivers.values():
            logger.warning("session %s could not be ended in time; its lease will", driver.session_id)
        while self._tasks:
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def stuck(self) -> int:
        """How many agents have not ended although they were told to."""
        calls = [driver.call for driver in (*self.drivers.values(), *self.graves.values())]
        return sum(call is not None and not call.task.done() for call in calls)

    async def _empty(self, seconds: float, hurry: asyncio.Event) -> bool:
        """Wait until no execution is left, for at most `seconds` or until hurried."""
        hurried = asyncio.create_task(hurry.wait())
        until = time.monotonic() + seconds
        try:
            while self.drivers and not hurry.is_set() and (left := until - time.monotonic()) > 0:
                self._left.clear()
                gone = asyncio.create_task(self._left.wait())
                await asyncio.wait({hurried, gone}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
        finally:
            hurried.cancel()
        return not self.drivers

    def _forget(self, driver: Driver) -> None:
        session_id = driver.session_id
        if self.drivers.get(session_id) is driver:
            del self.drivers[session_id]
        if driver.floor:
            self._floors[session_id] = driver.floor
            if len(self._floors) > _FLOORS:
                del self._floors[next(iter(self._floors))]
        self._left.set()
        self._count()
        # A placement that came while the execution was on its way out: it would wait for its deadline.
        if (token := driver.unheard()) and not self.draining:
            self._spawn(self._accept_again(session_id, token), f"accept {session_id}")

    async def _accept_again(self, session_id: str, token: str) -> None:
        try:
            await self.accept(session_id, token)
        except (NoRoom, StoreError) as error:
            logger.info("placement of session %s waits for its deadline: %r", session_id, error)

    async def _bury(self, driver: Driver) -> None:
        try:
            await bury(driver)
        except Exception:
            logger.exception("the end of execution %s failed", driver.execution.execution_id)
        self.graves.pop(driver.execution.execution_id, None)

    def _count(self) -> None:
        if not self.draining and len(self.drivers) < self.max_sessions:
            self.room.set()
        else:
            self.room.clear()

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
