"""The floor: what any product pays that appends, wakes another process, and claims there, each by a script.

By the product's own connections, with their time limits and checks; for comparison also by redis-py as it comes.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from redis.asyncio import Redis

from coordinator.settings import Settings
from coordinator.store import connections
from tests.bench.rig import PAUSE, Rig, many

PLAIN: Final = "plain"
OURS: Final = "ours"
APPEND: Final = "return redis.call('RPUSH', KEYS[1], ARGV[1])"
CLAIM: Final = "return redis.call('HINCRBY', KEYS[1], 'claims', 1)"


class Names:
    """The keys of one floor."""

    def __init__(self, kind: str) -> None:
        self.items = f"floor:{kind}:items"
        self.flood = f"floor:{kind}:flood"
        self.count = f"floor:{kind}:count"
        self.acks = f"floor:{kind}:acks"


class Script:
    """One script by its hash."""

    def __init__(self, redis: Any, text: str) -> None:
        self._redis = redis
        self._text = text
        self._sha = ""

    async def load(self) -> Script:
        """Make the server know it."""
        self._sha = await self._redis.script_load(self._text)
        return self

    async def __call__(self, key: str, *args: str) -> Any:
        """Run it on one key."""
        return await self._redis.execute_command("EVALSHA", self._sha, 1, key, *args)


def clients_of(kind: str, url: str) -> tuple[Any, Any]:
    """A client for scripts and one for blocking reads."""
    if kind == PLAIN:
        plain = Redis.from_url(url, decode_responses=True)
        return plain, plain
    settings = Settings(redis_url=url)
    return connections.coordination(url, settings), connections.reader(url, settings)


class Floor:
    """This side of it; the other one is `tests.bench.peer`, a process of its own."""

    def __init__(self, clients: tuple[Any, Any], append: Script, names: Names) -> None:
        self._redis, self._reader = clients
        self._names = names
        self._append = append

    @classmethod
    async def start(cls, rig: Rig, kind: str = OURS) -> Floor:
        """Start the peer and warm both sides up."""
        await rig.start(f"peer-{kind}", "tests.bench.peer", rig.url_for(f"peer-{kind}"), kind)
        clients = clients_of(kind, rig.settings.redis_url)
        for client in clients:
            rig.at_end(client.aclose)
        floor = cls(clients, await Script(clients[0], APPEND).load(), Names(kind))
        await floor.latencies(20)
        return floor

    async def latencies(self, rounds: int) -> list[float]:
        """Milliseconds from the append's call here to the claim's answer there."""
        found = []
        for _ in range(rounds):
            await self._append(self._names.items, str(time.monotonic_ns()))
            await asyncio.sleep(PAUSE)
            _, taken = await self._reader.blpop([self._names.acks], timeout=5)
            found.append(int(taken) / 1e6)
        return found

    async def throughput(self, items: int) -> float:
        """Items a second, appended here and claimed there."""
        await self._redis.delete(self._names.count)
        began = time.monotonic()
        await many([lambda: self._append(self._names.flood, str(items))] * items)
        await self._reader.blpop([self._names.acks], timeout=5)
        return items / (time.monotonic() - began)
