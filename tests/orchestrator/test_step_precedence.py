"""What goes before the step's own setting when a turn has ended: stops, moves, questions, another entry, a reset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.workflow import Step
from coordinator.handlers import SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from tests.orchestrator.conftest import (
    OnStep,
    Replica,
    at,
    eventually,
    flow,
    sent,
    settled,
    stop,
)
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore

Make = Callable[[str], Player]

ONWARD = flow(Step(name="a", on_turn_complete="next"), Step(name="b", on_turn_complete="next"), Step(name="c"))


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"handler_timeout": 2.0, "handler_tries": 3}


async def test_a_persons_stop_of_an_ended_turn_counts_as_one_of_that_turn(coord: Coordinator, on_step: OnStep) -> None:
    """It comes after the turn's end, and even after its evaluation began: the end is evaluated once more."""
    faults = FaultyStore(coord.kernel.store)
    session = await on_step(Orchestrator(coord, ONWARD), "a")
    faults.before("settle", lambda: coord.session("s").cancel(), 2)
    await session.turn()
    await settled(coord, "s", 1)
    assert await session.outcomes() == ["none"]
    assert await session.steps() == ["a"]
    assert faults.sent["settle_begin"] == 2
    assert faults.unused == []


async def test_a_persons_stop_while_handlers_run_ends_the_evaluation(coord: Coordinator, on_step: OnStep) -> None:
    """They were run for a completion; by its settlement the turn counts as stopped, and moves nothing."""
    orchestrator = Orchestrator(coord, ONWARD)
    runs: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.cancel_kind)
        await session.cancel()

    session = await on_step(orchestrator, "a")
    await session.turn()
    await settled(coord, "s", 1)
    assert runs == [""]
    assert await session.outcomes() == ["none"]
    assert await session.steps() == ["a"]


async def test_a_handlers_move_goes_before_the_steps_setting(coord: Coordinator, on_step: OnStep) -> None:
    orchestrator = Orchestrator(coord, ONWARD)
    answers: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        answers.append(await session.move("c", operation_id=f"move-{turn.key}"))

    session = await on_step(orchestrator, "a")
    await session.turn()
    await at(coord, "s", "c")
    assert answers == ["pending"]
    assert await session.outcomes() == ["moved"]
    assert await session.steps() == ["a", "c"]


async def test_a_pending_move_goes_before_everything_else(coord: Coordinator, on_step: OnStep) -> None:
    """Whatever the turn's reason; no handler is run, and the step's setting is not looked at."""
    orchestrator = Orchestrator(coord, ONWARD)
    runs: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.turn)

    session = await on_step(orchestrator, "a")
    for target, reason in (("c", "completed"), ("b", "error")):
        claim = await session.begin()
        assert await coord.session("s").move(target, defer=True) == "pending"
        await session.finish(claim, reason)
        await at(coord, "s", target)
    assert runs == []
    assert await session.outcomes() == ["moved", "moved"]


async def test_a_move_that_comes_after_the_evaluation_beats_it(coord: Coordinator, on_step: OnStep) -> None:
    faults = FaultyStore(coord.kernel.store)
    session = await on_step(Orchestrator(coord, ONWARD), "a")
    faults.before("settle", lambda: coord.session("s").move("c"), 2)
    await session.turn()
    await at(coord, "s", "c")
    assert await session.outcomes() == ["moved"]
    assert await session.steps() == ["a", "c"]
    assert faults.unused == []


async def test_a_question_of_the_turn_stops_the_evaluation(coord: Coordinator, on_step: OnStep) -> None:
    """A person's stop of that turn included. The session takes messages, and the next turn is evaluated."""
    first = Step(name="a", on_turn_complete="next", cancel_triggers_turn_complete=True)
    orchestrator = Orchestrator(coord, flow(first, Step(name="b")))
    runs: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.turn)

    session = await on_step(orchestrator, "a")
    for number, reason in ((1, "completed"), (2, "cancelled")):
        claim = await session.begin()
        assert claim.ownership is not None
        await coord.kernel.questions.ask("s", claim.ownership, f"q{number}", "Which one?")
        if reason == "cancelled":
            await coord.session("s").cancel()
        await session.stopped(claim, reason)
        await settled(coord, "s", number)
    assert await session.outcomes() == ["question", "question"]
    assert runs == []
    await session.turn()
    await at(coord, "s", "b")
    assert runs == [3]


async def test_a_turn_that_began_in_an_earlier_entry_is_not_evaluated_against_the_present_one(
    coord: Coordinator, on_step: OnStep
) -> None:
    orchestrator = Orchestrator(coord, ONWARD)
    runs: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.turn)

    session = await on_step(orchestrator, "a")
    claim = await session.begin()
    assert await coord.session("s").move("b") == "applied"
    await at(coord, "s", "b")
    await session.finish(claim)
    await settled(coord, "s", 1)
    await at(coord, "s", "b")
    assert await session.outcomes() == ["stayed"]
    assert runs == [1]
    await session.turn()
    await at(coord, "s", "c")


async def test_nothing_is_settled_while_the_context_is_being_reset(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """The ready waits, as behind a held guard, and takes effect afterwards."""
    session = player("s")
    await coord.kernel.workflows.publish([ONWARD])
    await session.open(workflow="flow")
    first = await replica()
    await at(coord, "s", "a")
    await stop(first.task)
    await session.turn()
    guard = await coord.kernel.guards.acquire("s", "someone")
    assert await coord.kernel.resets.begin("s", "r", guard.number) == "running"
    await coord.kernel.guards.release("s", "someone", guard.number)
    faults = FaultyStore(coord.kernel.store)
    await replica()
    await eventually(lambda: sent(faults, "settle", 3))
    assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 1
    assert await session.log("ready.stale", "turn.settled") == []
    assert await coord.kernel.resets.end("s", session.execution_id, "r", committed=True)
    await at(coord, "s", "b")
