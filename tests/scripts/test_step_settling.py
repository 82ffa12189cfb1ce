"""The end of a turn in a step: looked at under the guard, and settled only as it was seen (section 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from coordinator.domain.verdicts import Verdict
from coordinator.services.settlements import Begun
from tests.scripts.flow import begun, entered, entries, in_step, of_type, settled, unsettled
from tests.scripts.scene import unchanged
from tests.scripts.states import owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def test_without_a_guard_a_turn_of_a_step_is_not_settled(kernel: Kernel) -> None:
    """EVALUATE: nothing written, the entry stays pending; also with words that were seen by nobody."""
    scene, entry, event = await unsettled(kernel)
    guessed = Begun(verdict=Verdict.OK, evaluates="evaluate")
    async with unchanged(kernel):
        assert (await kernel.settlements.settle(event, entry)).verdict is Verdict.EVALUATE
        assert (await kernel.settlements.settle(event, entry, step_to="build")).verdict is Verdict.EVALUATE
    guard = await kernel.guards.acquire(scene.sid, "replica")
    async with unchanged(kernel):
        assert (await kernel.settlements.settle(event, entry, guard.number)).verdict is Verdict.EVALUATE
        moved = msgspec.structs.replace(guessed, evaluates="moved")
        assert (await kernel.settlements.settle(event, entry, guard.number, seen=moved)).verdict is Verdict.EVALUATE
    assert entry in await scene.delivered()


async def test_what_its_evaluation_is_told(kernel: Kernel) -> None:
    """The step and its entry, whether it was signalled, and that nothing else comes first."""
    scene, _, _ = await unsettled(kernel)
    view = await scene.view()
    async with unchanged(kernel, {"*:guard", "*:session:s"}):
        _, seen = await begun(scene)
    assert (seen.verdict, seen.evaluates, seen.cancel, seen.failures) == (Verdict.OK, "evaluate", "", 0)
    assert (seen.workflow, seen.step, seen.step_entry, seen.signalled) == ("flow", "plan", view.step_entry, False)
    await kernel.workflows.signal(scene.sid)
    assert (await begun(scene))[1].signalled


async def test_advanced_enters_the_next_step_once_and_gives_the_guard_back(kernel: Kernel) -> None:
    """Settled, acknowledged and entered in one script; its repeat changes nothing."""
    scene, entry, event = await unsettled(kernel)
    before = (await scene.view()).step_entry
    guard, seen = await begun(scene)
    answer = await settled(scene, "build", seen=seen, guard=guard)
    assert (answer.verdict, answer.detail) == (Verdict.OK, "advanced")
    view = await scene.view()
    assert (view.step, view.entering, view.unsettled_turn) == ("build", view.step_entry, 0)
    assert (view.step_entry != before, view.guard_number, await of_type(scene, "error")) == (True, 0, [])
    assert [event.step for _, event in await entries(scene)] == ["plan", "build"]
    assert (entry in await scene.delivered(), "entry" in await scene.deadlines()) == (False, True)
    async with unchanged(kernel):
        again = await kernel.settlements.settle(event, entry, guard, seen=seen, step_to="build")
        assert again == answer


@pytest.mark.parametrize("step_to", ["plan", ""])
async def test_a_step_may_lead_to_itself_or_nowhere(kernel: Kernel, step_to: str) -> None:
    """A new entry of the same step, or `stayed`."""
    scene, _, _ = await unsettled(kernel)
    before = (await scene.view()).step_entry
    assert (await settled(scene, step_to)).detail == ("advanced" if step_to else "stayed")
    assert ((await scene.view()).step, (await scene.view()).step_entry != before) == ("plan", bool(step_to))


async def test_a_driver_that_waits_for_the_settlement_waits_for_the_entry_then(kernel: Kernel) -> None:
    """The step's prompt is the next turn, and what was queued comes after it."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await scene.sent("queued")
    assert (await scene.finished(ownership)).verdict is Verdict.GO_ON
    assert (await scene.claimed()).verdict is Verdict.UNSETTLED
    await settled(scene, "build")
    assert (await scene.claimed()).verdict is Verdict.ENTERING
    await entered(scene, "build it")
    assert [message.body for message in (await scene.claimed()).messages] == ["build it"]


@pytest.mark.parametrize("change", ["another step", "the same step"])
async def test_a_step_that_was_left_since_it_was_seen_is_not_led_on_from(kernel: Kernel, change: str) -> None:
    """Compared by entry, not by name: the turn began in the one before."""
    scene = await in_step(kernel)
    await scene.prompted()
    for step in ("build", "plan")[: 1 if change == "another step" else 2]:
        assert await kernel.workflows.move(scene.sid, step) == "applied"
        await entered(scene)
    await scene.finished(await owned(scene))
    guard, seen = await begun(scene)
    assert (seen.evaluates, seen.workflow, seen.step, seen.step_entry) == ("evaluate", "", "", "")
    forged = msgspec.structs.replace(seen, step_entry=(await scene.view()).step_entry)
    assert (await settled(scene, "review", seen=forged, guard=guard)).detail == "stayed"
    assert (await scene.view()).step == ("build" if change == "another step" else "plan")


async def test_an_older_evaluation_is_dropped(kernel: Kernel) -> None:
    """What was seen names the entry that it was decided for."""
    scene, _, _ = await unsettled(kernel)
    guard, seen = await begun(scene)
    stale = msgspec.structs.replace(seen, step_entry="n-before")
    assert (await settled(scene, "build", seen=stale, guard=guard)).detail == "stayed"
    assert (await scene.view()).step == "plan"


