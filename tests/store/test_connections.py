"""The clients: what they bear, what they repeat, and what their errors mean to a user."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions
from redis.asyncio import Redis

from coordinator.domain.errors import (
    CoordinatorError,
    ScriptContractError,
    SessionUnknown,
    StoreMisconfigured,
    StoreUnavailable,
)
from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.connections import coordination, is_transient, locate, queue, reader, translate, was_sent
from coordinator.store.embedded import EmbeddedServer
from tests.support.proxy import FaultProxy
from tests.support.servers import BINARIES

SECRET = "s3cr3t"
WRITE = "return redis.call('SET', KEYS[1], 1)"


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as found:
        yield found


@pytest.fixture
def own(server_kind: str) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(binary=BINARIES[server_kind], config={"requirepass": SECRET}) as found:
        yield found


async def failure(doing: Any) -> tuple[CoordinatorError, bool]:
    """The error to raise for it, and whether it may have run."""
    with pytest.raises((exceptions.RedisError, OSError)) as caught:
        await doing
    told = translate(caught.value)
    assert SECRET not in f"{told!r}"
    assert is_transient(caught.value) is told.retryable
    return told, was_sent(caught.value)


def client(stack: AsyncExitStack, url: str) -> Redis:
    made = coordination(url, Settings())
    stack.push_async_callback(made.aclose)
    return made


async def test_refusals_of_a_server_are_told_apart(own: EmbeddedServer, stack: AsyncExitStack) -> None:
    admin = client(stack, own.url)
    await admin.execute_command("ACL", "SETUSER", "little", "on", f">{SECRET}", "~x:*", "+ping", "+eval", "+get")
    little = client(stack, f"redis://little:{SECRET}@127.0.0.1:{own.port}/0")
    cases = [
        (client(stack, f"redis://127.0.0.1:{own.port}/1").get("a"), StoreMisconfigured, "wants a password"),
        (client(stack, f"redis://:no{SECRET}@127.0.0.1:{own.port}/0").get("a"), StoreMisconfigured, "this user name"),
        (little.get("a"), StoreMisconfigured, "for want of rights"),
        (little.set("x:a", 1), StoreMisconfigured, "'set' command"),
        (little.eval(WRITE, 1, "x:a"), StoreMisconfigured, "for want of rights"),
        (admin.execute_command("NONSENSE", SECRET), StoreMisconfigured, "version 7 or later"),
        (admin.eval("return nothing()", 0), ScriptContractError, "This is a bug"),
    ]
    for doing, kind, words in cases:
        told, sent = await failure(doing)
        assert isinstance(told, kind), told
        assert words in str(told)
        assert not sent


async def test_a_full_server_and_a_replica_say_so(own: EmbeddedServer, stack: AsyncExitStack) -> None:
    admin = client(stack, own.url)
    await admin.config_set("maxmemory", 1)
    told, sent = await failure(admin.eval(WRITE, 1, "a"))
    assert isinstance(told, StoreMisconfigured)
    assert "out of memory" in str(told)
    assert not sent
    await admin.config_set("maxmemory", 0)
    await admin.execute_command("REPLICAOF", "127.0.0.1", "1")
    told, sent = await failure(admin.eval(WRITE, 1, "a"))
    assert isinstance(told, StoreUnavailable)
    assert "read-only replica" in str(told)
    assert not sent


@pytest.mark.parametrize(
    ("error", "sent", "kind"),
    [
        (exceptions.ConnectionError("Error 111 connecting to a:1. Connection refused."), False, StoreUnavailable),
        (exceptions.ConnectionError("No connection available."), False, StoreUnavailable),
        (exceptions.ConnectionError("Connection closed by server."), True, StoreUnavailable),
        (exceptions.TimeoutError("Timeout connecting to server"), False, StoreUnavailable),
        (exceptions.TimeoutError("Timeout reading from a:1"), True, StoreUnavailable),
        (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), False, StoreUnavailable),
        (exceptions.ResponseError("MISCONF Redis is configured to save"), False, StoreMisconfigured),
        (exceptions.ResponseError("MASTERDOWN Link with MASTER is down"), False, StoreUnavailable),
        (exceptions.ResponseError("WRONGTYPE Operation against a key"), False, ScriptContractError),
        (ConnectionResetError(104, "reset"), True, StoreUnavailable),
        (SessionUnknown("no such session"), True, SessionUnknown),
    ],
)
def test_each_error_means_one_thing(error: Exception, sent: bool, kind: type[CoordinatorError]) -> None:
    assert type(translate(error)) is kind
    assert was_sent(error) is sent


async def test_nobody_there_is_unavailable_and_not_sent(stack: AsyncExitStack) -> None:
    for url in ("redis://127.0.0.1:1/0", "unix:///nowhere/redis.sock", "rediss://127.0.0.1:1/0"):
        told, sent = await failure(client(stack, url).get("a"))
        assert isinstance(told, StoreUnavailable)
        assert not sent


async def test_a_script_is_sent_once_and_its_client_lives_on(server: EmbeddedServer, stack: AsyncExitStack) -> None:
    async with FaultProxy(server.port) as proxy:
        talker = client(stack, proxy.url)
        await talker.ping()
        proxy.black_hole(requests=False)
        started = time.monotonic()
        told, sent = await failure(talker.incr("a"))
        assert isinstance(told, StoreUnavailable)
        assert sent
        assert time.monotonic() - started < 3
        proxy.heal()
        assert await talker.get("a") == "1"
        proxy.refuse()
        assert (await failure(talker.incr("a")))[0].retryable
        proxy.heal()
        assert int(await talker.incr("a")) == 2


async def test_the_queue_outlives_a_restart(server: EmbeddedServer) -> None:
    arq = queue(server.url, Settings())
    await arq.ping()
    server.kill()
    waiting = asyncio.create_task(arq.enqueue_job("place", "s", "t", _job_id="one"))
    await asyncio.sleep(0.2)
    server.start()
    assert await waiting is not None
    assert await arq.zcard("arq:coord:v1") == 1
    await arq.aclose()


async def test_a_reader_waits_as_long_as_it_asked(server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BLOCK", 0.5)
    blocking = reader(server.url, Settings())
    assert await blocking.execute_command("BLPOP", "nothing", "0.5") is None
    await blocking.aclose()


async def test_one_embedded_server_serves_both_addresses() -> None:
    async with locate(Settings(redis_url="embedded:")) as address:
        assert address.redis_url == address.queue_url
        assert "127.0.0.1" not in repr(address)
        one = coordination(address.redis_url, Settings())
        assert await one.ping()
        await one.aclose()
    elsewhere = Settings(redis_url="redis://h/0", queue_url="redis://q/0")
    async with locate(elsewhere) as address:
        assert (address.redis_url, address.queue_url) == ("redis://h/0", "redis://q/0")


async def test_an_address_that_the_client_does_not_know_is_not_quoted() -> None:
    with pytest.raises(StoreMisconfigured) as caught:
        _ = coordination(f"redis://h/0?db={SECRET}", Settings())
    assert SECRET not in repr(caught.getrepr())


async def test_a_cancel_is_never_lost_in_a_command(server: EmbeddedServer, stack: AsyncExitStack) -> None:
    talker = client(stack, server.url)

    async def talk() -> None:
        while True:
            await talker.ping()

    for turns in range(60):
        task = asyncio.create_task(talk())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait({task}, timeout=1)
        assert done, f"cancelled after {turns} turns of the loop, and still talking"
        assert task.cancelled()


async def test_a_unix_socket_and_another_database_work(tmp_path: Path) -> None:
    with EmbeddedServer(config={"unixsocket": str(tmp_path / "s"), "requirepass": "pw"}):
        one = coordination(f"unix://:pw@{tmp_path}/s?db=3", Settings())
        assert await one.set("a", 1)
        assert await one.get("a") == "1"
        await one.aclose()
