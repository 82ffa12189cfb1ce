"""Handlers for replicas that are processes of their own: `--app tests.orchestrator.app:NAME`."""

from __future__ import annotations

import asyncio
import os
import signal

from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session


def hang_once(orchestrator: Orchestrator) -> None:
    """The first run for a turn hangs; a message in the inbox tells a later run, wherever it is, that there was one."""

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        receipt = await session.send("handled", message_id=f"first-{turn.key}", wake=False)
        if not receipt.duplicate:
            await asyncio.Event().wait()


def kill(orchestrator: Orchestrator) -> None:
    """Every run for a message with `poison` in its session's name ends the process, as running out of memory would."""

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        if turn.session_id.startswith("poison"):
            os.kill(os.getpid(), signal.SIGKILL)
