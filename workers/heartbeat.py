"""The heartbeat: leases renewed, answers applied, and the worker's own agents ended when it can't renew.

A beat itself never waits: it starts a renewal for each partition, one in flight each, so that a hanging server can
stop neither the next beat nor the look at the clock.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from coordinator.domain.errors import CoordinatorError

if TYPE_CHECKING:
    from coordinator.services.executions import Executions, Held
    from coordinator.settings import Settings
    from workers.host import Host
    from workers.registry import Registry

logger = logging.getLogger(__name__)

_REGISTRY: Final = -1


class Heartbeat:
    """One worker's beats, every `heartbeat` seconds; `executions` has connections of its own."""

    def __init__(self, host: Host, executions: Executions, registry: Registry, settings: Settings) -> None:
        self._host = host
        self._executions = executions
        self._registry = registry
        self._interval = settings.heartbeat
        self._lease = settings.lease
        self._self_stop = settings.self_stop
        self._flights: dict[int, asyncio.Task[None]] = {}
        self._renewed: dict[int, float] = {}
        """By partition: when the last renewal that was answered was sent, or the first execution came."""
        self._poked = asyncio.Event()
        self._failing = False
        self.registered = asyncio.Event()

    def poke(self) -> None:
        """Beat at once: hints may have been lost."""
        self._poked.set()

    async def run(self) -> None:
        """Beat until cancelled."""
        try:
            while True:
                began = time.monotonic()
                self._beat(began)
                self._poked.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._interval):
                        await self._poked.wait()
                self._note_lag(time.monotonic() - began - self._interval)
        finally:
            for task in self._flights.values():
                task.cancel()

    def _note_lag(self, lag: float) -> None:
        if lag > self._lease:
            logger.error("the event loop was blocked for %.1f s, longer than a lease: an agent must not block it", lag)
        elif lag > self._interval / 2:
            logger.warning("the event loop was blocked for %.2f s: an agent must not block it", lag)

    def _beat(self, now: float) -> None:
        held = self._host.held()
        self._renewed = {partition: self._renewed.get(partition, now) for partition in held}
        for partition, since in self._renewed.items():
            if now - since > self._self_stop:
                logger.error(
                    "no lease of partition %d could be renewed for %.0f s: its agents are ended", partition, now - since
                )
                self._host.self_stop(partition)
                self._renewed[partition] = now
        self._host.release_idle()
        for partition, some in held.items():
            if partition not in self._flights:
                self._start(partition, self._renew(partition, some, now))
        if _REGISTRY not in self._flights:
            self._start(_REGISTRY, self._register())

    def _start(self, partition: int, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"heartbeat {partition}")
        self._flights[partition] = task
        task.add_done_callback(lambda done: self._landed(partition, done))

    def _landed(self, partition: int, task: asyncio.Task[None]) -> None:
        self._flights.pop(partition, None)
        error = None if task.cancelled() else task.exception()
        if error is None:
            if self._failing and not task.cancelled():
                self._failing = False
                logger.warning("heartbeats are answered again")
        elif not isinstance(error, CoordinatorError):
            logger.error("a heartbeat failed", exc_info=error)
        elif not self._failing:
            self._failing = True
            logger.warning("heartbeats fail: %s", error)

    async def _renew(self, partition: int, held: list[Held], sent: float) -> None:
        answers = await self._executions.renew(self._host.worker_id, held)
        if partition in self._renewed:
            self._renewed[partition] = sent
        self._host.apply(held, answers)

    async def _register(self) -> None:
        await self._registry.renew(len(self._host.drivers))
        self.registered.set()
        # Agents that were told to end and have not: named, so that Redis does not take them for gone.
        if self._host.graves:
            suspects = [driver.held() for driver in self._host.graves.values() if not driver.released]
            for one in suspects:
                await self._executions.renew(self._host.worker_id, [one])
