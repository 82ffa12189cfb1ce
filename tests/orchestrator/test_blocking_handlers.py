"""Handlers that block the event loop for longer than their guard lives: they end, or are given up, like any other."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from tests.orchestrator.conftest import Replica, settled
from tests.orchestrator.player import Player

Make = Callable[[str], Player]

TTL = 0.4


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"guard_ttl": TTL, "handler_timeout": 0.3, "handler_tries": 3}


@pytest.mark.parametrize(
    ("then", "runs", "outcome"), [("returns", 1, "stayed"), ("raises", 3, "failed"), ("goes on", 3, "failed")]
)
async def test_a_handler_that_blocks_is_not_run_for_ever(
    coord: Coordinator, player: Make, replica: Replica, then: str, runs: int, outcome: str
) -> None:
    orchestrator, keys = Orchestrator(coord), list[str]()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        keys.append(turn.key)
        time.sleep(2 * TTL)  # noqa: ASYNC251 - as a synchronous library does
        if then == "raises":
            raise RuntimeError("in vain")
        if then == "goes on":
            await asyncio.Event().wait()

    await replica(orchestrator)
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1, timeout=30)
    assert (len(keys), len(set(keys)), await session.outcomes()) == (runs, 1, [outcome])
    counted = [entry for entry in await session.log("error") if entry["where"] == "handler"]
    assert len(counted) == (0 if then == "returns" else 3)
