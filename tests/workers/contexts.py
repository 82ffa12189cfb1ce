"""An agent with contexts, and resets of them, for tests on a worker."""

from __future__ import annotations

import asyncio

from tests.workers.rig import BOUND, Puppet, Rig
from workers.agents.protocol import Execution


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


async def resume_token(deployment: Rig) -> str:
    return (await deployment.kernel.snapshots.read("s")).resume_token


async def no_suspects(deployment: Rig) -> bool:
    return not (await deployment.kernel.snapshots.read("s")).suspects
