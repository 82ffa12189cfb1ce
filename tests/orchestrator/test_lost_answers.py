"""Replicas whose every script is refused, or answered to nobody, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step
from coordinator.orchestrator import Orchestrator
from coordinator.services.turns import Claim
from tests.orchestrator.conftest import Replica, all_handled, at, eventually, flow
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore

Make = Callable[[str], Player]


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"guard_ttl": 0.6, "lease": 30.0, "self_stop": 60.0}


async def claimed(session: Player) -> Claim:
    """Claim as a driver does: again while a replica holds the guard, or its release was lost."""
    while True:
        claim = await session.claim()
        if claim.verdict is not Verdict.GUARDED:
            return claim
        await asyncio.sleep(0.02)


async def test_lost_calls_and_replies_change_no_sessions_course(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Two replicas, whose scripts are refused or unanswered again and again: each step is entered once, in order."""
    coord.kernel.store._patience = 0.02
    faults = FaultyStore(coord.kernel.store)
    for script in ("settle", "settle_begin", "enter_end", "reset_begin", "guard_acquire", "guard_release"):
        for occurrence in range(1, 20, 3):
            faults.drop_reply(script, occurrence)
            faults.drop_call(script, occurrence + 1)
    chain = flow(
        Step(name="a", on_turn_complete="next"),
        Step(name="b", prompt="b", auto_start=True, reset_agent_context=True, on_turn_complete="next"),
        Step(name="c", prompt="c", auto_start=True, on_turn_complete="next"),
        Step(name="d"),
    )
    await replica(Orchestrator(coord, chain))
    await replica(Orchestrator(coord, chain))
    sessions = [player(f"s{number}") for number in range(4)]

    async def reset(session: Player) -> None:
        async def look() -> bool:
            view = await coord.kernel.snapshots.read(session.session_id)
            return view.reset_pending and view.phase == "maintenance"

        await eventually(look)
        reset_id = (await coord.kernel.snapshots.read(session.session_id)).reset_id
        await coord.kernel.resets.end(session.session_id, session.execution_id, reset_id, committed=True)

    async def work(session: Player) -> None:
        await session.open(workflow="flow")
        await at(coord, session.session_id, "a")
        await session.turn()
        await reset(session)
        for step, follows in (("b", "c"), ("c", "d")):
            await at(coord, session.session_id, step)
            claim = await claimed(session)
            assert [message.body for message in claim.messages] == [step]
            await session.finish(claim)
            await at(coord, session.session_id, follows)

    await asyncio.gather(*map(work, sessions))
    for session in sessions:
        assert await session.steps() == ["a", "b", "c", "d"]
        # A settlement that is repeated after the next turn has begun may be stale; it has no other effect.
        assert await session.log("error", "reset.failed") == []
        assert await session.outcomes() == ["advanced"] * 3
        await eventually(partial(all_handled, coord, session.session_id))
