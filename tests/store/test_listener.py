"""A subscription of one channel: what is said is heard, and silence is found out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.exceptions
from redis.asyncio import Redis

from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.embedded import EmbeddedServer
from coordinator.store.listener import Listener
from tests.support.proxy import FaultProxy


@pytest.fixture
async def client(server: EmbeddedServer, proxy: FaultProxy) -> AsyncIterator[Redis]:
    """A client through the proxy."""
    found = connections.reader(proxy.url, Settings(redis_url=proxy.url))
    yield found
    await found.aclose()


async def test_what_is_published_is_heard_in_order(client: Redis) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()
    listener = await Listener.open(client, "channel", heard.put_nowait, 5)
    for number in range(100):
        await client.publish("channel", f"message {number}")
    async with asyncio.timeout(5):
        assert [await heard.get() for _ in range(100)] == [f"message {number}" for number in range(100)]
    await listener.close()


async def test_a_cut_line_ends_the_run(client: Redis, proxy: FaultProxy) -> None:
    listener = await Listener.open(client, "channel", print, 5)
    proxy.refuse()
    with pytest.raises(redis.exceptions.ConnectionError):
        await asyncio.wait_for(listener.run(5), 5)
    await listener.close()


async def test_a_silent_line_is_found_out_and_a_quiet_one_is_not(client: Redis, proxy: FaultProxy) -> None:
    listener = await Listener.open(client, "channel", print, 5)
    run = asyncio.create_task(listener.run(0.05))
    done, _ = await asyncio.wait({run}, timeout=0.4)
    assert not done
    proxy.black_hole()
    with pytest.raises(redis.exceptions.ConnectionError):
        await asyncio.wait_for(run, 5)
    proxy.heal()
    await listener.close()


async def test_no_answer_to_the_subscription_is_an_error_in_time(client: Redis, proxy: FaultProxy) -> None:
    await client.ping()
    proxy.black_hole()
    with pytest.raises(TimeoutError):
        await Listener.open(client, "channel", print, 0.2)
    proxy.heal()