async def test_a_turn_that_ends_while_a_step_is_entered_leads_nowhere(kernel: Kernel) -> None:
    """It is settled without a guard: no step is concerned."""
    scene = await in_step(kernel)
    await scene.prompted()
    await kernel.workflows.move(scene.sid, "build")
    await scene.finished(await owned(scene))
    _, event = (await scene.readies())[-1]
    answer = await kernel.settlements.settle(event, (await scene.readies())[-1][0])
    assert (answer.detail, (await scene.view()).step) == ("stayed", "build")


@pytest.mark.parametrize("reason", ["error", "blocked", "interrupted"])
async def test_other_ends_are_not_evaluated(kernel: Kernel, reason: str) -> None:
    """Settled at once, whatever step is asked for."""
    scene, entry, event = await unsettled(kernel, reason)
    answer = await kernel.settlements.settle(event, entry, step_to="build")
    assert (answer.verdict, answer.detail, (await scene.view()).step) == (Verdict.OK, "none", "plan")


async def test_on_a_closing_session_nothing_is_evaluated(kernel: Kernel) -> None:
    """No step, no move; the turn is closed."""
    scene = await in_step(kernel)
    await scene.prompted()
    assert await kernel.workflows.move(scene.sid, "build", deferred=True) == "pending"
    await kernel.sessions.close(scene.sid)
    await scene.finished(await owned(scene))
    entry, event = (await scene.readies())[-1]
    answer = await kernel.settlements.settle(event, entry, step_to="review")
    assert (answer.detail, (await scene.view()).step) == ("none", "plan")
    assert set(await scene.deadlines()) == {"lease", "retention"}


async def test_a_session_that_was_closed_meanwhile_is_not_led_on(kernel: Kernel) -> None:
    """Read again when it is written."""
    scene, _, _ = await unsettled(kernel)
    guard, seen = await begun(scene)
    await kernel.sessions.close(scene.sid)
    assert (await settled(scene, "build", seen=seen, guard=guard)).detail == "none"
    assert ((await scene.view()).step, (await scene.view()).entering) == ("plan", "")


async def test_a_signal_is_of_one_entry_and_moves_nothing(kernel: Kernel) -> None:
    """Kept until the step is left."""
    scene, _, _ = await unsettled(kernel)
    for _ in range(2):
        await kernel.workflows.signal(scene.sid)
    assert ((await scene.view()).signalled, (await scene.view()).step) == (True, "plan")
    await settled(scene)
    assert (await scene.view()).signalled
    await scene.finished(await scene.prompted())
    await settled(scene, "build")
    assert not (await scene.view()).signalled


async def test_a_signal_that_comes_again_signals_no_later_step(kernel: Kernel) -> None:
    """Its reply may have been lost: requires_signal would pass without anybody."""
    scene, _, _ = await unsettled(kernel)
    await kernel.workflows.signal(scene.sid, operation_id="signal")
    await settled(scene, "build")
    assert await entered(scene)
    async with unchanged(kernel):
        await kernel.workflows.signal(scene.sid, operation_id="signal")
    assert not (await scene.view()).signalled


async def test_a_turn_s_signal_is_of_the_step_that_it_began_in(kernel: Kernel) -> None:
    """A move that left it running has taken it out of that step."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.workflows.move(scene.sid, "build")
    assert await entered(scene)
    await kernel.workflows.signal(scene.sid, ownership=ownership)
    assert not (await scene.view()).signalled
    await kernel.workflows.signal(scene.sid)
    await kernel.workflows.signal(scene.sid, ownership=ownership)
    assert (await scene.view()).signalled


async def test_a_complaint_is_in_the_log_with_the_turn_that_stayed(kernel: Kernel) -> None:
    """What the step could not be evaluated for; not for a turn that was not to be."""
    for reason in ("completed", "error"):
        scene, entry, event = await unsettled(kernel, reason)
        guard, seen = await begun(scene)
        await kernel.settlements.settle(event, entry, guard, seen=seen, complaint="no such step")
        errors = [entry for entry in await of_type(scene, "error") if entry["where"] == "workflow"]
        assert [(one["message"], one["step"], one["turn"]) for one in errors] == (
            [("no such step", "plan", "1")] if reason == "completed" else []
        )
        await kernel.store.redis.flushall()


async def test_handlers_that_failed_for_good_lead_nowhere(kernel: Kernel) -> None:
    """Outcome failed, no effect on the workflow."""
    scene, entry, event = await unsettled(kernel)
    guard, _ = await begun(scene)
    assert (await kernel.settlements.failed(event, entry, guard, "boom", 1)).verdict is Verdict.DEAD
    assert [entry["outcome"] for entry in await of_type(scene, "turn.settled")] == ["failed"]
    assert (await scene.view()).step == "plan"
    assert (await record(scene))["settled_outcome"] == "failed"


async def test_what_runs_in_a_step_that_was_not_entered_does_not_complete_it(kernel: Kernel) -> None:
    """Its own prompt never ran: the step stays until somebody moves the session, to this step again or to another."""
    scene = await in_step(kernel)
    await kernel.workflows.move(scene.sid, "build")
    await entered(scene, error="boom")
    await scene.finished(await scene.prompted("hello"))
    await scene.delivered()
    entry, event = (await scene.readies())[-1]
    assert (await kernel.settlements.settle(event, entry)).detail == "stayed"
    assert (await scene.view()).step == "build"
