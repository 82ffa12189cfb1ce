"""Fixtures for every test: clients of a stand-in and of real servers, the kernel over them, and real processes.

A test that asks for `backend`, `store` or `kernel` runs once on each of fake, bundled and debian (where installed);
one that asks for `server` on each real server. `@pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)`
narrows the first, the same with `server_kind` the second. A test file may define its own `settings_options`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import fakeredis
import pytest
from redis.asyncio import Redis

from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.embedded import EmbeddedServer
from tests.support.processes import Process
from tests.support.proxy import FaultProxy
from tests.support.servers import KINDS, Servers

if TYPE_CHECKING:
    # Tests of what lies below them run without them.
    from coordinator.services import Kernel
    from coordinator.store.store import Store
    from tests.support.faulty import FaultyStore

Spawn = Callable[..., Awaitable[Process]]


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The session's real servers, each started at its first use."""
    found = Servers()
    yield found
    found.stop()


@pytest.fixture(params=KINDS)
def server_kind(request: pytest.FixtureRequest) -> str:
    """Which real server: bundled or debian."""
    return str(request.param)


@pytest.fixture
def server(servers: Servers, server_kind: str) -> EmbeddedServer:
    """A real server, running and empty: `.url`, `.port`, `.pid`, `.kill()`, `.start()`, `.restart()`."""
    return servers.get(server_kind)


@pytest.fixture(params=["fake", *KINDS])
def backend_kind(request: pytest.FixtureRequest) -> str:
    """Which backend: fake, bundled or debian."""
    return str(request.param)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    """What `settings` differs in from the defaults; a test file defines its own to change it."""
    return {}


@pytest.fixture
def settings(backend_kind: str, servers: Servers, settings_options: dict[str, Any]) -> Settings:
    """Settings with the address of the backend; the fake one has none."""
    if backend_kind == "fake":
        return Settings(**settings_options)
    return Settings(redis_url=servers.get(backend_kind).url, **settings_options)


@pytest.fixture
async def backend(backend_kind: str, settings: Settings) -> AsyncIterator[Redis]:
    """A client that decodes to text, of an empty stand-in or server."""
    if backend_kind == "fake":
        client: Redis = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), decode_responses=True)
    else:
        client = connections.coordination(settings.redis_url, settings)
    yield client
    await client.aclose()


@pytest.fixture
def store(backend: Redis, settings: Settings, backend_kind: str) -> Store:
    """A store over the backend. The stand-in reads no script flags."""
    from coordinator.store.store import Store

    return Store(backend, settings, flags=backend_kind != "fake")


@pytest.fixture
def kernel(store: Store) -> Kernel:
    """Every service over the store; placements go to the same backend."""
    from coordinator.services import Kernel

    return Kernel(store)


@pytest.fixture
def faulty(store: Store) -> FaultyStore:
    """Faults for the store of this test, and so for the kernel over it."""
    from tests.support.faulty import FaultyStore

    return FaultyStore(store)


@pytest.fixture
async def proxy(server: EmbeddedServer) -> AsyncIterator[FaultProxy]:
    """A fault proxy in front of `server`."""
    async with FaultProxy(server.port) as found:
        yield found


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    """Real processes, none of which outlives its test.

    `await spawn("worker", "--agent", "workers.agents.scripted:agent", env={…})` waits until the worker is ready.
    """
    async with AsyncExitStack() as stack:
        yield partial(_spawn, stack)


async def _spawn(stack: AsyncExitStack, *arguments: str, ready: str = r"\bready\b", **options: Any) -> Process:
    """Start one and wait for the line with `ready`; an empty `ready` does not wait."""
    process = await Process.spawn(*arguments, **options)
    stack.push_async_callback(process.clean_up)
    if ready:
        await process.says(ready)
    return process
