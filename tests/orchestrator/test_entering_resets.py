"""Entering a step that resets the agent's context: the reset, what it waits for, and what follows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.workflow import Step
from coordinator.orchestrator import Orchestrator
from tests.orchestrator.conftest import (
    OnStep,
    Replica,
    Stepping,
    all_handled,
    at,
    eventually,
    flow,
    pending,
    sent,
    stop,
)
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore

Make = Callable[[str], Player]

FLOW = flow(
    Step(name="work", on_turn_complete="fresh"),
    Step(name="fresh", prompt="Look again.", auto_start=True, reset_agent_context=True),
    Step(name="quiet", prompt="never sent"),
)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"settlement": 1.0, "handler_timeout": 0.5}


async def resetting(coord: Coordinator, session_id: str) -> str:
    """Wait until the worker would be told to replace the provider's session; the reset's id."""

    async def look() -> str | None:
        view = await coord.kernel.snapshots.read(session_id)
        return view.reset_id if view.reset_pending and view.phase == "maintenance" else None

    return await coord.hints.until(session_id, look, 15, "a reset")


async def test_a_step_that_asks_for_it_gets_a_fresh_context_first(coord: Coordinator, on_step: OnStep) -> None:
    """Nobody waits for the reset: the guard is free meanwhile, and its end has the entry go on."""
    session = await on_step(Orchestrator(coord, FLOW), "work")
    await session.turn()
    reset_id = await resetting(coord, "s")
    view = await coord.kernel.snapshots.read("s")
    assert (view.step, reset_id) == ("fresh", f"reset-{view.entering}")
    assert view.inbox.next_turn == ()
    await eventually(lambda: all_handled(coord, "s"))
    assert (await coord.kernel.snapshots.read("s")).guard_owner == ""
    assert await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True, resume_token="new")
    await at(coord, "s", "fresh")
    claim = await session.claim()
    assert [message.body for message in claim.messages] == ["Look again."]
    order = [entry["type"] for entry in await session.log("reset.started", "reset.committed", "step.entered")]
    assert order == ["step.entered", "reset.started", "reset.committed", "step.entered"]


async def test_the_replica_that_began_a_reset_is_not_needed_for_its_end(
    coord: Coordinator, stepping: Stepping, replica: Replica
) -> None:
    first, session = await stepping(Orchestrator(coord, FLOW), "work")
    await session.turn()
    reset_id = await resetting(coord, "s")
    await stop(first.task)
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    assert (await coord.kernel.snapshots.read("s")).entering
    await replica()
    view = await at(coord, "s", "fresh")
    assert [entry.message_id for entry in view.inbox.next_turn] == [f"entry-{view.step_entry}"]
    assert len(await session.log("reset.started")) == 1


async def test_a_failed_reset_fails_the_entry(coord: Coordinator, on_step: OnStep) -> None:
    """The step keeps its name, its prompt is not sent, and what was sent is parked."""
    session = await on_step(Orchestrator(coord, FLOW), "work")
    await session.turn()
    reset_id = await resetting(coord, "s")
    await session.send("meanwhile")
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=False, why="the provider said no")
    view = await at(coord, "s", "fresh")
    assert view.step_failed
    assert view.status == "idle"
    assert len(view.inbox.next_turn) == 1
    *_, error = await session.log("error")
    assert (error["where"], error["step"]) == ("entry", "fresh")
    assert "the provider said no" in error["message"]
    assert await session.steps() == ["work"]


async def test_without_an_execution_there_is_nothing_to_reset(coord: Coordinator, on_step: OnStep) -> None:
    session = await on_step(Orchestrator(coord, FLOW), "work")
    await coord.session("s").move("fresh")
    view = await at(coord, "s", "fresh")
    assert view.status == "running"
    assert len(await session.log("reset.committed")) == 1


async def test_moving_to_such_a_step_stops_the_running_turn(coord: Coordinator, on_step: OnStep) -> None:
    """By the system cancel, which completes nothing; the turn's ready is settled after the reset."""
    session = await on_step(Orchestrator(coord, FLOW), "work")
    claim = await session.begin()
    await coord.session("s").move("fresh")

    async def stopping() -> bool:
        return (await coord.kernel.snapshots.read("s")).cancel_pending

    await eventually(stopping)
    await session.stopped(claim)
    reset_id = await resetting(coord, "s")
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    await at(coord, "s", "fresh")
    assert await session.outcomes() == ["none"]
    claim = await session.claim()
    assert [message.body for message in claim.messages] == ["Look again."]


