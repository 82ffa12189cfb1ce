"""Moves to another step: at once, or pending until a turn is settled or an entry over (section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coordinator.domain.errors import (
    ConflictingRepeat,
    GuardLost,
    SessionClosed,
    SessionUnknown,
    Superseded,
    UnknownStep,
    WorkflowInvalid,
    WorkflowUnknown,
)
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import FLOW, begun, entered, entries, in_step, of_type, on_workflow, settled, unsettled
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import owned, record

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coordinator.domain.records import MoveAnswer
    from coordinator.services import Kernel


async def moved(scene: Scene, step: str = "review", **options: Any) -> MoveAnswer:
    """The answer to move m."""
    return await scene.kernel.workflows.move(scene.sid, step, **{"operation_id": "m", **options})


@pytest.mark.parametrize("deferred", [True, False])
async def test_an_idle_session_is_moved_at_once(kernel: Kernel, deferred: bool) -> None:
    """There is no turn that it could wait for."""
    scene = await in_step(kernel)
    before = await scene.view()
    assert await moved(scene, deferred=deferred) == "applied"
    view = await scene.view()
    assert (view.step, view.entering, view.pending_move) == ("review", view.step_entry, "")
    assert (view.step_entry != before.step_entry, view.sequence) == (True, before.sequence + 1)
    assert await of_type(scene, "move.pending", "move.applied") == [
        {"type": "move.applied", "move_id": "m", "step": "review"}
    ]
    assert "entry" in await scene.deadlines()


async def test_a_turn_that_runs_goes_on_and_is_evaluated_in_no_step(kernel: Kernel) -> None:
    """The step's prompt is first in line behind it."""
    scene = await in_step(kernel)
    await scene.prompted()
    await scene.sent("queued")
    assert await moved(scene) == "applied"
    assert await entered(scene, "review it")
    assert ((await scene.view()).open_turn, await scene.pending()) == (1, ["review it", "queued"])
    assert (await scene.finished(await owned(scene))).verdict is Verdict.GO_ON
    await scene.settled()
    assert ((await scene.view()).step, (await scene.view()).entering) == ("review", "")


@pytest.mark.parametrize("why", ["deferred", "unsettled", "entering"])
async def test_a_move_that_has_to_wait_is_pending_and_then_first(kernel: Kernel, why: str) -> None:
    """It beats what the turn's evaluation came to; on_turn_complete does not run for it."""
    scene = await (on_workflow if why == "entering" else in_step)(kernel)
    if why != "entering":
        await scene.prompted()
    if why == "unsettled":
        await scene.finished(await owned(scene))
    before = await scene.view()
    assert await moved(scene, deferred=why == "deferred") == "pending"
    view = await scene.view()
    assert (view.step_entry, view.pending_move) == (before.step_entry, "review")
    if why == "deferred":
        await scene.finished(await owned(scene))
    if why == "entering":
        assert await entered(scene, "plan it")
    else:
        guard, seen = await begun(scene)
        assert seen.evaluates == "moved"
        assert (await settled(scene, "build", seen=seen, guard=guard)).detail == "moved"
    view = await scene.view()
    assert (view.step, view.pending_move, bool(view.entering)) == ("review", "", True)
    assert [entry["type"] for entry in await of_type(scene, "move.pending", "move.applied")] == [
        "move.pending", "move.applied",
    ]  # fmt: skip


