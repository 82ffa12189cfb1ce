"""Carrying out the entry into a workflow step, whoever does it and whatever is in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.workflow import Step
from coordinator.orchestrator import Orchestrator
from coordinator.store.keys import GROUP
from tests.orchestrator.conftest import Replica, all_handled, at, eventually, flow, pending
from tests.orchestrator.player import Player
from tests.support.faulty import EVERY, FaultyStore

Make = Callable[[str], Player]

FLOW = flow(
    Step(name="work", on_turn_complete="fresh"),
    Step(name="fresh", prompt="Look again.", auto_start=True, reset_agent_context=True),
    Step(name="quiet", prompt="never sent"),
    Step(name="loud", prompt="Go.", auto_start=True),
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


async def test_a_step_without_auto_start_is_entered_and_says_nothing(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    await coord.session("s").move("quiet")
    view = await at(coord, "s", "quiet")
    assert (view.status, view.inbox.next_turn) == ("idle", ())
    assert [entry["step"] for entry in await session.log("step.entered")] == ["work", "quiet"]
    assert await session.log("error", "reset.started") == []
    await eventually(lambda: all_handled(coord, "s"))


async def test_the_prompt_goes_before_what_is_queued(coord: Coordinator, player: Make, replica: Replica) -> None:
    session = player("s")
    await replica(Orchestrator(coord, FLOW))
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    claim = await session.begin()
    await session.send("queued before")
    await coord.session("s").move("loud")
    view = await at(coord, "s", "loud")
    assert view.inbox.next_turn[0].message_id == f"entry-{view.step_entry}"
    assert len(view.inbox.next_turn) == 2
    assert view.open_turn == 1
    await session.finish(claim)


async def test_a_step_that_asks_for_it_gets_a_fresh_context_first(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Nobody waits for the reset: the guard is free meanwhile, and its end has the entry go on."""
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
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
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    first = await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    await session.turn()
    reset_id = await resetting(coord, "s")
    first.task.cancel()
    await asyncio.gather(first.task, return_exceptions=True)
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    assert (await coord.kernel.snapshots.read("s")).entering
    await replica()
    view = await at(coord, "s", "fresh")
    assert [entry.message_id for entry in view.inbox.next_turn] == [f"entry-{view.step_entry}"]
    assert len(await session.log("reset.started")) == 1


async def test_a_failed_reset_fails_the_entry(coord: Coordinator, player: Make, replica: Replica) -> None:
    """The step keeps its name, its prompt is not sent, and what was sent is parked."""
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
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
    assert [entry["step"] for entry in await session.log("step.entered")] == ["work"]


