"""A connected coordinator on the bundled server, and a worker that a test drives by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from redis.asyncio import Redis

from coordinator import Coordinator, Settings
from coordinator.services import Kernel
from coordinator.store import connections
from coordinator.store.embedded import EmbeddedServer
from coordinator.streams.hints import Hints, Subscriber
from tests.client.hand import Hand


@pytest.fixture
def server_kind() -> str:
    """The client is the same on every server; the kernel's own tests run on all of them."""
    return "bundled"


@pytest.fixture
def settings_options() -> dict[str, Any]:
    """A heartbeat too long to help: what these tests wait for has to come by a hint."""
    return {"heartbeat": 4.0}


@pytest.fixture
def client_settings(server: EmbeddedServer, settings_options: dict[str, Any]) -> Settings:
    return Settings(redis_url=server.url, **settings_options)


@pytest.fixture
async def coord(client_settings: Settings) -> AsyncIterator[Coordinator]:
    async with Coordinator.connect(client_settings) as connected:
        yield connected


@pytest.fixture
def hand(coord: Coordinator) -> Hand:
    return Hand(coord.kernel)


@pytest.fixture
async def everywhere(
    kernel: Kernel, backend: Redis, settings: Settings, backend_kind: str
) -> AsyncIterator[Coordinator]:
    """A coordinator on each backend in turn, the stand-in included."""
    reader = backend if backend_kind == "fake" else connections.reader(settings.redis_url, settings)
    hints = Hints(lambda: cast("Subscriber", reader.pubsub()), kernel.store.keys.hint, heartbeat=settings.heartbeat)
    yield Coordinator(kernel, hints, settings)
    await hints.aclose()
    if reader is not backend:
        await reader.aclose()
