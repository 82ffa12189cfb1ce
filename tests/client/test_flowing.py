"""Workflows and questions from a client: opening on one, moves, signals, answers, and what is refused by name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator import (
    ConflictingRepeat,
    Coordinator,
    GuardLost,
    QuestionClosed,
    Session,
    SessionClosed,
    SessionPolicy,
    UnknownStep,
    UsageError,
    WorkflowUnknown,
)
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step, Workflow
from coordinator.services.reentry import inside
from tests.client.hand import Hand

FLOW = Workflow(
    name="review",
    start="implement",
    steps=(Step(name="implement", on_turn_complete="next", requires_signal=True), Step(name="review")),
)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 4.0}


@pytest.fixture
async def coord(everywhere: Coordinator) -> Coordinator:
    await everywhere.kernel.workflows.publish([FLOW])
    return everywhere


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    found = coord.session("s")
    await found.open(workflow="review")
    return found


@pytest.fixture
async def entered(session: Session, hand: Hand) -> Session:
    await hand.enter("s")
    return session


async def test_a_session_is_opened_on_a_workflow_and_enters_its_start(
    coord: Coordinator, session: Session, hand: Hand
) -> None:
    assert await coord.workflows() == ["review"]
    seen = await session.snapshot()
    assert (seen.workflow, seen.step, seen.waiting_for, bool(seen.entering)) == ("review", "implement", "entry", True)
    idle = asyncio.create_task(session.wait_idle(timeout=3))
    await asyncio.sleep(0.1)
    assert not idle.done()
    await hand.enter("s")
    await idle
    after = await session.snapshot()
    assert (after.entering, after.step_entry, after.step_failed) == ("", seen.entering, False)
    assert await session.open(workflow="review") is False
    assert await session.open(SessionPolicy(lost_turns="retry")) is False
    assert (await session.snapshot()).step_entry == seen.entering


async def test_what_can_not_be_opened_is_told(coord: Coordinator, session: Session) -> None:
    await coord.kernel.workflows.publish([Workflow(name="other", start="a", steps=(Step(name="a"),))])
    with pytest.raises(WorkflowUnknown, match="nothing"):
        await coord.session("t").open(workflow="nothing")
    with pytest.raises(UsageError, match="review"):
        await session.open(workflow="other")
    with pytest.raises(UsageError):
        await coord.session("t").open(SessionPolicy(settlement="none"), workflow="review")
    assert [row.session_id for row in await coord.sessions()] == ["s"]


async def test_a_move_of_a_session_at_rest_applies_at_once(entered: Session) -> None:
    assert await entered.move("review", operation_id="op-1") == "applied"
    seen = await entered.snapshot()
    assert (seen.step, bool(seen.entering), seen.pending_move) == ("review", True, "")
    assert await entered.move("review", operation_id="op-1") == "applied"
    with pytest.raises(ConflictingRepeat):
        await entered.move("implement", operation_id="op-1")


async def test_a_move_during_an_entry_waits_for_its_end(session: Session, hand: Hand) -> None:
    assert await session.move("review") == "pending"
    assert (await session.snapshot()).pending_move == "review"
    await hand.enter("s")
    seen = await session.snapshot()
    assert (seen.step, seen.pending_move, bool(seen.entering)) == ("review", "", True)


@pytest.mark.parametrize("how", ["own turn", "deferred", "unsettled"])
async def test_a_move_that_must_not_hit_the_running_turn_is_pending(entered: Session, hand: Hand, how: str) -> None:
    await entered.send("work")
    ownership = await hand.begin("s")
    if how == "unsettled":
        await hand.end("s", ownership)
    with inside("turn", "s" if how == "own turn" else "another"):
        assert await entered.move("review", defer=how == "deferred") == "pending"
    if how != "unsettled":
        await hand.end("s", ownership)
    assert (await entered.snapshot()).step == "implement"
    async with entered.guard() as guard:
        await settle_under(hand, guard.number)
    seen = await entered.snapshot()
    assert (seen.step, seen.pending_move) == ("review", "")


async def settle_under(hand: Hand, number: int) -> None:
    """Settle the session's last turn as a replica does that knows its workflow."""
    settlements = hand.kernel.settlements
    entry_id, event = [one for one in await hand.events("s") if one[1].__struct_config__.tag == "agent.ready"][-1]
    begun = await settlements.begin(event, entry_id, number)  # type: ignore[arg-type]
    settled = await settlements.settle(event, entry_id, number, seen=begun)  # type: ignore[arg-type]
    assert settled.verdict is Verdict.OK


