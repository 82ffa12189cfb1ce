"""An agent for a worker process that can't be stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from workers.agents.protocol import Prompt, Turn


async def agent(prompt: Prompt, turn: Turn) -> None:
    """Swallow every cancellation."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
