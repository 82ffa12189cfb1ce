"""Carrying out the entry into a workflow step, whoever does it and whatever is in the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.workflow import Step
from coordinator.orchestrator import Orchestrator
from coordinator.store.keys import GROUP
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


async def test_a_step_without_auto_start_is_entered_and_says_nothing(coord: Coordinator, on_step: OnStep) -> None:
    session = await on_step(Orchestrator(coord, FLOW), "work")
    await coord.session("s").move("quiet")
    view = await at(coord, "s", "quiet")
    assert (view.status, view.inbox.next_turn) == ("idle", ())
    assert await session.steps() == ["work", "quiet"]
    assert await session.log("error", "reset.started") == []
    await eventually(lambda: all_handled(coord, "s"))


async def test_the_prompt_goes_before_what_is_queued(coord: Coordinator, on_step: OnStep) -> None:
    session = await on_step(Orchestrator(coord, FLOW), "work")
    claim = await session.begin()
    await session.send("queued before")
    await coord.session("s").move("loud")
    view = await at(coord, "s", "loud")
    assert view.inbox.next_turn[0].message_id == f"entry-{view.step_entry}"
    assert len(view.inbox.next_turn) == 2
    assert view.open_turn == 1
    await session.finish(claim)


@pytest.mark.parametrize(("published", "words"), [(False, "is not published"), (True, "has no step quiet")])
async def test_a_step_that_is_not_published_fails_visibly(
    coord: Coordinator, stepping: Stepping, replica: Replica, published: bool, words: str
) -> None:
    running, session = await stepping(Orchestrator(coord, FLOW), "work")
    await stop(running.task)
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
    await eventually(lambda: sent(faults, "enter_end", 6))
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


async def test_old_announcements_change_nothing(coord: Coordinator, on_step: OnStep) -> None:
    """Of entries that are over, with a reset and without, while the session is at a later step."""
    session = await on_step(Orchestrator(coord, FLOW), "work")
    for step in ("fresh", "quiet"):
        await coord.session("s").move(step)
        await at(coord, "s", step)
    redis, key = coord.kernel.store.redis, coord.kernel.store.keys.session("s")
    before, log = await redis.hgetall(key["session"]), await redis.xlen(key["log"])  # type: ignore[misc]
    await session.again(*reversed(await session.events("step.entering")))
    await eventually(lambda: all_handled(coord, "s"))
    assert await redis.hgetall(key["session"]) == before  # type: ignore[misc]
    assert await redis.xlen(key["log"]) == log
