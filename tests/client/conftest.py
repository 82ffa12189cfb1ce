"""A connected coordinator on the bundled server, and a worker that a test drives by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator import Coordinator, Settings
from coordinator.store.embedded import EmbeddedServer
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
