"""arq as it comes: one worker process with every default, one client that enqueues jobs that do nothing."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any, Final

from arq.connections import RedisSettings, create_pool
from arq.constants import default_queue_name
from arq.worker import Worker

from tests.bench.rig import Rig, many, until

_STARTED: Final = "bare-arq:started"


async def nothing(ctx: dict[Any, Any]) -> None:
    """The job of the throughput."""


async def stamp(ctx: dict[Any, Any], sent: int) -> None:
    """The job of the latency."""
    taken = time.monotonic_ns() - sent
    await ctx["redis"].rpush(_STARTED, taken)


async def _ready(ctx: dict[Any, Any]) -> None:
    print("ready", flush=True)


class BareArq:
    """The client's side of it."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool

    @classmethod
    async def start(cls, rig: Rig) -> BareArq:
        """Start the worker process, and connect."""
        await rig.start("arq", "tests.bench.bare_arq", rig.url_for("arq"))
        pool: Any = await create_pool(RedisSettings.from_dsn(rig.url_for("arq")))
        rig.at_end(pool.aclose)
        return cls(pool)

    async def latencies(self, rounds: int) -> list[float]:
        """Milliseconds from a job's enqueuing to its start."""
        found = []
        for number in range(rounds):
            # The worker polls: spread over its period, or all of them meet the same moment of it.
            await asyncio.sleep(0.5 * number / rounds)
            await self._pool.enqueue_job("stamp", time.monotonic_ns())
            _, taken = await self._pool.blpop([_STARTED], timeout=5)
            found.append(int(taken) / 1e6)
        return found

    async def throughput(self, jobs: int) -> float:
        """Jobs a second, from the first one's enqueuing to the last one's end."""
        began = time.monotonic()
        await many([lambda: self._pool.enqueue_job("nothing")] * jobs)
        await until(self._done, "arq has run every job", every=0.02)
        return jobs / (time.monotonic() - began)

    async def _done(self) -> bool:
        # A job stays in the queue until it has ended.
        return not await self._pool.zcard(default_queue_name)


def main(url: str) -> None:
    """Run the worker until killed."""
    Worker(functions=[nothing, stamp], redis_settings=RedisSettings.from_dsn(url), on_startup=_ready).run()


if __name__ == "__main__":
    main(sys.argv[1])