async def test_a_held_guard_delays_the_reset_only(coord: Coordinator, on_step: OnStep) -> None:
    """Once it has begun, the guard may be anybody's: looking for its end needs none."""
    faults = FaultyStore(coord.kernel.store)
    session = await on_step(Orchestrator(coord, FLOW), "work")
    await session.turn("and wait")
    reset_id = await resetting(coord, "s")
    await eventually(lambda: all_handled(coord, "s"))
    guard = await coord.kernel.guards.acquire("s", "someone")
    assert guard.number
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    await at(coord, "s", "fresh")
    before = faults.sent["guard_acquire"]
    await coord.session("s").move("quiet")
    await at(coord, "s", "quiet")
    await coord.session("s").move("fresh")
    await eventually(lambda: sent(faults, "guard_acquire", before + 3))
    assert (await coord.kernel.snapshots.read("s")).entering
    assert len(await pending(coord.kernel, "s")) == 1
    await coord.kernel.guards.release("s", "someone", guard.number)
    reset_id = await resetting(coord, "s")
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    await at(coord, "s", "fresh")
    assert await session.log("error") == []


async def test_a_maintenance_job_is_waited_for(coord: Coordinator, on_step: OnStep) -> None:
    session = await on_step(Orchestrator(coord, FLOW), "work")
    faults = FaultyStore(coord.kernel.store)
    async with coord.session("s").maintain("backup"):
        await coord.session("s").move("fresh")
        await eventually(lambda: sent(faults, "guard_acquire", 2))
        assert (await coord.kernel.snapshots.read("s")).entering
    await at(coord, "s", "fresh")
    assert await session.log("error") == []


@pytest.mark.parametrize("what", ["stop", "replacement", "reset"])
async def test_what_is_bounded_is_waited_for_and_parks_nothing(
    coord: Coordinator, stepping: Stepping, replica: Replica, what: str
) -> None:
    """A stop or another reset that came first: the step is entered after it, as if it had come just before."""
    running, session = await stepping(Orchestrator(coord, FLOW), "work")
    client = coord.session("s")
    claim = await session.begin()
    await stop(running.task)
    if what == "stop":
        await client.cancel(kind="silent")
    elif what == "replacement":
        await client.replace("instead", message_id="instead")
    else:
        guard = await coord.kernel.guards.acquire("s", "someone")
        assert await coord.kernel.resets.begin("s", "r-mine", guard.number) == "running"
        await coord.kernel.guards.release("s", "someone", guard.number)
    await client.move("fresh")
    faults = FaultyStore(coord.kernel.store)
    await replica()
    await eventually(lambda: sent(faults, "reset_begin", 3))
    assert (await coord.kernel.snapshots.read("s")).entering
    await session.stopped(claim)
    if what == "reset":
        await coord.kernel.resets.end("s", session.execution_id, "r-mine", committed=True)
    reset_id = await resetting(coord, "s")
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    view = await at(coord, "s", "fresh")
    assert await session.log("error") == []
    queued = [entry.message_id for entry in view.inbox.next_turn]
    assert queued == [f"entry-{view.step_entry}", *(["instead"] if what == "replacement" else [])]
    assert view.park_mark == 0


async def test_moving_to_a_step_that_was_not_entered_tries_again(coord: Coordinator, on_step: OnStep) -> None:
    session = await on_step(Orchestrator(coord, FLOW), "work")
    await session.turn()
    first = await resetting(coord, "s")
    ended = coord.kernel.resets.end
    await ended("s", session.execution_id, first, committed=False, why="not now", called=False)
    assert (await at(coord, "s", "fresh")).step_failed
    assert await coord.session("s").move("fresh") == "applied"
    second = await resetting(coord, "s")
    assert second != first
    await ended("s", session.execution_id, second, committed=True)
    view = await at(coord, "s", "fresh")
    assert not view.step_failed
    assert [entry.message_id for entry in view.inbox.next_turn] == [f"entry-{view.step_entry}"]
    # Where it is already, it is not entered again.
    assert await coord.session("s").move("fresh") == "applied"
    assert (await at(coord, "s", "fresh")).step_entry == view.step_entry
