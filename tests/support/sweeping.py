"""Sweeping by hand, as a replica does, without acting on what is found."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from tests.support.watch import BOUND

if TYPE_CHECKING:
    from coordinator.services import Kernel

_SHORTEST: Final = 0.02


async def due(kernel: Kernel, session_id: str, kind: str) -> str:
    """Sweep until a session's deadline is over; gives its score, which is left as it is."""
    partition = kernel.store.keys.partition_of(session_id)
    async with asyncio.timeout(BOUND):
        while True:
            sweep = await kernel.deadlines.sweep(partition)
            for one in sweep.due:
                if (one.kind, one.session_id) == (kind, session_id):
                    return one.score
            await asyncio.sleep(max(_SHORTEST, (sweep.next_ms or 0) / 1000))
