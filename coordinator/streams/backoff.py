"""How long to wait before a loop tries again."""

from __future__ import annotations

import random


class Backoff:
    """Growing waits in seconds with full jitter, so that replicas that failed together don't come back together."""

    def __init__(self, first: float = 0.05, most: float = 2.0) -> None:
        self._first = first
        self._most = most
        self._failures = 0

    @property
    def failures(self) -> int:
        """How many waits were drawn since the last success."""
        return self._failures

    def succeeded(self) -> None:
        """Start again from the shortest wait."""
        self._failures = 0

    def next(self) -> float:
        """The next wait: never under a tenth of its bound, so that nothing spins; the bound doubles up to `most`."""
        bound = min(self._most, self._first * float(1 << min(self._failures, 16)))
        self._failures += 1
        return bound * random.uniform(0.1, 1.0)  # noqa: S311 - spreads load, keeps no secret


def while_busy(tries: int) -> float:
    """Seconds until the next try while somebody else is at it: 50 ms, doubling to 1 s."""
    return min(1.0, 0.05 * (1 << min(tries, 10)))


def after_failure(tries: int) -> float:
    """Seconds until a handler that failed is run again: 200 ms, doubling to 5 s."""
    return min(5.0, 0.2 * (1 << min(tries, 10)))
