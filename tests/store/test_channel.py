"""One connection for many callers: own answers, own errors, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import redis.exceptions
from redis.asyncio import Redis

from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.channel import Channel, channel_of
from coordinator.store.embedded import EmbeddedServer
from tests.support.proxy import FaultProxy


@pytest.fixture
async def client(server: EmbeddedServer, proxy: FaultProxy) -> AsyncIterator[Redis]:
    """A client through the proxy."""
    found = connections.coordination(proxy.url, Settings(redis_url=proxy.url))
    yield found
    await found.aclose()


async def test_a_stand_in_is_used_as_it_is(backend: Redis, backend_kind: str) -> None:
    assert isinstance(channel_of(backend), Channel) == (backend_kind != "fake")
    assert await channel_of(backend).together(("ECHO", "a"), ("ECHO", "b")) == ["a", "b"]


async def test_each_command_gets_its_own_answer(client: Redis) -> None:
    channel = Channel(client)
    numbers = [str(number) for number in range(3000)]
    assert await asyncio.gather(*(channel.execute_command("ECHO", number) for number in numbers)) == numbers


async def test_large_texts_pass_both_ways(client: Redis) -> None:
    channel = Channel(client)
    texts = [f"{letter}ä" * 2**20 for letter in "abcdefgh"]
    assert await asyncio.gather(*(channel.execute_command("ECHO", text) for text in texts)) == texts


async def test_an_error_is_its_own_callers_only(client: Redis) -> None:
    channel = Channel(client)
    await channel.execute_command("SET", "text", "x")
    found = await asyncio.gather(
        channel.execute_command("GET", "text"),
        channel.execute_command("HGET", "text", "field"),
        channel.execute_command("EVALSHA", "0" * 40, 0),
        return_exceptions=True,
    )
    assert found[0] == "x"
    assert isinstance(found[1], redis.exceptions.ResponseError)
    assert isinstance(found[2], redis.exceptions.NoScriptError)


async def test_a_cancelled_caller_disturbs_no_other(client: Redis) -> None:
    channel = Channel(client)
    await channel.execute_command("PING")
    leaving = asyncio.ensure_future(channel.execute_command("ECHO", "gone"))
    staying = [asyncio.ensure_future(channel.execute_command("ECHO", str(number))) for number in range(3)]
    await asyncio.sleep(0)
    leaving.cancel()
    assert await asyncio.gather(*staying) == ["0", "1", "2"]
    assert leaving.cancelled()


async def test_a_lost_connection_is_everybodys_error_and_the_next_command_connects_anew(
    client: Redis, proxy: FaultProxy
) -> None:
    channel = Channel(client)
    for _ in range(3):
        await channel.execute_command("ECHO", "up")
        proxy.black_hole()
        waiting = [asyncio.ensure_future(channel.execute_command("ECHO", str(number))) for number in range(50)]
        await asyncio.sleep(0)
        proxy.refuse()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(error, redis.exceptions.ConnectionError) for error in found)
        with pytest.raises(redis.exceptions.ConnectionError):
            await channel.execute_command("ECHO", "down")
        proxy.heal()
        assert await channel.execute_command("ECHO", "up again") == "up again"
    assert len(client.connection_pool._in_use_connections) == 1


async def test_a_silent_server_is_given_up_in_time(server: EmbeddedServer, proxy: FaultProxy) -> None:
    settings = Settings(redis_url=proxy.url, lease=1.5)
    client = connections.coordination(proxy.url, settings)
    channel = Channel(client)
    await channel.execute_command("PING")
    proxy.black_hole()
    began = time.monotonic()
    with pytest.raises(redis.exceptions.TimeoutError):
        await channel.execute_command("PING")
    assert 0.4 * settings.lease <= time.monotonic() - began < 2
    proxy.heal()
    assert await channel.execute_command("PING") == "PONG"
    await client.aclose()
