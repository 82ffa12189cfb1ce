"""A connected client of a real server, replicas in this process, and players of the worker's part."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec
import pytest

from coordinator.client import Coordinator
from coordinator.domain.records import Snapshot
from coordinator.domain.workflow import Step, Workflow
from coordinator.orchestrator import Orchestrator
from coordinator.services import Kernel
from coordinator.settings import Settings
from coordinator.store.embedded import EmbeddedServer
from coordinator.store.keys import GROUP
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore


class Running(NamedTuple):
    """A replica at work in this process."""

    orchestrator: Orchestrator
    task: asyncio.Task[None]


Replica = Callable[..., Awaitable[Running]]


@pytest.fixture
def settings(server: EmbeddedServer, settings_options: dict[str, Any]) -> Settings:
    return Settings(redis_url=server.url, **settings_options)


@pytest.fixture
async def coord(settings: Settings) -> AsyncIterator[Coordinator]:
    async with Coordinator.connect(settings) as coord:
        yield coord


@pytest.fixture
def kernel(coord: Coordinator) -> Kernel:
    return coord.kernel


@pytest.fixture
def player(kernel: Kernel) -> Callable[[str], Player]:
    return lambda session_id: Player(kernel, session_id)


@pytest.fixture
async def replica(coord: Coordinator) -> AsyncIterator[Replica]:
    """Run a replica in this process until the test ends; returns when it reads."""
    async with AsyncExitStack() as stack:

        async def start(orchestrator: Orchestrator | None = None) -> Running:
            reading = asyncio.Event()
            chosen = orchestrator or Orchestrator(coord)
            task = asyncio.create_task(chosen.run(reading.set, handle_signals=False))
            stack.push_async_callback(stop, task)
            async with asyncio.timeout(10):
                await reading.wait()
            return Running(chosen, task)

        yield start


Stepping = Callable[[Orchestrator, str], Awaitable[tuple[Running, Player]]]


@pytest.fixture
def stepping(coord: Coordinator, player: Callable[[str], Player], replica: Replica) -> Stepping:
    """Run this replica until the test ends, and bring session s on the workflow `flow` to its first step."""

    async def start(orchestrator: Orchestrator, step: str) -> tuple[Running, Player]:
        running = await replica(orchestrator)
        session = player("s")
        await session.open(workflow="flow")
        await at(coord, "s", step)
        return running, session

    return start


OnStep = Callable[[Orchestrator, str], Awaitable[Player]]


@pytest.fixture
def on_step(stepping: Stepping) -> OnStep:
    """The same for who needs the session alone."""

    async def start(orchestrator: Orchestrator, step: str) -> Player:
        return (await stepping(orchestrator, step))[1]

    return start


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def settled(coord: Coordinator, session_id: str, turn: int, timeout: float = 15) -> None:
    """Wait until that turn, or a later one, was settled."""

    async def look() -> bool | None:
        view = await coord.kernel.snapshots.read(session_id)
        return (view.turn >= turn and view.open_turn == 0 and view.unsettled_turn == 0) or None

    await coord.hints.until(session_id, look, timeout, f"turn {turn} of {session_id} to be settled")


def flow(*steps: Step, name: str = "flow") -> Workflow:
    """A workflow that starts at the first of these steps, to all of which moves may lead."""
    movable = (msgspec.structs.replace(step, by_move=True) for step in steps)
    return Workflow(name=name, start=steps[0].name, steps=tuple(movable))


async def at(coord: Coordinator, session_id: str, step: str, timeout: float = 15) -> Snapshot:
    """Wait until the session is at this step: nothing of it is unsettled, being entered or being reset."""

    async def look() -> Snapshot | None:
        view = await coord.kernel.snapshots.read(session_id)
        still = not (view.entering or view.unsettled_turn or view.reset_pending or view.pending_move)
        return view if view.step == step and still else None

    return await coord.hints.until(session_id, look, timeout, f"session {session_id} to be at step {step}")


async def eventually(look: Callable[[], Awaitable[object]], timeout: float = 15) -> None:
    """Look again until it is true; for what nobody hints."""
    async with asyncio.timeout(timeout):
        while not await look():  # noqa: ASYNC110 - nobody sets an event
            await asyncio.sleep(0.01)


async def sent(faults: FaultyStore, script: str, number: int) -> bool:
    """Whether that script was sent so often."""
    return faults.sent[script] >= number


async def pending(kernel: Kernel, session_id: str) -> list[dict[str, Any]]:
    """What is delivered and not acknowledged on the session's partition."""
    events = kernel.store.keys.session(session_id)["events"]
    rows: list[dict[str, Any]] = await kernel.store.redis.xpending_range(events, GROUP, "-", "+", 100)
    return rows


async def all_handled(coord: Coordinator, session_id: str) -> bool:
    """Whether all that is on the session's partition was delivered and acknowledged."""
    events = coord.kernel.store.keys.session(session_id)["events"]
    groups = await coord.kernel.store.redis.xinfo_groups(events)
    newest = await coord.kernel.store.redis.xrevrange(events, count=1)
    last = groups and newest and groups[0]["last-delivered-id"] == newest[0][0]
    return bool(last) and not await pending(coord.kernel, session_id)


async def counters(kernel: Kernel, session_id: str) -> dict[str, str]:
    """The counters of the session's partition."""
    found: dict[str, str] = await kernel.store.redis.hgetall(kernel.store.keys.session(session_id)["counters"])  # type: ignore[misc]
    return found
