"""A session's entry and its settlement wait for different things, and never for each other."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.client import Coordinator
from coordinator.domain.records import Snapshot
from coordinator.domain.workflow import Step
from coordinator.orchestrator import Orchestrator
from tests.orchestrator.conftest import OnStep, Replica, Stepping, eventually, flow, stop

FLOW = flow(Step(name="work"), Step(name="quiet"), Step(name="last"), Step(name="fresh", reset_agent_context=True))


async def test_an_entry_goes_on_while_the_settlement_before_it_waits_for_a_guard(
    coord: Coordinator, stepping: Stepping, replica: Replica
) -> None:
    """The guard's holder may wait for a claim, that for the entry, and the entry lies behind the ready."""
    first, session = await stepping(Orchestrator(coord, FLOW), "work")
    claim = await session.begin()
    await stop(first.task)
    assert await coord.session("s").move("quiet") == "applied"
    assert await coord.session("s").move("last") == "pending"
    await session.finish(claim)
    await coord.kernel.guards.acquire("s", "holder")
    await replica()

    def is_entered(view: Snapshot) -> bool:
        return (view.step, view.entering, view.unsettled_turn, view.guard_owner) == ("last", "", 1, "holder")

    await seen(coord, is_entered)


async def test_a_settlement_goes_on_while_the_entry_before_it_waits_for_a_job(
    coord: Coordinator, on_step: OnStep
) -> None:
    session = await on_step(Orchestrator(coord, FLOW), "work")
    claim = await session.begin()
    guard = await coord.kernel.guards.acquire("s", "holder")
    assert await coord.session("s").move("fresh") == "applied"
    await session.finish(claim)
    await coord.kernel.maintenance.begin("s", "job", "compaction")
    await coord.kernel.guards.release("s", "holder", guard.number)

    def is_settled(view: Snapshot) -> bool:
        return (view.step, bool(view.entering), view.unsettled_turn, view.phase) == ("fresh", True, 0, "maintenance")

    await seen(coord, is_settled)


async def seen(coord: Coordinator, holds: Callable[[Snapshot], bool]) -> None:
    """Wait, less long than the guard and the job have, until one snapshot shows it."""

    async def look() -> bool:
        return holds(await coord.kernel.snapshots.read("s"))

    await eventually(look, timeout=8)
