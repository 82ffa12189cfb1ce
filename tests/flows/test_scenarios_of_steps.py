"""Scenarios C, F and J of kandev: the gate and its bound, stops and the workflow, moves, signals and questions.

Without a counterpart here: F7 (archived and office tasks) and J4 (tasks reopen) are about tasks, which this project has
none of, but for the stepless session; in J3 a load error has nothing to load. C1's barrier does not exist. J5's signal
is kept until the step is left, also past a message between. C9 is bug 2 of tests/flows/test_bugs_of_resets.py.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import PredecessorPending, QuestionClosed
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import advanced, begun, entered, in_step, of_type, settled, unsettled
from tests.scripts.scene import Scene, unchanged

if TYPE_CHECKING:
    from coordinator.services import Kernel

OFFERS = ("arq:*", "*:doorbell")


@pytest.fixture(params=["fake", "bundled", "debian"])
def backend_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def owing(kernel: Kernel) -> Scene:
    """A session whose prompt is owed, and a direct prompt `d` that waits for it."""
    scene = await in_step(kernel)
    await scene.prompted()
    receipt = await kernel.stops.put_direct(scene.sid, "second", wait=30, message_id="d")
    assert receipt.placement == "latched"
    return scene


async def overdue(kernel: Kernel, scene: Scene) -> None:
    """The wait of the direct prompt is over."""
    await kernel.store.redis.hset(scene.keys["session"], "direct_ms", "1")  # type: ignore[misc]


async def test_a_prompt_waits_for_the_completion_and_gets_the_next_generation(kernel: Kernel) -> None:
    """C1, C2: the call that puts it answers at once; it is claimed first, under a number of its own."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await scene.sent("queued")
    await kernel.stops.put_direct(scene.sid, "second", wait=30)
    await scene.finished(ownership)
    await settled(scene)
    claim = await scene.claimed("c2")
    assert claim.ownership is not None
    assert (claim.ownership.generation, [message.body for message in claim.messages]) == (2, ["second"])


async def test_a_completion_that_never_comes_is_named_and_still_owed(kernel: Kernel) -> None:
    """C3, C8: taken back after its bound, and nothing else has changed: neither the gate nor the predecessor."""
    scene = await owing(kernel)
    await overdue(kernel, scene)
    before = await scene.view()
    found = await kernel.stops.withdraw(scene.sid, "d")
    assert (found.verdict, found.execution_id, found.generation) == (Verdict.OK, "e1", 1)
    after = await scene.view()
    assert (after.open_turn, after.generation, after.accepted) == (before.open_turn, before.generation, before.accepted)
    assert after.inbox.next_turn == ()
    assert (await of_type(scene, "inbox.discarded"))[0]["why"] == "expired"


async def test_a_stop_recovers_a_session_whose_completion_is_lost(kernel: Kernel) -> None:
    """C4: it is held up by no prompt that waits; its escalation opens the gate."""
    scene = await owing(kernel)
    await kernel.stops.cancel(scene.sid)
    assert "d" not in [one.message_id for one in (await scene.view()).inbox.next_turn]
    await scene.expired("cancel")
    await scene.delivered()
    await settled(scene)
    await scene.sent("next")
    await scene.booted("e2")
    assert (await scene.claimed("c2")).verdict is Verdict.OK


async def test_a_step_s_prompt_that_is_not_taken_is_in_line_once(kernel: Kernel) -> None:
    """C6: a failed dispatch gives it back to its place, with its attempt; it exists once, and its step stays."""
    scene, _, _ = await unsettled(kernel)
    await advanced(scene)
    await entered(scene, "go")
    claim = await scene.claimed("c2")
    assert claim.ownership is not None
    await scene.finished(claim.ownership, "error", undelivered=True)
    line = (await scene.view()).inbox.next_turn
    assert [(one.body, one.attempt) for one in line] == [("go", 1)]
    await scene.delivered()
    await settled(scene, "review")
    assert (await scene.view()).step == "build"


async def test_a_second_prompt_is_told_of_the_first_at_once(kernel: Kernel) -> None:
    """C2, section 8: one may wait; the other's refusal writes nothing."""
    scene = await owing(kernel)
    async with unchanged(kernel, OFFERS):
        with pytest.raises(PredecessorPending, match="'d'"):
            await kernel.stops.put_direct(scene.sid, "third", wait=30)


