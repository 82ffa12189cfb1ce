"""Every replica sweeps: deadlines that are over are acted on, whoever set them and whatever became of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from coordinator.domain.errors import CoordinatorError
from coordinator.services.deadlines import Deadlines, Due, Sweep
from coordinator.streams.backoff import Backoff

_log = logging.getLogger(__name__)

_AT_ONCE: Final = 32
_SHORTEST: Final = 0.02
"""Between two sweeps, in seconds: what becomes due in between is handled together."""


class Sweeper:
    """Acts on due deadlines of all partitions. Any number of sweepers may run: each act is compare-and-set.

    `unsettled` is told of a partition in which a turn was not settled in time.
    """

    def __init__(
        self, deadlines: Deadlines, partitions: int, interval: float, unsettled: Callable[[int], None] | None = None
    ) -> None:
        self._deadlines = deadlines
        self._partitions = partitions
        self._interval = interval
        self._unsettled = unsettled
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._backoff = Backoff(first=0.2, most=5.0)
        self._handled: set[Due] = set()

    async def run(self) -> None:
        """Sweep until cancelled, sleeping to the earliest deadline known, but at most the interval."""
        delay = 0.0
        while True:
            await asyncio.sleep(delay)
            delay = await self.once()

    async def once(self) -> float:
        """Sweep every partition once; gives the seconds until the next sweep is due. Never fails."""
        found = await asyncio.gather(*map(self._sweep, range(self._partitions)), return_exceptions=True)
        sweeps = [sweep for sweep in found if isinstance(sweep, Sweep)]
        errors = [error for error in found if isinstance(error, BaseException)]
        due = {item for sweep in sweeps for item in sweep.due}
        errors += [
            CoordinatorError(f"{same.kind} of session {same.session_id} stays due") for same in due & self._handled
        ]
        results = await asyncio.gather(*map(self._expire, due), return_exceptions=True)
        errors += [error for error in results if error is not None]
        self._handled = due
        if errors:
            return self._failed(errors)
        self._backoff.succeeded()
        waits = [sweep.next_ms / 1000 for sweep in sweeps if sweep.next_ms is not None]
        return min(self._interval, max(_SHORTEST, min(waits, default=self._interval)))

    def _failed(self, errors: list[BaseException]) -> float:
        # Cancelling `once` cancels the gathers themselves, so what is in `errors` is never this task's own end.
        delay = self._backoff.next()
        if self._backoff.failures == 1 or self._backoff.failures % 20 == 0:
            bug = next((error for error in errors if not isinstance(error, CoordinatorError)), None)
            _log.warning(
                "%d failures while sweeping, next sweep in %.2f s: %s", len(errors), delay, errors[0], exc_info=bug
            )
        return min(self._interval, delay)

    async def _sweep(self, partition: int) -> Sweep:
        async with self._slots:
            sweep = await self._deadlines.sweep(partition)
        if self._unsettled is not None and any(due.kind == "settlement" for due in sweep.due):
            self._unsettled(partition)
        return sweep

    async def _expire(self, due: Due) -> None:
        async with self._slots:
            await self._deadlines.expire(due.kind, due.session_id, due.score)