@pytest.mark.parametrize("ends", ["before", "after", "settled before"])
async def test_a_turn_s_own_move_during_an_entry_waits_for_its_settlement(kernel: Kernel, ends: str) -> None:
    """Whether the turn ends before the entry or after it: a step with a reset would stop the turn that asked."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    assert await moved(scene, "build", operation_id="m0") == "applied"
    assert await moved(scene, deferred=True, ownership=ownership) == "pending"
    if ends != "after":
        await scene.finished(ownership)
    if ends == "settled before":
        await scene.settled()
    assert await entered(scene)
    view = await scene.view()
    if ends != "settled before":
        assert (view.step, view.pending_move, view.entering) == ("build", "review", "")
        if ends == "after":
            await scene.finished(ownership)
        await scene.settled()
        view = await scene.view()
    assert (view.step, view.pending_move, bool(view.entering)) == ("review", "", True)


@pytest.mark.parametrize("reason", ["completed", "error", "cancelled"])
async def test_it_is_applied_whatever_the_reason_and_without_a_guard(kernel: Kernel, reason: str) -> None:
    """Nothing is evaluated, so nobody has to look."""
    scene, entry, event = await unsettled(kernel, reason)
    await moved(scene)
    assert (await kernel.settlements.settle(event, entry)).detail == "moved"
    assert (await scene.view()).step == "review"


async def test_one_that_came_since_it_was_looked_at_beats_the_transition(kernel: Kernel) -> None:
    """Read again when the settlement is written."""
    scene, _, _ = await unsettled(kernel)
    guard, seen = await begun(scene)
    await moved(scene)
    assert (await settled(scene, "build", seen=seen, guard=guard)).detail == "moved"
    assert [event.step for _, event in await entries(scene)] == ["plan", "review"]


async def test_the_later_of_two_pending_moves_replaces_the_earlier(kernel: Kernel) -> None:
    """One a session; a late repeat of the first changes nothing."""
    scene, _, _ = await unsettled(kernel)
    await moved(scene, "build", operation_id="m1")
    await moved(scene, "review", operation_id="m2")
    async with unchanged(kernel):
        assert await moved(scene, "build", operation_id="m1") == "pending"
    assert (await settled(scene)).detail == "moved"
    assert (await scene.view()).step == "review"
    assert [entry["move_id"] for entry in await of_type(scene, "move.applied")] == ["m2"]


@pytest.mark.parametrize("deferred", [True, False])
async def test_a_repeat_is_answered_as_the_first_and_moves_no_second_time(kernel: Kernel, deferred: bool) -> None:
    """Also when the session has gone on, and is closed."""
    scene = await in_step(kernel)
    await scene.prompted()
    first = await moved(scene, deferred=deferred)
    for close in (False, True):
        if close:
            await kernel.sessions.close(scene.sid)
        async with unchanged(kernel):
            assert await moved(scene, deferred=deferred) == first
            with pytest.raises(ConflictingRepeat):
                await moved(scene, "build", deferred=deferred)
            with pytest.raises(ConflictingRepeat):
                await moved(scene, deferred=not deferred)


async def test_refusals_write_nothing(kernel: Kernel) -> None:
    """Session, guard, workflow, step, definition."""
    with pytest.raises(SessionUnknown):
        await kernel.workflows.move("nobody", "plan")
    with pytest.raises(SessionUnknown):
        await kernel.workflows.signal("nobody")
    scene = await Scene(kernel, "t").opened()
    async with unchanged(kernel):
        with pytest.raises(UnknownStep, match="no workflow"):
            await moved(scene)
        with pytest.raises(UnknownStep, match="no workflow"):
            await kernel.workflows.signal("t")
    scene = await in_step(kernel)
    async with unchanged(kernel):
        with pytest.raises(UnknownStep, match="plan, build, review"):
            await moved(scene, "elsewhere")
        with pytest.raises(GuardLost):
            await moved(scene, guard_number=4)
    await kernel.store.redis.delete(kernel.store.keys.workflows)
    async with unchanged(kernel):
        with pytest.raises(WorkflowUnknown):
            await moved(scene)
    await kernel.sessions.close(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(SessionClosed):
            await moved(scene)
        with pytest.raises(SessionClosed):
            await kernel.workflows.signal(scene.sid)


async def test_a_repeat_is_known_also_when_the_definition_has_lost_the_step(kernel: Kernel) -> None:
    """Only new moves are looked up."""
    scene = await in_step(kernel)
    assert await moved(scene) == "applied"
    await kernel.workflows.publish([msgspec.structs.replace(FLOW, steps=FLOW.steps[:2])])
    async with unchanged(kernel):
        assert await moved(scene) == "applied"
        with pytest.raises(ConflictingRepeat):
            await moved(scene, "build")
        with pytest.raises(UnknownStep, match="plan, build"):
            await moved(scene, operation_id="m2")
    await kernel.store.redis.hset(kernel.store.keys.workflows, "flow", "{broken")  # type: ignore[misc]
    async with unchanged(kernel):
        assert await moved(scene) == "applied"
        with pytest.raises(WorkflowInvalid):
            await moved(scene, operation_id="m2")


@pytest.mark.parametrize("call", ["move", "signal"])
@pytest.mark.parametrize("how", ["finished", "replaced", "claimed again"])
async def test_a_turn_that_is_over_moves_and_signals_nothing(kernel: Kernel, call: str, how: str) -> None:
    """Its worker may not know it yet: all three parts are compared."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    if how != "finished":
        await kernel.stops.put_first(scene.sid, "instead", kind="replace")
    await scene.finished(ownership, "completed" if how == "finished" else "cancelled")
    if how == "claimed again":
        scene.token = (await scene.view()).activity
        await scene.settled()
        assert (await scene.claimed()).verdict is Verdict.OK
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "move": lambda: moved(scene, deferred=True, ownership=ownership),
        "signal": lambda: kernel.workflows.signal(scene.sid, ownership=ownership),
    }
    async with unchanged(kernel):
        with pytest.raises(Superseded):
            await calls[call]()


