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
from tests.orchestrator.conftest import Replica, all_handled, at, counters, eventually, flow, pending, settled
from tests.orchestrator.player import Player
from tests.support.faulty import FaultyStore

Make = Callable[[str], Player]

ONWARD = flow(Step(name="a", on_turn_complete="next"), Step(name="b", on_turn_complete="next"), Step(name="c"))


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"handler_timeout": 2.0, "handler_tries": 3}


async def outcomes(session: Player) -> list[str]:
    return [entry["outcome"] for entry in await session.log("turn.settled")]


async def steps(session: Player) -> list[str]:
    return [entry["step"] for entry in await session.log("step.entered")]


async def test_each_completed_turn_advances_until_the_last_step(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica(Orchestrator(coord, ONWARD))
    session = player("s")
    await session.open(workflow="flow")
    for step, follows in (("a", "b"), ("b", "c"), ("c", "c")):
        await at(coord, "s", step)
        await session.turn()
        await at(coord, "s", follows)
    assert await outcomes(session) == ["advanced", "advanced", "stayed"]
    assert await steps(session) == ["a", "b", "c"]
    assert await pending(coord.kernel, "s") == []


async def test_the_entered_steps_prompt_is_the_next_turn(coord: Coordinator, player: Make, replica: Replica) -> None:
    review = Step(name="review", prompt="Review it.", auto_start=True)
    await replica(Orchestrator(coord, flow(Step(name="work", on_turn_complete="review"), review)))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "work")
    await session.turn()
    view = await at(coord, "s", "review")
    claim = await session.claim()
    assert [(message.message_id, message.body) for message in claim.messages] == [
        (f"entry-{view.step_entry}", "Review it.")
    ]


@pytest.mark.parametrize("reason", ["error", "blocked"])
async def test_other_ends_advance_nothing(coord: Coordinator, player: Make, replica: Replica, reason: str) -> None:
    await replica(Orchestrator(coord, ONWARD))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    await session.turn(reason=reason)
    await settled(coord, "s", 1)
    assert await outcomes(session) == ["none"]
    assert await steps(session) == ["a"]


@pytest.mark.parametrize("triggers", [False, True])
@pytest.mark.parametrize("kind", ["user", "parent", "silent", "system"])
@pytest.mark.parametrize("reason", ["cancelled", "completed"])
async def test_of_stopped_turns_only_a_persons_is_a_completion_where_the_step_says_so(
    coord: Coordinator, player: Make, replica: Replica, kind: CancelKind, triggers: bool, reason: str
) -> None:
    """For the step's setting and the Python handlers alike, and without the signal that the step asks for."""
    first = Step(name="a", on_turn_complete="next", requires_signal=True, cancel_triggers_turn_complete=triggers)
    orchestrator = Orchestrator(coord, flow(first, Step(name="b")))
    runs: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.reason)
        assert turn.cancel_kind == "user"

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    claim = await session.begin()
    await coord.session("s").cancel(kind=kind)
    await session.stopped(claim, reason)
    await settled(coord, "s", 1)
    completes = kind == "user" and triggers
    view = await at(coord, "s", "b" if completes else "a")
    assert runs == [reason] * completes
    assert view.step == ("b" if completes else "a")


