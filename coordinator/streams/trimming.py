"""Keeping the event streams short: only what every group has acknowledged goes, and the newest always stay."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from coordinator.store.keys import GROUP
from coordinator.store.store import Store

KEPT: Final = 10_000
"""Acknowledged entries of a stream that stay, for redis-cli and for other people's groups."""
GONE: Final = 3600.0
"""Seconds of silence after which a consumer without pending entries leaves the group."""
_INTERVAL: Final = 120.0


class Trimming:
    """Tidies the partitions' streams, one after another, once in some minutes. Two replicas that do it don't mind."""

    def __init__(self, store: Store, kept: int = KEPT, gone: float = GONE) -> None:
        self._store = store
        self._kept = kept
        self._gone = gone

    async def run(self) -> None:
        """Tidy until cancelled. Replicas that started together spread out."""
        while True:
            await asyncio.sleep(_INTERVAL * random.uniform(0.5, 1.5))  # noqa: S311 - spreads load, keeps no secret
            for partition in range(self._store.keys.partitions):
                await self.tidy(partition)

    async def tidy(self, partition: int) -> tuple[int, int]:
        """Tidy one stream; gives how many consumers and how many entries were removed.

        Raises StoreUnavailable when Redis does not answer.
        """
        reply = await self._store.call_partition(
            "tidy", partition, group=GROUP, idle_ms=round(self._gone * 1000), kept=self._kept
        )
        return int(reply.details[0]), int(reply.details[1])