async def test_a_person_s_stop_is_judged_when_the_turn_has_ended(kernel: Kernel) -> None:
    """F1, F2, F3: closed before it is evaluated; whether the step asks for a person's stop is its file's."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.stops.cancel(scene.sid)
    await scene.finished(ownership, "cancelled")
    await scene.delivered()
    view = await scene.view()
    assert (view.status, view.open_turn) == ("idle", 0)
    number, seen = await begun(scene)
    assert (seen.evaluates, seen.cancel) == ("evaluate", "user")
    assert (await settled(scene, "build", seen=seen, guard=number)).detail == "advanced"
    assert len([one for one in await scene.events() if one[1].key == (await scene.view()).entering]) == 1


@pytest.mark.parametrize("is_older", [False, True], ids=["this turn's", "an older turn's"])
async def test_only_a_question_of_the_stopped_turn_keeps_its_step(kernel: Kernel, *, is_older: bool) -> None:
    """F4: of an older turn none is left, since the next turn expires it."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.questions.ask(scene.sid, ownership, "q", "which?")
    if is_older:
        await scene.finished(ownership)
        await scene.delivered()
        await settled(scene)
        ownership = await scene.prompted("go on")
    await kernel.stops.cancel(scene.sid)
    await scene.finished(ownership, "cancelled")
    await scene.delivered()
    assert (await begun(scene))[1].evaluates == ("evaluate" if is_older else "question")


async def test_a_stop_of_an_idle_session_moves_nothing(kernel: Kernel) -> None:
    """F9, F7: neither an old turn's step, nor a session without a workflow."""
    scene, _, _ = await unsettled(kernel)
    await settled(scene)
    before = await scene.view()
    await kernel.stops.cancel(scene.sid)
    after = await scene.view()
    assert (after.step, after.entering, after.unsettled_turn) == (before.step, "", 0)


async def test_an_agent_s_own_move_goes_before_the_evaluation(kernel: Kernel) -> None:
    """J1: applied at the turn's end, one transition; the old step's completion is not evaluated."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    assert await kernel.workflows.move(scene.sid, "review", deferred=True) == "pending"
    await scene.finished(ownership)
    await scene.delivered()
    _, seen = await begun(scene)
    assert seen.evaluates == "moved"
    entry, event = (await scene.readies())[-1]
    guard = (await scene.view()).guard_number
    assert (await kernel.settlements.settle(event, entry, guard, seen=seen, step_to="build")).detail == "moved"
    assert (await scene.view()).step == "review"


async def test_a_move_to_the_present_step_is_applied_by_nothing(kernel: Kernel) -> None:
    """J3: recorded as applied, and the step is not entered again."""
    scene = await in_step(kernel)
    entry = (await scene.view()).step_entry
    assert await kernel.workflows.move(scene.sid, "plan") == "applied"
    view = await scene.view()
    assert (view.step_entry, view.entering, view.pending_move) == (entry, "", "")


async def test_a_signal_is_read_by_the_evaluation_after_it(kernel: Kernel) -> None:
    """J5: before the turn's end it counts then; afterwards at the next; twice is once; it moves nothing by itself."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    for _ in range(2):
        await kernel.workflows.signal(scene.sid)
    assert (await scene.view()).step == "plan"
    await scene.finished(ownership)
    await scene.delivered()
    assert (await begun(scene))[1].signalled


async def test_a_dismissed_question_lets_its_turn_be_evaluated_once(kernel: Kernel) -> None:
    """J6: no advance while it is open; its timeout asks for the evaluation again, if no turn came between."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.questions.ask(scene.sid, ownership, "q", "which?")
    await scene.finished(ownership)
    await scene.delivered()
    assert (await settled(scene, "build")).detail == "question"
    await scene.expired("question")
    await scene.delivered()
    await advanced(scene)
    assert [one["outcome"] for one in await of_type(scene, "turn.settled")] == ["question", "advanced"]


@pytest.mark.parametrize("backend_kind", ["bundled", "debian"], indirect=True)
async def test_a_question_s_timeout_meets_the_turn_s_own_end(kernel: Kernel) -> None:
    """J7, concurrently: whichever comes first, no turn that began after it is stopped."""
    for number in range(40):
        scene = await Scene(kernel, f"s{number}").opened()
        ownership = await scene.prompted()
        await kernel.questions.ask(scene.sid, ownership, "q", "which?")
        await scene.sent("next")
        score = await scene.make_due("question")
        await asyncio.gather(
            kernel.deadlines.expire("question", scene.sid, score), scene.finished(ownership, "completed")
        )
        await scene.settled()
        claim = await scene.claimed("next")
        if claim.verdict is Verdict.SUPERSEDED:
            # The silent stop came first: the queue follows its row, and what was sent is awake.
            scene.token = (await scene.view()).activity
            claim = await scene.claimed("next again")
        assert (claim.verdict, claim.abort) == (Verdict.OK, "")
        assert not (await scene.view()).cancel_pending


async def test_a_stop_gets_the_guard_s_session_whatever_an_answer_does(kernel: Kernel) -> None:
    """J8: the answer's retry holds no guard; a jammed agent is stopped, and a second answer is too late."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.questions.ask(scene.sid, ownership, "q", "which?")
    await kernel.questions.leave(scene.sid, "q")
    assert (await kernel.questions.answer(scene.sid, "q", "this")).placement == "latched"
    assert (await scene.view()).guard_number == 0
    stop = await kernel.stops.cancel(scene.sid)
    await scene.expired("cancel")
    assert await kernel.stops.outcome(scene.sid, stop.ticket) == "escalated"
    with pytest.raises(QuestionClosed):
        await kernel.questions.answer(scene.sid, "q", "that")
