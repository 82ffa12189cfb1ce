"""Explanations: what holds a session up in each state, what fails lately, and what to do, read from the record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator import Coordinator, Session, SessionUnknown
from coordinator.domain.events import AgentReady
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step, Workflow
from coordinator.explaining import Explanation, explain
from coordinator.scene import span
from tests.client.hand import Hand


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    found = coord.session("s")
    await found.open()
    return found


async def told(coord: Coordinator) -> Explanation:
    return await explain(coord.kernel, "s")


async def enlist(coord: Coordinator, worker_id: str, **fields: Any) -> None:
    """Register a worker that nobody runs."""
    store = coord.kernel.store
    await store.redis.zadd(store.keys.workers, {worker_id: 10**14})
    for name, value in fields.items():
        await store.redis.execute_command("HSET", store.keys.worker(worker_id), name, value)


async def test_from_rest_to_the_settled_turn_every_state_is_explained(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    assert (await told(coord)).why == ("It is idle: nothing is queued.",)
    await session.send("work")
    seen = await told(coord)
    assert seen.waiting_for == "placement"
    assert "waits for a worker" in seen.why[0]
    assert seen.advice == ("No worker lives: start one, `coordinator worker --agent module:name`.",)
    await enlist(coord, "w-hand", capacity=1, hosted=1)
    assert "All 1 workers are full" in (await told(coord)).advice[0]
    ownership = await hand.begin("s")
    seen = await told(coord)
    assert (seen.open_turn, seen.accepted, seen.worker, seen.in_flight) == (1, True, "alive", 1)
    assert "Turn 1 is open: generation 1, attempt 1, is owed by execution x-s on worker w-hand" in seen.why[0]
    assert "coordinator cancel s" in seen.advice[0]
    ticket = await session.cancel()
    seen = await told(coord)
    assert seen.why[0].startswith(f"It is being stopped (user, operation {ticket.id}): generation 1 was told to end")
    assert "--wait" in seen.advice[0]
    await hand.end("s", ownership, "error", error="no such file")
    seen = await told(coord)
    assert (seen.unsettled_turn, seen.cancel_outcome) == (1, "completed")
    assert "Turn 1 has ended (error), and waits for a replica to settle it" in seen.why[0]
    assert [one.why for one in seen.refused] == ["turn 1 ended error: no such file"]
    await hand.settle("s")
    assert (await told(coord)).why == ("It is idle: nothing is queued. Turn 1 was its last one, and ended error.",)


async def test_a_late_completion_and_a_guard_and_a_job_are_shown(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    await hand.end("s", ownership)
    await hand.settle("s")
    await session.send("more")
    await hand.begin("s")
    await hand.end("s", ownership)
    assert (await told(coord)).refused[0].why == "a completion of generation 1 came late: its generation differs"
    async with session.guard() as guard:
        seen = await told(coord)
        assert (seen.guard_number, seen.guard_ms > 0) == (guard.number, True)
        assert any("The guard is held by" in one for one in seen.why)


async def test_what_a_stop_has_parked_and_what_has_the_idle_session(coord: Coordinator, session: Session) -> None:
    await session.send("one")
    await session.cancel()
    seen = await told(coord)
    assert (seen.pending, seen.awake) == (1, 0)
    assert "1 messages wait for one that wakes it" in seen.why[0]
    assert "coordinator send s TEXT" in seen.advice[0]
    async with session.maintain("compaction"):
        assert "Maintenance job 'compaction' has it" in (await told(coord)).why[0]
    await session.close()
    assert (await told(coord)).why[0].startswith("It is closed")


async def test_suspects_lost_workers_and_missing_sweepers_are_named(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    await session.send("work")
    await hand.begin("s")
    store = coord.kernel.store
    await store.redis.zadd(store.keys.session("s")["deadlines"], {"lease:s": 1})
    seen = await told(coord)
    assert "whose lease has run out" in seen.why[0]
    assert any("Nobody has swept its deadlines" in one and "lease" in one for one in seen.why)
    assert "coordinator orchestrator" in seen.advice[0]
    await coord.kernel.deadlines.expire("lease", "s", "1")
    seen = await told(coord)
    assert seen.suspects == ("x-s",)
    assert any("Suspect executions: x-s." in one for one in seen.why)
    assert {one.why for one in seen.refused} == {"turn 1 ended lost: its worker is gone", "execution: lease expired"}


async def test_a_reset_is_explained_while_it_is_on_and_when_it_has_failed(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    await session.send("work")
    await hand.turn("s")
    async with session.guard() as guard:
        await hand.kernel.resets.begin("s", "r-1", guard.number)
    seen = await told(coord)
    assert (seen.reset_pending, seen.reset_id, seen.waiting_for) == (True, "r-1", "reset")
    assert seen.why[0].startswith("Its context is being reset (reset r-1): worker w-hand replaces")
    assert len(seen.why) == 1
    assert "coordinator wait s" in seen.advice[0]
    assert [row.reset_pending for row in await coord.sessions()] == [True]
    await hand.kernel.resets.end("s", "x-s", "r-1", committed=False, why="the provider is down")
    seen = await told(coord)
    assert (seen.reset_outcome, seen.reset_why) == ("failed", "the provider is down")
    assert seen.why[0] == "Its last reset (r-1) has failed: the provider is down."
    assert "coordinator reset s" in seen.advice[0]
    assert "reset r-1 has failed: the provider is down" in [one.why for one in seen.refused]


async def test_a_step_is_explained_while_it_is_entered_and_when_it_could_not_be(coord: Coordinator, hand: Hand) -> None:
    await publish(coord)
    session = coord.session("s")
    await session.open(workflow="review")
    seen = await told(coord)
    assert (seen.workflow, seen.step, seen.entering != "", seen.waiting_for) == ("review", "implement", True, "entry")
    assert "Step 'implement' of workflow 'review' is being entered" in seen.why[0]
    await session.move("check")
    assert any("A move to step 'check' is pending" in one for one in (await told(coord)).why)
    await hand.enter("s")
    await hand.enter("s", error="no worker for its reset")
    seen = await told(coord)
    assert (seen.step, seen.step_failed, seen.pending_move) == ("check", True, "")
    assert seen.why[0].startswith("Step 'check' was not entered: no worker for its reset. What was queued is parked")
    assert "coordinator move s STEP" in seen.advice[0]
    await session.move("implement")
    await hand.enter("s")
    await session.signal()
    assert (await told(coord)).why[0] == (
        "It is at step 'implement' of workflow 'review', and signalled; only a move leaves it."
    )


async def test_an_open_question_is_shown_with_its_text_and_how_to_answer_it(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    await hand.kernel.questions.ask("s", ownership, "q-1", "which one?")
    seen = await told(coord)
    assert (seen.question, seen.question_turn, seen.question_text) == ("q-1", 1, "which one?")
    assert "Turn 1 asks (question q-1): 'which one?'; its agent waits for the answer." in seen.why[0]
    assert "coordinator answer s q-1 TEXT" in seen.advice[0]
    await hand.end("s", ownership)
    await hand.settle("s")
    seen = await told(coord)
    assert (seen.status, seen.waiting_for) == ("idle", "question")
    assert "an answer is the next prompt" in seen.why[0]
    assert [row.question for row in await coord.sessions()] == ["q-1"]


async def publish(coord: Coordinator) -> None:
    steps = (Step(name="implement"), Step(name="check"))
    await coord.kernel.workflows.publish([Workflow(name="review", start="implement", steps=steps)])


async def test_a_direct_prompt_in_line_and_a_step_that_is_gone_are_told(coord: Coordinator, session: Session) -> None:
    flow = Workflow(name="flow", start="work", steps=(Step(name="work"),))
    await coord.kernel.workflows.publish([flow])
    await session.open(workflow="flow")
    entry = (await session.snapshot()).entering
    assert await coord.kernel.workflows.enter_end("s", entry, "0-1")
    assert not any("has no step" in sentence for sentence in (await told(coord)).why)
    await coord.kernel.workflows.publish([Workflow(name="flow", start="other", steps=(Step(name="other"),))])
    await coord.kernel.stops.put_direct("s", "now", wait=30, message_id="mine")
    seen = await told(coord)
    assert any(sentence.startswith("Workflow flow, as it is published now, has no step work") for sentence in seen.why)
    assert any(sentence.startswith("Direct prompt mine is in line") for sentence in seen.why)
    assert any("coordinator move s STEP" in sentence for sentence in seen.advice)


async def test_where_a_turns_end_leads_and_what_it_lacks_are_told(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    steps = (Step(name="work", on_turn_complete="next", requires_signal=True), Step(name="check"))
    await coord.kernel.workflows.publish([Workflow(name="flow", start="work", steps=steps)])
    await session.open(workflow="flow")
    await hand.enter("s")
    seen = await told(coord)
    assert seen.why[0] == (
        "It is at step 'work' of workflow 'flow'; a turn that completes leads to 'check' once it was signalled."
    )
    assert any("coordinator signal s" in one and "coordinator move s check" in one for one in seen.advice)
    await session.signal()
    seen = await told(coord)
    assert seen.why[0].endswith("and signalled; a turn that completes leads to 'check'.")
    assert not any("coordinator signal s" in one for one in seen.advice)
    await session.close()
    assert not any("leads to" in one for one in (await told(coord)).why)


async def test_handlers_that_failed_for_good_are_told_until_the_next_turn_has_ended(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    steps = (Step(name="work", on_turn_complete="next"), Step(name="check"))
    await coord.kernel.workflows.publish([Workflow(name="flow", start="work", steps=steps)])
    await session.open(workflow="flow")
    await hand.enter("s")
    await session.send("work")
    await hand.end("s", await hand.begin("s"))
    assert (await session.snapshot()).last_outcome == ""
    (event_id, ready) = (await hand.events("s"))[-1]
    assert isinstance(ready, AgentReady)
    async with coord.kernel.guards.taken("s", "replica") as guard:
        failed = await coord.kernel.settlements.failed(ready, event_id, guard.number, "handler: boom", 1)
    assert failed.verdict is Verdict.DEAD
    seen = await told(coord)
    assert "The handlers of turn 1 have failed for good: its end counts as no completion." in seen.why
    assert any("dead letters" in one and one.endswith("`coordinator move s check`.") for one in seen.advice)
    assert (await session.snapshot()).last_outcome == "failed"
    await session.send("again")
    await hand.turn("s")
    assert (await session.snapshot()).last_outcome == ""
    assert not any("for good" in one for one in (await told(coord)).why)


async def test_a_lost_prompt_is_said_to_be_gone(coord: Coordinator, session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.begin("s")
    await coord.kernel.store.redis.zadd(coord.kernel.store.keys.session("s")["deadlines"], {"lease:s": 1})
    assert (await coord.kernel.deadlines.expire("lease", "s", "1")).verdict == "OK"
    await hand.settle("s")
    seen = await told(coord)
    assert any("is not run again" in one and "--lost-turns retry" in one for one in seen.advice), seen.advice


async def test_an_unknown_session_has_nothing_to_explain(coord: Coordinator) -> None:
    with pytest.raises(SessionUnknown):
        await told(coord)


async def test_it_reads_and_changes_nothing(coord: Coordinator, session: Session) -> None:
    await session.send("work")
    before = await session.snapshot()
    await asyncio.gather(*(told(coord) for _ in range(3)))
    after = await session.snapshot()
    assert (after.sequence, after.turn, after.deadlines) == (before.sequence, before.turn, before.deadlines)


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0.0 s"),
        (119_900, "119.9 s"),
        (120_000, "2.0 min"),
        (7_200_000, "2.0 h"),
        (2_591_998_600, "30.0 days"),
        (-1500, "-1.5 s"),
    ],
)
def test_times_are_told_in_the_unit_that_suits(ms: int, told: str) -> None:
    assert span(ms) == told
