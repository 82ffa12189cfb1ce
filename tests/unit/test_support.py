"""The tests' own tools do what the tests rely on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.exceptions
from redis.asyncio import Redis

from coordinator.settings import Settings
from coordinator.store.connections import coordination
from coordinator.store.embedded import EmbeddedServer
from tests.support.faulty import EVERY, FaultyStore
from tests.support.keyspace import Key, difference, dump
from tests.support.processes import Process
from tests.support.proxy import FaultProxy


async def test_a_dump_shows_every_type_and_compares(backend: Redis) -> None:
    await backend.set("text", "v", px=90_000)
    await backend.set("bytes", b"\xff\x00")
    await backend.hset("hash", mapping={"b": "2", "a": "1"})  # type: ignore[misc]
    await backend.rpush("list", "x", "y")  # type: ignore[misc]
    await backend.sadd("set", "b", "a")  # type: ignore[misc]
    await backend.zadd("sorted", {"m": 5})
    await backend.xadd("stream", {"type": "t"}, id="1-1")
    await backend.xgroup_create("stream", "g", id="0")
    before = await dump(backend, ignoring={"bytes"})
    assert before["text"] == Key("string", "v", expires=True)
    assert before["hash"] == Key("hash", {"a": "1", "b": "2"}, expires=False)
    assert before["list"].value == ["x", "y"]
    assert before["set"].value == ["a", "b"]
    assert before["sorted"].value == [("m", 5.0)]
    assert before["stream"].value == {"entries": [("1-1", {"type": "t"})], "groups": [("g", "0-0", 0)]}
    assert "bytes" not in before
    assert await dump(backend, ignoring={"bytes"}) == before
    await backend.persist("text")
    await backend.delete("list")
    after = await dump(backend, ignoring={"bytes"})
    assert difference(before, after).keys() == {"text", "list"}
    assert (await dump(backend))["bytes"].value == "\\xff\x00"


class _Script:
    name = "send"


class _Store:
    """As much of a store as the faults touch."""

    def __init__(self) -> None:
        self.ran = 0
        self.settings = Settings()

    async def _evaluate(self, _script: Any, _keys: list[str], _argv: list[str]) -> list[Any]:
        self.ran += 1
        return ["OK"]


async def test_faults_happen_at_the_occurrence_asked_for_and_on_the_side_asked_for() -> None:
    store: Any = _Store()
    faulty = FaultyStore(store)
    seen: list[int] = []

    async def look() -> None:
        seen.append(store.ran)

    async def send() -> str:
        try:
            return str((await store._evaluate(_Script(), [], []))[0])
        except redis.exceptions.ConnectionError:
            return "lost"

    faulty.drop_call("send", 2)
    faulty.drop_reply("send", 3)
    faulty.before("send", look, 4)
    faulty.after("send", look, 4)
    assert [await send() for _ in range(4)] == ["OK", "lost", "lost", "OK"]
    assert (store.ran, seen, faulty.unused) == (3, [2, 3], [])
    faulty.drop_reply("send", EVERY)
    faulty.drop_call("other")
    assert [await send() for _ in range(2)] == ["lost", "lost"]
    assert faulty.unused == [("call", "other")]
    faulty.heal()
    assert await send() == "OK"
    assert faulty.settings == store.settings


async def test_the_proxy_delays_holds_back_cuts_and_heals(server: EmbeddedServer, proxy: FaultProxy) -> None:
    direct, through = coordination(server.url, Settings()), coordination(proxy.url, Settings())
    loop = asyncio.get_running_loop()
    assert await through.ping()
    proxy.delay(0.1)
    started = loop.time()
    await through.ping()
    assert loop.time() - started >= 0.2
    proxy.heal()
    proxy.black_hole()
    held = asyncio.ensure_future(through.set("a", 1))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(held), 0.2)
    assert await direct.get("a") is None
    proxy.heal()
    assert await held
    assert await direct.get("a") == "1"
    proxy.refuse()
    with pytest.raises(redis.exceptions.ConnectionError):
        await through.ping()
    proxy.heal()
    assert await through.ping()
    for client in (direct, through):
        await client.aclose()


async def test_a_process_is_watched_stopped_and_gone(tmp_path: Any) -> None:
    program = tmp_path / "talker.py"
    program.write_text("import time\nprint('x ready', flush=True)\ntime.sleep(60)\n")
    process = await Process.spawn(env={"PYTHONPATH": str(tmp_path)}, program="talker")
    await process.says(r"\bready\b")
    assert process.returncode is None
    assert await process.terminate() == -15
    with pytest.raises(AssertionError, match="ended with -15 without saying 'more':\nx ready"):
        await process.says("more")
    await process.clean_up()


async def test_a_process_that_never_speaks_is_told_in_time() -> None:
    process = await Process.spawn("-c", "import time; time.sleep(60)", program="timeit")
    with pytest.raises(AssertionError, match="without saying"):
        await process.says("ready", timeout=0.5)
    await process.clean_up()
    assert process.returncode is not None
