"""Placements: arq's worker as a short hand-over, woken by a doorbell instead of sleeping between its polls.

arq leases are fixed and ownerless, so a job here only passes an activity to the host, which takes it by script.
"""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import suppress
from datetime import UTC
from typing import TYPE_CHECKING, Any, Final

from arq.worker import Retry, Worker, func
from redis.exceptions import RedisError

from coordinator.domain.errors import StoreError
from coordinator.store.queue import FUNCTION, deserialize, serialize
from coordinator.streams.backoff import Backoff
from workers.host import NoRoom

if TYPE_CHECKING:
    from arq.connections import ArqRedis
    from redis.asyncio import Redis

    from coordinator.store.keys import Keys
    from workers.host import Host

logger = logging.getLogger(__name__)

_POLL: Final = 1
"""Seconds after which the queue is read though no bell rang: rings may be lost, and jobs may become due."""
_JOBS: Final = 16
"""Hand-overs at once."""
_READ: Final = 500
_LOOK: Final = 2.0
"""Seconds that a look at the queue may still take when the worker stops."""
_TRIES: Final = 10_000
"""arq counts starts, restarts of workers included; what bounds an offer is its expiry."""


class PlacementWorker(Worker):
    """Takes offers while the host has room. No Redis error ends it."""

    def __init__(self, host: Host, queue: ArqRedis, bell: Redis, keys: Keys) -> None:
        """`bell` is a client for blocking reads on the queue's server."""
        super().__init__(
            functions=[func(self._place, name=FUNCTION, max_tries=_TRIES)],
            queue_name=keys.queue,
            redis_pool=queue,
            handle_signals=False,
            max_jobs=_JOBS,
            queue_read_limit=_READ,
            job_timeout=30,
            keep_result=0,
            max_tries=_TRIES,
            allow_abort_jobs=False,
            log_results=False,
            timezone=UTC,
            job_serializer=serialize,
            job_deserializer=deserialize,
        )
        self._host = host
        self._bell = bell
        self._doorbell = keys.doorbell
        self._slot = asyncio.Event()
        self._resting = asyncio.Event()
        self.polled = asyncio.Event()

    async def main(self) -> None:
        """Take offers until cancelled."""
        backoff = Backoff(first=0.1, most=5.0)
        while True:
            try:
                await self._look()
                self.polled.set()
                backoff.succeeded()
                await self._until_wanted()
            except (RedisError, OSError) as error:
                delay = backoff.next()
                logger.warning("the placement queue can't be read; again in %.2f s: %s", delay, type(error).__name__)
                await asyncio.sleep(delay)
            except Exception:
                logger.exception("a hand-over failed; its offer will be repeated")
                await asyncio.sleep(backoff.next())

    async def _look(self) -> None:
        self._resting.clear()
        try:
            await self._poll_iteration()
        finally:
            self._resting.set()

    async def stop(self) -> None:
        """Pick nothing more, and wait for the hand-overs in progress."""
        self.allow_pick_jobs = False
        if self.main_task is not None and not self.main_task.done():
            # Cancelled while it watches a job's keys, arq would lose the connection for ever: a look is ended first.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await self._resting.wait()
            self.main_task.cancel()
            await asyncio.gather(self.main_task, return_exceptions=True)
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)

    async def heart_beat(self) -> None:
        """Nothing: the worker's own registry says that it is alive, and there are no cron jobs."""

    async def _poll_iteration(self) -> None:
        # Jobs that were picked take their place in the host a moment later: they count as hosted now.
        self.max_jobs = min(_JOBS, max(0, self._host.max_sessions - len(self._host.drivers)))
        self.allow_pick_jobs = not self._host.draining and self.job_counter < self.max_jobs
        await super()._poll_iteration()

    async def _until_wanted(self) -> None:
        """Wait until there may be something to take, and room for it."""
        if not self._host.room.is_set():
            await self._wait(self._host.room)
            # Offers that no worker with room has taken meanwhile must not wait until what is idle here runs out.
            if not self._host.room.is_set() and (offers := await self.pool.zcard(self.queue_name)):
                self._host.make_room(offers)
        elif self.job_counter >= self.max_jobs:
            self._slot.clear()
            await self._wait(self._slot)
        else:
            await self._bell.blpop([self._doorbell], timeout=_POLL)  # type: ignore[misc]

    async def _wait(self, event: asyncio.Event) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_POLL):
                await event.wait()

    def _release_sem_dec_counter_on_complete(self) -> None:
        super()._release_sem_dec_counter_on_complete()
        self._slot.set()

    async def _place(self, ctx: dict[Any, Any], session_id: str, token: str) -> None:  # noqa: ARG002 - arq's signature
        try:
            await self._host.accept(session_id, token)
        except NoRoom:
            # Back in the queue as it was, and another worker is told: this one does not look until it has room.
            await self.pool.rpush(self._doorbell, session_id)  # type: ignore[misc]
            raise Retry from None
        except StoreError as error:
            raise Retry(defer=random.uniform(0.2, 1.0)) from error  # noqa: S311 - spreads load, keeps no secret