async def test_without_an_execution_there_is_nothing_to_reset(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    await coord.session("s").move("fresh")
    view = await at(coord, "s", "fresh")
    assert view.status == "running"
    assert len(await session.log("reset.committed")) == 1


async def test_moving_to_such_a_step_stops_the_running_turn(coord: Coordinator, player: Make, replica: Replica) -> None:
    """By the system cancel, which completes nothing; the turn's ready is settled after the reset."""
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    claim = await session.begin()
    await coord.session("s").move("fresh")

    async def stopping() -> bool:
        return (await coord.kernel.snapshots.read("s")).cancel_pending

    await eventually(stopping)
    await session.stopped(claim)
    reset_id = await resetting(coord, "s")
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    await at(coord, "s", "fresh")
    assert [entry["outcome"] for entry in await session.log("turn.settled")] == ["none"]
    claim = await session.claim()
    assert [message.body for message in claim.messages] == ["Look again."]


async def test_a_held_guard_delays_the_reset_only(coord: Coordinator, player: Make, replica: Replica) -> None:
    """Once it has begun, the guard may be anybody's: looking for its end needs none."""
    faults = FaultyStore(coord.kernel.store)
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
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
    await eventually(lambda: _sent(faults, "guard_acquire", before + 3))
    assert (await coord.kernel.snapshots.read("s")).entering
    assert len(await pending(coord.kernel, "s")) == 1
    await coord.kernel.guards.release("s", "someone", guard.number)
    reset_id = await resetting(coord, "s")
    await coord.kernel.resets.end("s", session.execution_id, reset_id, committed=True)
    await at(coord, "s", "fresh")
    assert await session.log("error") == []


async def test_a_maintenance_job_is_waited_for(coord: Coordinator, player: Make, replica: Replica) -> None:
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    faults = FaultyStore(coord.kernel.store)
    async with coord.session("s").maintain("backup"):
        await coord.session("s").move("fresh")
        await eventually(lambda: _sent(faults, "guard_acquire", 2))
        assert (await coord.kernel.snapshots.read("s")).entering
    await at(coord, "s", "fresh")
    assert await session.log("error") == []


async def test_moving_to_a_step_that_was_not_entered_tries_again(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
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


@pytest.mark.parametrize(("published", "words"), [(False, "is not published"), (True, "has no step quiet")])
async def test_a_step_that_is_not_published_fails_visibly(
    coord: Coordinator, player: Make, replica: Replica, published: bool, words: str
) -> None:
    running = await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    running.task.cancel()
    await asyncio.gather(running.task, return_exceptions=True)
    await coord.session("s").move("quiet")
    await coord.kernel.store.redis.delete(coord.kernel.store.keys.workflows)
    if published:
        await coord.kernel.workflows.publish([flow(Step(name="work"))])
    await replica()
    view = await at(coord, "s", "quiet")
    assert view.step_failed
    (error,) = await session.log("error")
    assert error["where"] == "entry"
    assert words in error["message"]
    await eventually(lambda: all_handled(coord, "s"))


async def test_a_dead_replicas_entry_is_carried_out_by_another(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    session = player("s")
    await coord.kernel.workflows.publish([FLOW])
    await session.open(workflow="flow")
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.session("s")["events"]
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    await redis.xreadgroup(GROUP, "dead:1:x", {events: ">"})
    await replica()
    await at(coord, "s", "work")
    await eventually(lambda: all_handled(coord, "s"))


async def test_an_unanswered_entry_stays_pending_and_is_carried_out_once(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    coord.kernel.store._patience = 0.1
    faults = FaultyStore(coord.kernel.store)
    faults.drop_call("enter_end", EVERY)
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await eventually(lambda: _sent(faults, "enter_end", 6))
    assert len(await pending(coord.kernel, "s")) == 1
    faults.heal()
    faults.drop_reply("enter_end", 1)
    await at(coord, "s", "work")
    await eventually(lambda: all_handled(coord, "s"))
    assert len(await session.log("step.entered")) == 1
    assert await session.log("error") == []


async def test_an_entry_of_a_removed_session_is_acknowledged(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await coord.kernel.workflows.publish([FLOW])
    session = player("s")
    await session.open(workflow="flow")
    await coord.kernel.store.redis.delete(coord.kernel.store.keys.session("s")["session"])
    await replica()
    await eventually(lambda: all_handled(coord, "s"))
    assert not await coord.kernel.store.redis.exists(coord.kernel.store.keys.session("s")["session"])


async def test_old_announcements_change_nothing(coord: Coordinator, player: Make, replica: Replica) -> None:
    """Of entries that are over, with a reset and without, while the session is at a later step."""
    await replica(Orchestrator(coord, FLOW))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    for step in ("fresh", "quiet"):
        await coord.session("s").move(step)
        await at(coord, "s", step)
    redis, key = coord.kernel.store.redis, coord.kernel.store.keys.session("s")
    before, log = await redis.hgetall(key["session"]), await redis.xlen(key["log"])  # type: ignore[misc]
    await session.again(*reversed(await session.events("step.entering")))
    await eventually(lambda: all_handled(coord, "s"))
    assert await redis.hgetall(key["session"]) == before  # type: ignore[misc]
    assert await redis.xlen(key["log"]) == log


async def _sent(faults: FaultyStore, script: str, number: int) -> bool:
    return faults.sent[script] >= number
