"""What a turn's end makes of its session's workflow step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.records import CancelKind
from coordinator.domain.workflow import Step
from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from tests.orchestrator.conftest import (
    OnStep,
    Replica,
    all_handled,
    at,
    counters,
    eventually,
    flow,
    pending,
    settled,
)
from tests.orchestrator.player import Player

Make = Callable[[str], Player]

ONWARD = flow(Step(name="a", on_turn_complete="next"), Step(name="b", on_turn_complete="next"), Step(name="c"))


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"handler_timeout": 2.0, "handler_tries": 3}


async def test_each_completed_turn_advances_until_the_last_step(coord: Coordinator, on_step: OnStep) -> None:
    session = await on_step(Orchestrator(coord, ONWARD), "a")
    for step, follows in (("a", "b"), ("b", "c"), ("c", "c")):
        await at(coord, "s", step)
        await session.turn()
        await at(coord, "s", follows)
    assert await session.outcomes() == ["advanced", "advanced", "stayed"]
    assert await session.steps() == ["a", "b", "c"]
    assert await pending(coord.kernel, "s") == []


async def test_the_entered_steps_prompt_is_the_next_turn(coord: Coordinator, on_step: OnStep) -> None:
    review = Step(name="review", prompt="Review it.", auto_start=True)
    session = await on_step(Orchestrator(coord, flow(Step(name="work", on_turn_complete="review"), review)), "work")
    await session.turn()
    view = await at(coord, "s", "review")
    claim = await session.claim()
    assert [(message.message_id, message.body) for message in claim.messages] == [
        (f"entry-{view.step_entry}", "Review it.")
    ]


@pytest.mark.parametrize("reason", ["error", "blocked"])
async def test_other_ends_advance_nothing(coord: Coordinator, on_step: OnStep, reason: str) -> None:
    session = await on_step(Orchestrator(coord, ONWARD), "a")
    await session.turn(reason=reason)
    await settled(coord, "s", 1)
    assert await session.outcomes() == ["none"]
    assert await session.steps() == ["a"]


@pytest.mark.parametrize("triggers", [False, True])
@pytest.mark.parametrize("kind", ["user", "parent", "silent", "system"])
@pytest.mark.parametrize("reason", ["cancelled", "completed"])
async def test_of_stopped_turns_only_a_persons_is_a_completion_where_the_step_says_so(
    coord: Coordinator, on_step: OnStep, kind: CancelKind, triggers: bool, reason: str
) -> None:
    """For the step's setting and the Python handlers alike, and without the signal that the step asks for."""
    first = Step(name="a", on_turn_complete="next", requires_signal=True, cancel_triggers_turn_complete=triggers)
    orchestrator = Orchestrator(coord, flow(first, Step(name="b")))
    runs: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.reason)
        assert turn.cancel_kind == "user"

    session = await on_step(orchestrator, "a")
    claim = await session.begin()
    await coord.session("s").cancel(kind=kind)
    await session.stopped(claim, reason)
    await settled(coord, "s", 1)
    completes = kind == "user" and triggers
    view = await at(coord, "s", "b" if completes else "a")
    assert runs == [reason] * completes
    assert view.step == ("b" if completes else "a")


async def test_a_step_that_requires_a_signal_waits_for_it(coord: Coordinator, on_step: OnStep) -> None:
    """Given at any time since the step was entered; by itself it moves nothing."""
    first = Step(name="a", on_turn_complete="next", requires_signal=True)
    second = Step(name="b", on_turn_complete="next", requires_signal=True)
    session = await on_step(Orchestrator(coord, flow(first, second, Step(name="c"))), "a")
    await session.turn()
    await settled(coord, "s", 1)
    await coord.kernel.workflows.signal("s")
    await at(coord, "s", "a")
    await session.turn()
    await at(coord, "s", "b")
    await session.turn()
    await settled(coord, "s", 3)
    assert await session.outcomes() == ["stayed", "advanced", "stayed"]


async def test_a_handlers_signal_counts_for_the_turn_that_it_is_run_for(coord: Coordinator, on_step: OnStep) -> None:
    orchestrator = Orchestrator(
        coord, flow(Step(name="a", on_turn_complete="next", requires_signal=True), Step(name="b"))
    )
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        await session.signal()

    session = await on_step(orchestrator, "a")
    await session.turn()
    await at(coord, "s", "b")
    assert runs == 1


async def test_handlers_that_are_given_up_leave_the_session_at_its_step(coord: Coordinator, on_step: OnStep) -> None:
    orchestrator = Orchestrator(coord, ONWARD)
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise RuntimeError("not yet")

    session = await on_step(orchestrator, "a")
    await session.turn()
    await settled(coord, "s", 1)
    assert (await at(coord, "s", "a")).turn == 1
    await session.turn()
    await at(coord, "s", "b")
    assert runs == 4
    assert await session.outcomes() == ["failed", "advanced"]


async def test_all_replicas_go_by_what_was_published_last(coord: Coordinator, player: Make, replica: Replica) -> None:
    """The first has another file, the second none."""
    await replica(Orchestrator(coord, ONWARD))
    await replica(Orchestrator(coord))
    await replica(Orchestrator(coord, flow(Step(name="a", on_turn_complete="c"), Step(name="b"), Step(name="c"))))
    sessions = [player(f"s{number}") for number in range(6)]

    async def work(session: Player) -> None:
        await session.open(workflow="flow")
        await at(coord, session.session_id, "a")
        await session.turn()
        await at(coord, session.session_id, "c")

    await asyncio.gather(*map(work, sessions))


@pytest.mark.parametrize(
    ("definition", "words"),
    [
        (None, "is not published"),
        ("{", "can't be read"),
        (flow(Step(name="z")).to_json(), "has no step a"),
        (flow(Step(name="a", on_turn_complete="y")).to_json(), "leads to y, which is no step"),
    ],
)
async def test_where_the_definition_leads_nowhere_the_session_stays(
    coord: Coordinator, on_step: OnStep, definition: str | None, words: str
) -> None:
    """Visibly; it goes on taking messages."""
    session = await on_step(Orchestrator(coord, ONWARD), "a")
    redis, key = coord.kernel.store.redis, coord.kernel.store.keys.workflows
    await redis.delete(key)
    if definition:
        await redis.hset(key, "flow", definition)  # type: ignore[misc]
    for number in (1, 2):
        await session.turn()
        await settled(coord, "s", number)
    assert await session.outcomes() == ["stayed", "stayed"]
    errors = await session.log("error")
    assert [(entry["where"], entry["turn"]) for entry in errors] == [("workflow", "1"), ("workflow", "2")]
    assert all(words in entry["message"] for entry in errors)


async def test_two_replicas_and_every_duplicate_make_one_transition(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Of each turn's end: its events come again, reordered, late, and to both."""
    await replica(Orchestrator(coord, ONWARD))
    await replica(Orchestrator(coord, ONWARD))
    session = player("s")
    await session.open(workflow="flow")
    for step, follows in (("a", "b"), ("b", "c")):
        await at(coord, "s", step)
        await session.turn()
        await session.again(*reversed(await session.events("agent.ready", "step.entering")))
        await at(coord, "s", follows)
        await session.again(*await session.events("step.entering", "agent.ready"))
    await eventually(lambda: all_handled(coord, "s"))
    assert await session.steps() == ["a", "b", "c"]
    assert await session.outcomes() == ["advanced", "advanced"]
    assert (await counters(coord.kernel, "s"))["settled"] == "2"
