"""From `session.send()` called in the client to the turn opened in the worker."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from coordinator.session import Session
from tests.bench.rig import PAUSE, Rig

_LIVE: Final = 8


class Latency:
    """Measured on the stamping agent, which says how long it took."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._fresh = 0
        self._live: list[Session] = []

    @classmethod
    async def start(cls, rig: Rig) -> Latency:
        """Warm everything up: the first of each is dearer."""
        latency = cls(rig)
        latency._live = latency._sessions(_LIVE)
        for _ in range(3):
            await latency.turns(_LIVE)
        await latency.placements(3)
        return latency

    async def turns(self, rounds: int) -> list[float]:
        """Milliseconds on live executions, a few sessions taking turns."""
        return await self._measure([self._live[number % len(self._live)] for number in range(rounds)])

    async def placements(self, rounds: int) -> list[float]:
        """Milliseconds on fresh sessions, through arq and a new execution each."""
        return await self._measure(self._sessions(rounds))

    def _sessions(self, number: int) -> list[Session]:
        first, self._fresh = self._fresh, self._fresh + number
        return [self._rig.coord.session(f"latency-{one}") for one in range(first, first + number)]

    async def _measure(self, sessions: list[Session]) -> list[float]:
        for session in dict.fromkeys(sessions):
            await session.open()
        sent = []
        for session in sessions:
            message_id = f"m{time.monotonic_ns()}"
            sent.append((session, message_id))
            await session.send(str(time.monotonic_ns()), message_id=message_id)
            # Any wait on the session reads it at each of its changes, which the turn under measurement would feel.
            await asyncio.sleep(PAUSE)
            await session.wait_idle(timeout=10)
        results = [await session.result(message_id, timeout=5) for session, message_id in sent]
        return [int(result.text) / 1e6 for result in results]
