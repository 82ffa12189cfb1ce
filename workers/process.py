"""A worker process: everything put together, kept running, and drained."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from coordinator.client import Coordinator
from coordinator.domain.errors import CoordinatorError
from coordinator.domain.ids import check_id
from coordinator.services.executions import Executions
from coordinator.store import connections
from coordinator.store.queue import deserialize, serialize
from coordinator.store.store import Store
from coordinator.streams.backoff import Backoff
from workers.agents.function import factory_of, load_agent
from workers.control import Control
from workers.heartbeat import Heartbeat
from workers.host import Host
from workers.placement import PlacementWorker
from workers.registry import Registry

if TYPE_CHECKING:
    from coordinator.settings import Settings

logger = logging.getLogger(__name__)

MAX_SESSIONS: Final = 100


class Stop:
    """How much a worker is wanted to end: not at all, drained, or drained in a hurry."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()

    def ask(self) -> None:
        """The first time drains, every further time hurries."""
        (self.hurried if self.asked.is_set() else self.asked).set()


async def run_worker(
    settings: Settings,
    agent: object,
    *,
    max_sessions: int = MAX_SESSIONS,
    worker_id: str | None = None,
    ready: Callable[[str], object] | None = None,
    stop: Stop | None = None,
    handle_signals: bool = True,
) -> None:
    """Host agents until SIGTERM, SIGINT or `stop`, then drain; a second signal hurries. Cancelled, it hurries at once.

    `agent` is `module:name`, or what such a name may stand for (see workers.agents.function). `ready(worker_id)` is
    called once, when the worker can take work. Raises AgentInvalid, InvalidId, and what `Coordinator.connect` raises;
    after that no fault of Redis ends it.
    """
    name = agent if isinstance(agent, str) else getattr(agent, "__qualname__", type(agent).__qualname__)
    factory = load_agent(agent) if isinstance(agent, str) else factory_of(agent)
    worker_id = check_id("worker", worker_id) if worker_id else _make_id()
    stop = stop or Stop()
    async with Coordinator.connect(settings) as coord, _signals(stop, wanted=handle_signals):
        host = Host(coord, worker_id, factory, max_sessions)
        async with _loops(coord, host, name) as (placement, up):
            try:
                await _until_asked(stop, up, ready, worker_id)
                await placement.stop()
                await host.drain(settings.drain, stop.hurried)
            except asyncio.CancelledError:
                stop.hurried.set()
                await placement.stop()
                await host.drain(0, stop.hurried)
                raise
        if handle_signals and stop.asked.is_set() and host.stuck():
            # The interpreter would wait for them without end.
            logger.warning("%d agents ignored that their worker ends; it ends without them", host.stuck())
            logging.shutdown()
            os._exit(0)


@asynccontextmanager
async def _loops(
    coord: Coordinator, host: Host, agent: str
) -> AsyncIterator[tuple[PlacementWorker, asyncio.Task[None]]]:
    """Run the worker's loops, each on connections of its own: what waits or hangs in one must not hold up another.

    Gives the placements, and a task that ends when all loops are up.
    """
    settings, keys = coord.settings, coord.kernel.store.keys
    async with AsyncExitStack() as stack:
        beats = connections.coordination(settings.redis_url, settings, connections=8)
        hints = connections.reader(settings.redis_url, settings, connections=2)
        bell = connections.reader(settings.queue, settings, connections=2)
        queue = connections.queue(settings.queue, settings, serializer=serialize, deserializer=deserialize)
        for client in (beats, hints, bell, queue):
            stack.push_async_callback(client.aclose)
        store = Store(beats, settings, patience=settings.lease)
        registry = Registry(store, host.worker_id, host.max_sessions, agent)
        heartbeat = Heartbeat(host, Executions(store, coord.kernel.placements), registry, settings)
        control = Control(hints, keys.control(host.worker_id), host, heartbeat.poke)
        placement = PlacementWorker(host, queue, bell, keys)
        tasks = [
            asyncio.create_task(_keep("the heartbeat", heartbeat.run)),
            asyncio.create_task(_keep("the control channel", control.run)),
        ]

        async def rise() -> None:
            # Nothing is taken before hints are heard and leases renewed.
            await control.subscribed.wait()
            await heartbeat.registered.wait()
            tasks.append(asyncio.create_task(_keep("the placements", placement.async_run)))
            await placement.polled.wait()

        up = asyncio.create_task(rise())
        tasks.append(up)
        try:
            yield placement, up
        finally:
            await _wind_up(tasks, registry)


async def _wind_up(tasks: list[asyncio.Task[None]], registry: Registry) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    with suppress(CoordinatorError, TimeoutError):
        async with asyncio.timeout(1):
            await registry.leave()


async def _until_asked(
    stop: Stop, up: asyncio.Task[None], ready: Callable[[str], object] | None, worker_id: str
) -> None:
    asked = asyncio.create_task(stop.asked.wait())
    try:
        await asyncio.wait({asked, up}, return_when=asyncio.FIRST_COMPLETED)
        if up.done() and ready is not None:
            ready(worker_id)
        await asked
    finally:
        asked.cancel()


async def _keep(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run a loop for as long as the worker lives: a crash is logged, and the loop begun again with back-off."""
    backoff = Backoff(first=0.2, most=5.0)
    while True:
        try:
            await loop()
        except Exception:
            delay = backoff.next()
            logger.exception("%s failed and begins again in %.2f s", name, delay)
            await asyncio.sleep(delay)


@asynccontextmanager
async def _signals(stop: Stop, *, wanted: bool) -> AsyncIterator[None]:
    """Turn SIGTERM and SIGINT into stops, where the platform and the thread allow it."""
    loop, caught = asyncio.get_running_loop(), []
    if wanted:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, stop.ask)
                caught.append(number)
    try:
        yield
    finally:
        for number in caught:
            loop.remove_signal_handler(number)


def _make_id() -> str:
    host = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:60]
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"
