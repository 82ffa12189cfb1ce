"""An agent with contexts, and resets of them, for tests on a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from coordinator.settings import Settings
from tests.workers.rig import BOUND, Puppet, Rig, rig, until
from workers.agents.protocol import Execution

Resetting = tuple[Rig, asyncio.Task[None]]


class Contextual(Puppet):
    """An agent whose contexts are numbered: the start's, or what it resumes, then one more for each reset."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[str] = []
        self.called = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def start(self, execution: Execution) -> None:
        self.tokens.append(execution.resume_token)
        await super().start(execution)
        execution.resume_token = execution.resume_token or "first"

    async def reset(self) -> None:
        self.called.set()
        await super().reset()
        await self.go.wait()
        self.started[-1].resume_token = f"reset-{self.resets}"


async def used(deployment: Rig) -> None:
    """Let session s have an execution that is idle."""
    await deployment.send("s", "one")
    await deployment.ends("s")
    await deployment.coord.session("s").wait_idle(BOUND)


def begin(deployment: Rig, reset_id: str = "r") -> asyncio.Task[None]:
    """Begin a reset of session s, and wait for its end in a task."""
    return asyncio.create_task(deployment.coord.session("s").reset(timeout=BOUND, operation_id=reset_id))


@asynccontextmanager
async def in_call(settings: Settings, puppet: Contextual, **options: Any) -> AsyncIterator[Resetting]:
    """A worker whose agent is in the call that resets it, until `puppet.go` is set; and who waits for the end."""
    puppet.go.clear()
    async with rig(settings, puppet, **options) as deployment:
        await used(deployment)
        resetting = begin(deployment)
        await puppet.called.wait()
        yield deployment, resetting


@asynccontextmanager
async def in_start(settings: Settings, puppet: Contextual, go: asyncio.Event) -> AsyncIterator[Resetting]:
    """A worker whose agent starts until `go` is set, while its session is being reset; and who waits for the end."""

    async def slow(execution: Execution) -> None:
        await go.wait()

    puppet.on_start = slow
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await until(lambda: bool(puppet.started))
        resetting = begin(deployment)
        await deployment.until("s", "reset.started")
        yield deployment, resetting


async def resume_token(deployment: Rig) -> str:
    return (await deployment.kernel.snapshots.read("s")).resume_token


async def no_suspects(deployment: Rig) -> bool:
    return not (await deployment.kernel.snapshots.read("s")).suspects
