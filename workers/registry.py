"""The worker registry: what people and tools see. Nothing decides by it, and it expires by itself."""

from __future__ import annotations

import os
import socket
from importlib import metadata
from typing import TYPE_CHECKING, Final

from coordinator.store.failures import translate

if TYPE_CHECKING:
    from coordinator.store.store import Store

_SHOWN_MS: Final = 60_000
"""How long a worker that has stopped renewing is still listed, as overdue."""


class Registry:
    """One worker's entry."""

    def __init__(self, store: Store, worker_id: str, capacity: int, agent: str) -> None:
        self._redis = store.redis
        self._workers = store.keys.workers
        self._key = store.keys.worker(worker_id)
        self._worker_id = worker_id
        self._lease_ms = round(store.settings.lease * 1000)
        self._fields: dict[str, str | int] = {
            "capacity": capacity,
            "version": version(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "agent": agent,
        }

    async def renew(self, hosted: int) -> None:
        """List the worker for one more lease, and take those away that are long gone. Raises StoreError."""
        try:
            seconds, micros = await self._redis.time()
            now_ms = int(seconds) * 1000 + int(micros) // 1000
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.zadd(self._workers, {self._worker_id: now_ms + self._lease_ms})
                pipe.hset(self._key, mapping={**self._fields, "hosted": hosted})
                pipe.pexpire(self._key, self._lease_ms + _SHOWN_MS)
                pipe.zremrangebyscore(self._workers, "-inf", now_ms - _SHOWN_MS)
                pipe.pexpire(self._workers, self._lease_ms + _SHOWN_MS)
                await pipe.execute()
        except Exception as error:
            raise translate(error) from error

    async def leave(self) -> None:
        """Take the entry away. Raises StoreError."""
        try:
            async with self._redis.pipeline(transaction=False) as pipe:
                pipe.zrem(self._workers, self._worker_id)
                pipe.delete(self._key)
                await pipe.execute()
        except Exception as error:
            raise translate(error) from error


def version() -> str:
    """The version of this product, or `unknown` when it is not installed."""
    try:
        return metadata.version("coordinator")
    except metadata.PackageNotFoundError:
        return "unknown"
