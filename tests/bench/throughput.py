"""Full turns a second: sent by one client, run by one worker, settled by one replica."""

from __future__ import annotations

import asyncio
import time

from coordinator.session import Session
from tests.bench.rig import Rig, many, until


class Throughput:
    """Turns of the tiny agent. The first `busy` sessions have a live execution, the others stay as they were opened."""

    def __init__(self, rig: Rig, sessions: list[Session], busy: int) -> None:
        self.sessions = sessions
        self.placed = 0.0
        """First turns a second, a placement and a new execution each."""
        self.rounds = 0
        self._rig = rig
        self._busy = sessions[:busy]

    @classmethod
    async def start(cls, rig: Rig, idle: int, busy: int) -> Throughput:
        """Open all sessions and give the busy ones their first turn."""
        sessions = [rig.coord.session(f"idle-{one}") for one in range(idle)]
        await many([session.open for session in sessions])
        throughput = cls(rig, sessions, busy)
        throughput.placed = await throughput.turns_a_second()
        return throughput

    async def turns_a_second(self) -> float:
        """One turn on each busy session, from the first send to the last settlement."""
        self.rounds += 1
        wanted = await self._settled() + len(self._busy)

        async def done() -> bool:
            return await self._settled() >= wanted

        began = time.monotonic()
        counting = asyncio.create_task(until(done, "every turn is settled"))
        await many([lambda one=session: one.send("go") for session in self._busy])  # type: ignore[misc]
        await counting
        return len(self._busy) / (time.monotonic() - began)

    async def _settled(self) -> int:
        keys = self._rig.coord.kernel.store.keys
        async with self._rig.redis.pipeline(transaction=False) as pipe:
            for partition in range(keys.partitions):
                pipe.hget(keys.partition(partition)["counters"], "settled")
            return sum(int(one or 0) for one in await pipe.execute())
