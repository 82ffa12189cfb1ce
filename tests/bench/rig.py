"""The server and the processes of one run; none of them outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, TypeVar

import msgspec
from redis.asyncio import Redis

from coordinator.client import Coordinator
from coordinator.settings import Settings
from coordinator.store.embedded import EmbeddedServer
from tests.support.processes import Process
from tests.support.servers import BINARIES

T = TypeVar("T")
AT_ONCE: Final = 32
"""Calls that the one client has in flight when it is in a hurry."""
PAUSE: Final = 0.005
"""Seconds between the rounds of a latency, in which the client keeps still."""


class Rig:
    """One server, and this process's clients of it. Processes come as users of their own, to tell them apart."""

    def __init__(self, server: EmbeddedServer, coord: Coordinator, stack: AsyncExitStack) -> None:
        self.server = server
        self.coord = coord
        self.settings = coord.settings
        self.redis: Redis = coord.kernel.store.redis
        self._stack = stack

    async def start(self, user: str, program: str, *arguments: str) -> Process:
        """Start `python -m program arguments` on the server, as `user`, and wait until it is ready."""
        await self.redis.execute_command("ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all")
        url = self.url_for(user)
        process = await Process.spawn(*arguments, env={"COORDINATOR_REDIS_URL": url}, program=program)
        self._stack.push_async_callback(process.clean_up)
        await process.says(r"\bready\b")
        return process

    def url_for(self, user: str) -> str:
        """The server's address for that user."""
        return f"redis://{user}:any@127.0.0.1:{self.server.port}/0"

    def at_end(self, close: Callable[[], Awaitable[object]]) -> None:
        """Do this when the run is over, however it ends."""
        self._stack.push_async_callback(close)

    async def worker(self, agent: str) -> Process:
        """A worker process with room for everything."""
        return await self.start("worker", "coordinator", "worker", "--agent", agent, "--max-sessions", "5000")

    async def replica(self) -> Process:
        """An orchestrator process."""
        return await self.start("replica", "coordinator", "orchestrator")


@asynccontextmanager
async def rig(kind: str) -> AsyncIterator[Rig]:
    """A rig on a fresh server of that kind, with its append-only file as everybody gets it."""
    async with AsyncExitStack() as stack:
        server = EmbeddedServer(binary=BINARIES[kind])
        await asyncio.to_thread(server.start)
        stack.push_async_callback(asyncio.to_thread, server.stop)
        settings = msgspec.structs.replace(Settings(), redis_url=server.url)
        coord = await stack.enter_async_context(Coordinator.connect(settings))
        yield Rig(server, coord, stack)


async def many(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """Do all of it, so many at once as one client would."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    return await asyncio.gather(*map(one, work))


async def until(true: Callable[[], Awaitable[bool]], what: str, seconds: float = 30.0, every: float = 0.01) -> None:
    """Look every now and then. Raises AssertionError when it does not come true in time."""
    try:
        async with asyncio.timeout(seconds):
            while not await true():  # noqa: ASYNC110 - what happens there tells nobody
                await asyncio.sleep(every)
    except TimeoutError:
        raise AssertionError(f"after {seconds:g} s still not so: {what}") from None