async def test_a_turn_s_own_move_and_signal_are_made_once(kernel: Kernel) -> None:
    """Their repeats get the first answer, also when the turn is over."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    for over in (False, True):
        if over:
            await scene.finished(ownership)
        assert await moved(scene, deferred=True, ownership=ownership) == "pending"
        await kernel.workflows.signal(scene.sid, ownership=ownership, operation_id="signal")
    view = await scene.view()
    assert (view.pending_move, view.signalled) == ("review", True)
    with pytest.raises(ConflictingRepeat):
        await kernel.workflows.signal(scene.sid, operation_id="m")


async def test_the_guard_s_holder_may_move(kernel: Kernel) -> None:
    """By its number."""
    scene = await in_step(kernel)
    guard = await kernel.guards.acquire(scene.sid, "holder")
    assert await moved(scene, guard_number=guard.number) == "applied"


@pytest.mark.parametrize("failed", [True, False])
async def test_a_move_to_the_present_step_is_a_new_try_only_of_one_that_was_not_entered(
    kernel: Kernel, failed: bool
) -> None:
    """Else it is applied by nothing."""
    scene = await on_workflow(kernel)
    await entered(scene, error="boom" if failed else "")
    before = (await scene.view()).step_entry
    assert await moved(scene, "plan") == "applied"
    view = await scene.view()
    assert (view.step_entry != before, bool(view.entering)) == (failed, failed)
    assert (await of_type(scene, "move.applied"))[-1]["step"] == "plan"


@pytest.mark.parametrize("how", ["entered", "failed", "expired"])
async def test_the_end_of_an_entry_applies_the_move_that_came_during_it(kernel: Kernel, how: str) -> None:
    """However it ends; the session then waits for the next entry."""
    scene = await on_workflow(kernel)
    await moved(scene)
    if how == "expired":
        for _ in range(3):
            await scene.expired("entry")
    else:
        assert await entered(scene, error="" if how == "entered" else "boom")
    view = await scene.view()
    assert (view.step, view.entering, view.step_failed, view.pending_move) == (
        "review", view.step_entry, False, "",
    )  # fmt: skip
    assert "entry" in await scene.deadlines()
    assert not {"move_id", "move_step"} & (await record(scene)).keys()
    assert await entered(scene, "review it")
    assert ((await scene.view()).status, await scene.pending()) == ("running", ["review it"])


async def test_a_turn_settled_during_an_entry_leaves_the_move_to_the_entry_s_end(kernel: Kernel) -> None:
    """One entry at a time."""
    scene = await in_step(kernel)
    await scene.prompted()
    assert await moved(scene, "build", operation_id="m1") == "applied"
    assert await moved(scene) == "pending"
    await scene.finished(await owned(scene))
    await scene.settled()
    assert ((await scene.view()).step, (await scene.view()).pending_move) == ("build", "review")
    await entered(scene)
    assert (await scene.view()).step == "review"


@pytest.mark.parametrize("how", ["put back", "superseded"])
async def test_a_turn_that_was_not_really_the_message_s_leaves_the_move_pending(kernel: Kernel, how: str) -> None:
    """It is applied when the message's next turn is settled."""
    scene = await in_step(kernel)
    await scene.prompted(accept=False)
    await moved(scene, deferred=True)
    if how == "put back":
        await scene.finished(await owned(scene), "error", undelivered=True)
        scene.token = (await scene.view()).activity
        await scene.settled()
    else:
        await scene.finished(await owned(scene))
        guard = await kernel.guards.acquire(scene.sid, "holder")
        await kernel.stops.put_direct(scene.sid, "direct", wait=30, guard_number=guard.number)
        scene.token = (await scene.view()).activity
    assert ((await scene.view()).step, (await scene.view()).pending_move) == ("plan", "review")
    claim = await scene.claimed()
    assert claim.ownership
    await scene.finished(claim.ownership)
    await kernel.guards.release(scene.sid, "holder", 1)
    await scene.settled()
    assert ((await scene.view()).step, (await scene.view()).pending_move) == ("review", "")
