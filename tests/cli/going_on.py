"""An agent and handlers that go on when they are told to end."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from coordinator import Orchestrator, Session, SettledTurn
from workers.agents.protocol import Prompt, Turn


async def in_a_thread(prompt: Prompt, turn: Turn) -> None:
    await turn.emit("begun")
    await asyncio.to_thread(time.sleep, 600)


def threading(orchestrator: Orchestrator) -> None:
    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        print("begun")
        await asyncio.to_thread(time.sleep, 600)


def swallowing(orchestrator: Orchestrator) -> None:
    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        print("begun")
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(600)