async def test_a_persons_stop_of_an_ended_turn_counts_as_one_of_that_turn(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """It comes after the turn's end, and even after its evaluation began: the end is evaluated once more."""
    faults = FaultyStore(coord.kernel.store)
    await replica(Orchestrator(coord, ONWARD))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    faults.before("settle", lambda: coord.session("s").cancel(), 2)
    await session.turn()
    await settled(coord, "s", 1)
    assert await outcomes(session) == ["none"]
    assert await steps(session) == ["a"]
    assert faults.sent["settle_begin"] == 2
    assert faults.unused == []


async def test_a_step_that_requires_a_signal_waits_for_it(coord: Coordinator, player: Make, replica: Replica) -> None:
    """Given at any time since the step was entered; by itself it moves nothing."""
    first = Step(name="a", on_turn_complete="next", requires_signal=True)
    second = Step(name="b", on_turn_complete="next", requires_signal=True)
    await replica(Orchestrator(coord, flow(first, second, Step(name="c"))))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    await session.turn()
    await settled(coord, "s", 1)
    await coord.kernel.workflows.signal("s")
    await at(coord, "s", "a")
    await session.turn()
    await at(coord, "s", "b")
    await session.turn()
    await settled(coord, "s", 3)
    assert await outcomes(session) == ["stayed", "advanced", "stayed"]


async def test_a_handlers_signal_counts_for_the_turn_that_it_is_run_for(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(
        coord, flow(Step(name="a", on_turn_complete="next", requires_signal=True), Step(name="b"))
    )
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        await session.signal()

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    await session.turn()
    await at(coord, "s", "b")
    assert runs == 1


async def test_handlers_that_are_given_up_leave_the_session_at_its_step(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord, ONWARD)
    runs = 0

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        nonlocal runs
        runs += 1
        if runs <= 3:
            raise RuntimeError("not yet")

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    await session.turn()
    await settled(coord, "s", 1)
    assert (await at(coord, "s", "a")).turn == 1
    await session.turn()
    await at(coord, "s", "b")
    assert runs == 4
    assert await outcomes(session) == ["failed", "advanced"]


async def test_a_persons_stop_while_handlers_run_ends_the_evaluation(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """They were run for a completion; by its settlement the turn counts as stopped, and moves nothing."""
    orchestrator = Orchestrator(coord, ONWARD)
    runs: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.cancel_kind)
        await session.cancel()

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    await session.turn()
    await settled(coord, "s", 1)
    assert runs == [""]
    assert await outcomes(session) == ["none"]
    assert await steps(session) == ["a"]


async def test_a_handlers_move_goes_before_the_steps_setting(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord, ONWARD)
    answers: list[str] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        answers.append(await session.move("c", operation_id=f"move-{turn.key}"))

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    await session.turn()
    await at(coord, "s", "c")
    assert answers == ["pending"]
    assert await outcomes(session) == ["moved"]
    assert await steps(session) == ["a", "c"]


async def test_a_pending_move_goes_before_everything_else(coord: Coordinator, player: Make, replica: Replica) -> None:
    """Whatever the turn's reason; no handler is run, and the step's setting is not looked at."""
    orchestrator = Orchestrator(coord, ONWARD)
    runs: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.turn)

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    for target, reason in (("c", "completed"), ("b", "error")):
        claim = await session.begin()
        assert await coord.session("s").move(target, defer=True) == "pending"
        await session.finish(claim, reason)
        await at(coord, "s", target)
    assert runs == []
    assert await outcomes(session) == ["moved", "moved"]


async def test_a_move_that_comes_after_the_evaluation_beats_it(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    faults = FaultyStore(coord.kernel.store)
    await replica(Orchestrator(coord, ONWARD))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    faults.before("settle", lambda: coord.session("s").move("c"), 2)
    await session.turn()
    await at(coord, "s", "c")
    assert await outcomes(session) == ["moved"]
    assert await steps(session) == ["a", "c"]
    assert faults.unused == []


async def test_a_question_of_the_turn_stops_the_evaluation(coord: Coordinator, player: Make, replica: Replica) -> None:
    """A person's stop of that turn included. The session takes messages, and the next turn is evaluated."""
    first = Step(name="a", on_turn_complete="next", cancel_triggers_turn_complete=True)
    orchestrator = Orchestrator(coord, flow(first, Step(name="b")))
    runs: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.turn)

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    for number, reason in ((1, "completed"), (2, "cancelled")):
        claim = await session.begin()
        assert claim.ownership is not None
        await coord.kernel.questions.ask("s", claim.ownership, f"q{number}", "Which one?")
        if reason == "cancelled":
            await coord.session("s").cancel()
        await session.stopped(claim, reason)
        await settled(coord, "s", number)
    assert await outcomes(session) == ["question", "question"]
    assert runs == []
    await session.turn()
    await at(coord, "s", "b")
    assert runs == [3]


async def test_a_turn_that_began_in_an_earlier_entry_is_not_evaluated_against_the_present_one(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord, ONWARD)
    runs: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        runs.append(turn.turn)

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    claim = await session.begin()
    assert await coord.session("s").move("b") == "applied"
    await at(coord, "s", "b")
    await session.finish(claim)
    await settled(coord, "s", 1)
    await at(coord, "s", "b")
    assert await outcomes(session) == ["stayed"]
    assert runs == [1]
    await session.turn()
    await at(coord, "s", "c")


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
    coord: Coordinator, player: Make, replica: Replica, definition: str | None, words: str
) -> None:
    """Visibly; it goes on taking messages."""
    await replica(Orchestrator(coord, ONWARD))
    session = player("s")
    await session.open(workflow="flow")
    await at(coord, "s", "a")
    redis, key = coord.kernel.store.redis, coord.kernel.store.keys.workflows
    await redis.delete(key)
    if definition:
        await redis.hset(key, "flow", definition)  # type: ignore[misc]
    for number in (1, 2):
        await session.turn()
        await settled(coord, "s", number)
    assert await outcomes(session) == ["stayed", "stayed"]
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
    assert await steps(session) == ["a", "b", "c"]
    assert await outcomes(session) == ["advanced", "advanced"]
    assert (await counters(coord.kernel, "s"))["settled"] == "2"


async def test_nothing_is_settled_while_the_context_is_being_reset(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """The ready waits, as behind a held guard, and takes effect afterwards."""
    session = player("s")
    await coord.kernel.workflows.publish([ONWARD])
    await session.open(workflow="flow")
    first = await replica()
    await at(coord, "s", "a")
    first.task.cancel()
    await asyncio.gather(first.task, return_exceptions=True)
    await session.turn()
    guard = await coord.kernel.guards.acquire("s", "someone")
    assert await coord.kernel.resets.begin("s", "r", guard.number) == "running"
    await coord.kernel.guards.release("s", "someone", guard.number)
    faults = FaultyStore(coord.kernel.store)
    await replica()
    await eventually(lambda: _asked(faults, "settle", 3))
    assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 1
    assert await session.log("ready.stale", "turn.settled") == []
    assert await coord.kernel.resets.end("s", session.execution_id, "r", committed=True)
    await at(coord, "s", "b")


async def _asked(faults: FaultyStore, script: str, number: int) -> bool:
    return faults.sent[script] >= number
