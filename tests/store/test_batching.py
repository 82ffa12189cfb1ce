"""Commands that travel together: own answers, own errors, and nobody waits for ever."""

from __future__ import annotations

import asyncio

import pytest
import redis.exceptions
from redis.asyncio import Redis

from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.batching import Batching
from coordinator.store.embedded import EmbeddedServer
from tests.support.proxy import FaultProxy


async def test_each_command_gets_its_own_answer(backend: Redis) -> None:
    batching = Batching(backend)
    answers = await asyncio.gather(*(batching.execute_command("ECHO", f"{number}") for number in range(500)))
    assert answers == [f"{number}" for number in range(500)]


async def test_an_error_is_its_own_callers_only(backend: Redis) -> None:
    batching = Batching(backend)
    await batching.execute_command("SET", "text", "x")
    found = await asyncio.gather(
        batching.execute_command("GET", "text"),
        batching.execute_command("HGET", "text", "field"),
        batching.execute_command("EVALSHA", "0" * 40, 0),
        return_exceptions=True,
    )
    assert found[0] == "x"
    assert isinstance(found[1], redis.exceptions.ResponseError)
    assert isinstance(found[2], redis.exceptions.NoScriptError)


async def test_a_cancelled_caller_disturbs_no_other(backend: Redis) -> None:
    batching = Batching(backend)
    leaving = asyncio.ensure_future(batching.execute_command("ECHO", "gone"))
    staying = [batching.execute_command("ECHO", f"{number}") for number in range(3)]
    leaving.cancel()
    assert await asyncio.gather(*staying) == ["0", "1", "2"]
    assert leaving.cancelled()


async def test_a_lost_connection_is_everybodys_error_and_the_next_batch_goes_through(
    server: EmbeddedServer, proxy: FaultProxy
) -> None:
    settings = Settings(redis_url=proxy.url)
    client = connections.coordination(proxy.url, settings)
    batching = Batching(client)
    await batching.execute_command("ECHO", "up")
    proxy.black_hole()
    waiting = [batching.execute_command("ECHO", f"{number}") for number in range(200)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    proxy.refuse()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(error, redis.exceptions.ConnectionError) for error in found)
    proxy.heal()
    assert await batching.execute_command("ECHO", "up again") == "up again"
    with pytest.raises(redis.exceptions.ResponseError):
        await batching.execute_command("NONSENSE")
    await client.aclose()