async def test_a_move_from_outside_leaves_the_turn_running(entered: Session, hand: Hand) -> None:
    await entered.send("work")
    await hand.begin("s")
    assert await entered.move("review") == "applied"
    seen = await entered.snapshot()
    assert (seen.step, seen.open_turn, seen.cancel_pending) == ("review", 1, False)


async def test_steps_and_sessions_that_are_not_there_are_told(coord: Coordinator, entered: Session, hand: Hand) -> None:
    plain = coord.session("plain")
    await plain.open()
    with pytest.raises(UnknownStep, match="nowhere"):
        await entered.move("nowhere")
    with pytest.raises(UnknownStep, match="plain"):
        await plain.move("review")
    with pytest.raises(UnknownStep, match="plain"):
        await plain.signal()
    await entered.close()
    with pytest.raises(SessionClosed):
        await entered.move("review")
    with pytest.raises(SessionClosed):
        await entered.signal()


async def test_a_guards_move_carries_its_number(entered: Session) -> None:
    async with entered.guard() as guard:
        assert await guard.move("review") == "applied"
    with pytest.raises(GuardLost):
        await guard.move("implement")
    store = entered._kernel.store

    async def hold() -> None:
        async with entered.guard() as lost:
            await store.redis.delete(store.keys.session("s")["guard"])
            await lost.move("implement")

    with pytest.raises(GuardLost):
        await hold()
    assert (await entered.snapshot()).step == "review"


async def test_a_signal_is_kept_for_the_present_step_and_moves_nothing(entered: Session, hand: Hand) -> None:
    await entered.signal()
    seen = await entered.snapshot()
    assert (seen.signalled, seen.step) == (True, "implement")
    await entered.move("review")
    assert not (await entered.snapshot()).signalled


async def test_an_answer_is_delivered_to_the_agent_that_waits(entered: Session, hand: Hand) -> None:
    await entered.send("work")
    ownership = await hand.begin("s")
    assert (await hand.kernel.questions.ask("s", ownership, "q-1", "which one?")).verdict is Verdict.OK
    seen = await entered.snapshot()
    assert (seen.question, seen.question_turn, seen.waiting_for) == ("q-1", 1, "question")
    receipt = await entered.answer("q-1", "that one", message_id="a-1", sender="ada")
    assert (receipt.placement, receipt.message_id, receipt.duplicate) == ("delivered", "a-1", False)
    assert (await hand.kernel.questions.ask("s", ownership, "q-1", "which one?")).answer == "that one"
    assert (await entered.answer("q-1", "that one", message_id="a-1", sender="ada")).duplicate
    with pytest.raises(QuestionClosed, match="q-1"):
        await entered.answer("q-1", "no, this one")
    assert (await entered.snapshot()).question == ""


async def test_an_answer_after_the_turns_end_is_the_next_prompt(entered: Session, hand: Hand) -> None:
    await entered.send("work")
    ownership = await hand.begin("s")
    await hand.kernel.questions.ask("s", ownership, "q-1", "which one?")
    await hand.end("s", ownership)
    async with entered.guard() as guard:
        await settle_under(hand, guard.number)
    seen = await entered.snapshot()
    assert (seen.question, seen.status, seen.waiting_for) == ("q-1", "idle", "question")
    await entered.wait_idle(timeout=1)
    receipt = await entered.answer("q-1", "that one")
    assert receipt.placement == "started"
    assert [entry.body for entry in (await entered.snapshot()).inbox.next_turn] == ["that one"]


async def test_a_step_that_could_not_be_entered_is_entered_anew_by_a_move(session: Session, hand: Hand) -> None:
    await hand.enter("s", error="the provider is down")
    failed = await session.snapshot()
    assert (failed.step, failed.entering, failed.step_failed) == ("implement", "", True)
    assert await session.move("implement") == "applied"
    seen = await session.snapshot()
    assert (bool(seen.entering), seen.step_failed, seen.step_entry == failed.step_entry) == (True, False, False)
    await hand.enter("s", body="implement it")
    assert (await session.snapshot()).status == "running"
    assert await session.move("implement") == "applied"
    assert (await session.snapshot()).entering == ""
