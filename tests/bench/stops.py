"""From `session.cancel()` called in the client to the agent's abort event in the worker, and to the outcome here."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from typing import Final, NamedTuple

from coordinator.session import Session
from tests.bench.agents import WAIT
from tests.bench.rig import PAUSE, Rig

_LIVE: Final = 4
_BOUND: Final = 10.0


class Stopped(NamedTuple):
    """Milliseconds of a series."""

    aborts: list[float]
    outcomes: list[float]


class Stops:
    """Measured on the stamping agent, which says when it was told, and obeys at once."""

    def __init__(self, rig: Rig) -> None:
        self._sessions = [rig.coord.session(f"stop-{number}") for number in range(_LIVE)]

    @classmethod
    async def start(cls, rig: Rig) -> Stops:
        """Warm everything up."""
        stops = cls(rig)
        for session in stops._sessions:
            await session.open()
        await stops.rounds(2 * _LIVE)
        return stops

    async def rounds(self, number: int) -> Stopped:
        """Stop running turns, a few live sessions in turn; one time each for the abort and for the outcome.

        Who waits for an outcome reads the record while the agent is being told: the abort is measured without that.
        """
        aborts, outcomes = [], []
        for one in range(number):
            session = self._sessions[one % _LIVE]
            aborts.append((await self._stop(session, quiet=True))[0])
            outcomes.append((await self._stop(session, quiet=False))[1])
        return Stopped(aborts, outcomes)

    async def _stop(self, session: Session, *, quiet: bool) -> tuple[float, float]:
        receipt = await session.send(WAIT)
        await _accepted(session, receipt.message_id)
        await asyncio.sleep(PAUSE)
        began = time.monotonic_ns()
        ticket = await session.cancel()
        if quiet:
            await asyncio.sleep(PAUSE)
        assert await ticket.outcome(timeout=_BOUND) == "cancelled"
        ended = time.monotonic_ns()
        told = int((await session.result(receipt.message_id, timeout=_BOUND)).text)
        await session.wait_idle(timeout=_BOUND)
        return (told - began) / 1e6, (ended - began) / 1e6


async def _accepted(session: Session, message_id: str) -> None:
    """Wait until the agent has the message; nobody follows the log any more after that."""
    claimed = False
    async with asyncio.timeout(_BOUND), aclosing(session.follow()) as entries:
        async for entry in entries:
            claimed = claimed or (entry.type == "inbox.claimed" and entry.fields["message_id"] == message_id)
            if claimed and entry.type == "agent.running":
                return
