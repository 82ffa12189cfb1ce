"""The scripted agent's lines about stops, on a real worker: what is really late, and what is really ignored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.domain.records import SessionPolicy
from coordinator.settings import Settings
from coordinator.sweeper import Sweeper
from tests.workers.rig import Rig, rig
from workers.agents.scripted import agent

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"cancel_timeout": 0.6, "sweep": 0.1}


@asynccontextmanager
async def deployed(settings: Settings) -> AsyncIterator[Rig]:
    """A worker on the scripted agent, and a sweeper."""
    async with rig(settings, agent) as found:
        sweeper = asyncio.create_task(Sweeper(found.kernel.deadlines, settings.partitions, settings.sweep).run())
        try:
            yield found
        finally:
            sweeper.cancel()


async def started(deployment: Rig, *lines: str) -> None:
    """Begin a turn of session s whose agent has come to its hold."""
    await deployment.send("s", "\n".join(("say at work", *lines, "hold never")), SessionPolicy(settlement="none"))
    await deployment.until("s", "output")


async def test_a_late_completion_within_the_bound_counts(settings: Settings) -> None:
    """The stop ends with the agent's own reason, and is `completed`."""
    async with deployed(settings) as deployment:
        await started(deployment, "late 0.1")
        ticket = await deployment.coord.session("s").cancel()
        assert await ticket.outcome(timeout=5) == "completed"
        assert await deployment.ends("s") == ["completed"]
        assert await deployment.log("s", "ready.stale") == []


@pytest.mark.parametrize("lines", [("late 1.2",), ("late 0.4", "ignore-cancel")], ids=["late", "ignores"])
async def test_a_completion_above_the_bound_is_stale_while_the_next_turn_runs(
    settings: Settings, lines: tuple[str, ...]
) -> None:
    """The stop is escalated, the next turn has another execution, and the late completion ends nothing."""
    async with deployed(settings) as deployment:
        session = deployment.coord.session("s")
        await started(deployment, *lines)
        first = (await session.snapshot()).execution_id
        receipt = await session.replace("say instead\nhold late-test")
        assert await session.ticket(receipt.message_id).outcome(timeout=5) == "escalated"
        await deployment.until("s", "agent.running", 2)
        now = await session.snapshot()
        assert (now.open_turn, now.generation, now.execution_id != first) == (2, 2, True)
        (stale,) = await deployment.until("s", "ready.stale")
        assert (stale.fields["generation"], stale.fields["why"]) == ("1", "execution")
        after = await session.snapshot()
        assert (after.open_turn, after.generation, after.execution_id) == (2, 2, now.execution_id)
        await deployment.kernel.store.redis.set("coord:scripted:late-test", "1")
        assert await deployment.ends("s", 2) == ["escalated", "completed"]
        assert (await session.result(receipt.message_id, timeout=5)).text == "instead"


async def test_an_agent_that_ignores_the_stop_is_escalated_and_its_execution_never_used_again(
    settings: Settings,
) -> None:
    """It was a suspect until its worker had ended it."""
    async with deployed(settings) as deployment:
        session = deployment.coord.session("s")
        await started(deployment, "ignore-cancel")
        first = (await session.snapshot()).execution_id
        ticket = await session.cancel()
        await session.send("say after it")
        assert await ticket.outcome(timeout=5) == "escalated"
        assert await deployment.ends("s", 2) == ["escalated", "completed"]
        executions = [entry.fields["execution_id"] for entry in await deployment.log("s", "turn.started")]
        assert executions[0] == first != executions[1]
        told = [entry.fields.get("execution_id") for entry in await deployment.log("s", "error")]
        assert first in told
