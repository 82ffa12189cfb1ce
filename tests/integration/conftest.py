"""A whole deployment in one process: workers on the test's own agents, replicas, and a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from coordinator import Coordinator, Orchestrator, Session, SessionPolicy, Settings
from coordinator.store.embedded import EmbeddedServer
from tests.integration.puppet import Puppet
from tests.support.oracle import Oracle
from tests.support.watch import BOUND, judged
from workers.process import Stop, run_worker

SHORT = {"heartbeat": 0.2, "lease": 2.0, "self_stop": 5.0, "placement": 2.0, "idle_execution": 60.0, "drain": 5.0}
"""Bounds for tests: long enough for two busy cores, short enough to wait for."""


class Deployment:
    """What runs, and a client of it."""

    def __init__(self, coord: Coordinator, stack: AsyncExitStack) -> None:
        self.coord = coord
        self._stack = stack
        self._sessions = 0

    async def worker(self, agent: object, **options: Any) -> Stop:
        """Run a worker until the test ends, or until what this gives is asked to stop; returns when it takes work."""
        ready, stop = asyncio.Event(), Stop()
        task = asyncio.create_task(
            run_worker(
                self.coord.settings, agent, stop=stop, handle_signals=False, ready=lambda _: ready.set(), **options
            )
        )

        async def end() -> None:
            stop.ask()
            stop.ask()
            await task

        self._stack.push_async_callback(end)
        await _ready(task, ready)
        return stop

    async def replica(self, orchestrator: Orchestrator | None = None) -> Callable[[], Awaitable[None]]:
        """Run a replica until the test ends, or until what this gives is called; returns when it reads."""
        ready = asyncio.Event()
        task = asyncio.create_task((orchestrator or Orchestrator(self.coord)).run(ready.set, handle_signals=False))

        async def end() -> None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        self._stack.push_async_callback(end)
        await _ready(task, ready)
        return end

    async def opened(self, **policy: Any) -> Session:
        """Open a session."""
        self._sessions += 1
        session = self.coord.session(f"s{self._sessions}")
        await session.open(SessionPolicy(**policy))
        return session

    async def judged(self, session: Session, *sent: str, rests: bool = True) -> Oracle:
        """Let the oracle judge a session, which broke no rule; at its end unless it does not rest."""
        return await judged(self.coord, session, *sent, rests=rests)


async def _ready(task: asyncio.Task[None], ready: asyncio.Event) -> None:
    waiting = asyncio.create_task(ready.wait())
    done, _ = await asyncio.wait({task, waiting}, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task in done:
        task.result()
    assert ready.is_set()


@pytest.fixture
async def deployment(server: EmbeddedServer, settings_options: dict[str, Any]) -> AsyncIterator[Deployment]:
    """An empty server and a client; the test adds workers and replicas."""
    async with AsyncExitStack() as stack:
        settings = Settings(redis_url=server.url, **{**SHORT, **settings_options})
        coord = await stack.enter_async_context(Coordinator.connect(settings))
        yield Deployment(coord, stack)


@pytest.fixture
async def puppet(deployment: Deployment) -> Puppet:
    """One worker on the test's own hands, and one replica."""
    found = Puppet()
    await deployment.replica()
    await deployment.worker(found)
    return found
