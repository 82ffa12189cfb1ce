"""Stops that come while a step is entered, and between a turn's end in a step and its settlement (section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import begun, entered, in_step, of_type, on_workflow, settled, unsettled
from tests.scripts.scene import unchanged
from tests.scripts.states import owned
from tests.scripts.test_step_entries import prompted_entry

if TYPE_CHECKING:
    from coordinator.services import Kernel


@pytest.mark.parametrize("phase", ["idle", "waiting"])
@pytest.mark.parametrize("stop", ["user", "parent", "interrupt"])
async def test_a_stop_during_an_entry_parks_its_prompt(kernel: Kernel, stop: Any, phase: str) -> None:
    """Its place was drawn by the script that decided the entry: what comes after it is stopped too."""
    scene = await (prompted_entry if phase == "waiting" else on_workflow)(kernel)
    if stop == "interrupt":
        await kernel.stops.put_first(scene.sid, "instead", kind="parent")
    else:
        await kernel.stops.cancel(scene.sid, kind=stop)
    assert await entered(scene, "plan it")
    view = await scene.view()
    awake = {entry.body: entry.awake for entry in view.inbox.next_turn}
    assert awake.pop("plan it") is False
    assert awake.get("queued", False) is False
    assert (view.status, awake.get("instead")) == (("running", True) if stop == "interrupt" else ("idle", None))


@pytest.mark.parametrize("chosen", [True, False])
async def test_an_interrupt_during_an_entry_runs_before_the_prompt_that_it_parked(kernel: Kernel, chosen: bool) -> None:
    """Also a second one, and what was chosen to be first; a replacement parks nothing, and goes behind it."""
    scene = await prompted_entry(kernel)
    if chosen:
        await scene.sent("one", message_id="m1")
        await scene.sent("two", message_id="m2")
        await kernel.stops.put_first(scene.sid, kind="parent", chosen=["m1", "m2"])
    else:
        await kernel.stops.put_first(scene.sid, "two", kind="parent")
        await kernel.stops.put_first(scene.sid, "one", kind="parent")
    assert await entered(scene, "plan it")
    assert await scene.pending() == ["one", "two", "plan it", "queued"]
    assert [message.body for message in (await scene.claimed()).messages] == ["one"]


@pytest.mark.parametrize("how", ["replaced", "interrupted and removed"])
async def test_else_the_prompt_goes_first(kernel: Kernel, how: str) -> None:
    """A replacement parks nothing."""
    scene = await prompted_entry(kernel)
    kind = "replace" if how == "replaced" else "parent"
    receipt = await kernel.stops.put_first(scene.sid, "instead", kind=kind)
    if kind == "parent":
        await kernel.inbox.remove(scene.sid, receipt.message_id)
    assert await entered(scene, "plan it")
    assert await scene.pending() == ["plan it", *(["instead"] if kind == "replace" else []), "queued"]


@pytest.mark.parametrize("kind", ["silent", "system"])
async def test_a_stop_that_does_not_park_leaves_the_prompt_awake(kernel: Kernel, kind: Any) -> None:
    """It has nothing to stop."""
    scene = await on_workflow(kernel)
    await kernel.stops.cancel(scene.sid, kind=kind)
    assert await entered(scene, "plan it")
    assert (await scene.view()).status == "running"


@pytest.mark.parametrize("kind", ["user", "silent"])
async def test_a_broad_stop_during_an_entry_drops_its_prompt_visibly(kernel: Kernel, kind: Any) -> None:
    """As if it had been in line."""
    scene = await on_workflow(kernel)
    await kernel.stops.cancel(scene.sid, kind=kind, keep_inbox=False)
    entry_id = (await scene.view()).entering
    assert await entered(scene, "plan it")
    (dropped,) = await of_type(scene, "inbox.discarded")
    assert (dropped["message_id"], dropped["why"]) == (f"entry-{entry_id}", "cancelled")
    assert (await scene.pending(), (await scene.view()).status) == ([], "idle")
    for name in ("messages", "message_info", "awake"):
        assert not await kernel.store.redis.exists(scene.keys[name])


FINISHED = ["completed", "max_tokens"]


@pytest.mark.parametrize("late", ["", "silent", "user", "parent", "interrupt"])
@pytest.mark.parametrize("reason", [*FINISHED, "error", "blocked"])
async def test_a_late_stop_counts_as_a_stop_of_the_unsettled_turn(kernel: Kernel, reason: str, late: Any) -> None:
    """A person's lets the step decide by its own setting, a parent's decides that it does not lead on."""
    scene, entry, _ = await unsettled(kernel, reason)
    if late == "interrupt":
        await kernel.stops.put_first(scene.sid, "next", kind="parent")
    elif late:
        await kernel.stops.cancel(scene.sid, kind=late)
    guard, seen = await begun(scene)
    stopper = {"interrupt": "parent", "silent": ""}.get(late, late)
    evaluates = reason in FINISHED and stopper in {"", "user"}
    assert (seen.evaluates, seen.cancel) == ("evaluate" if evaluates else "none", stopper)
    assert (await settled(scene, "build", seen=seen, guard=guard)).detail == ("advanced" if evaluates else "none")
    assert (await scene.view()).step == ("build" if evaluates else "plan")
    assert entry not in await scene.delivered()


@pytest.mark.parametrize("kind", ["user", "parent", "silent", "system"])
@pytest.mark.parametrize("reason", ["cancelled", "completed"])
async def test_the_stop_that_a_turn_ended_by_decides(kernel: Kernel, reason: str, kind: Any) -> None:
    """Section 6: only a person's may count as completed, and a completion that crossed a stop follows the stop."""
    scene = await in_step(kernel)
    await scene.prompted()
    await kernel.stops.cancel(scene.sid, kind=kind)
    await scene.finished(await owned(scene), reason)
    _, seen = await begun(scene)
    assert (seen.evaluates, seen.cancel) == ("evaluate" if kind == "user" else "none", kind)


@pytest.mark.parametrize(("first", "late", "cancel"), [
    ("parent", "user", "user"), ("user", "parent", "user"), ("silent", "user", "user"), ("system", "user", "system"),
    ("silent", "parent", "parent"),
])  # fmt: skip
async def test_of_two_stops_the_stronger_decides(kernel: Kernel, first: Any, late: Any, cancel: str) -> None:
    """An exclusive one is not lowered by a person's."""
    scene = await in_step(kernel)
    await scene.prompted()
    await kernel.stops.cancel(scene.sid, kind=first)
    await scene.finished(await owned(scene), "cancelled")
    await kernel.stops.cancel(scene.sid, kind=late)
    _, seen = await begun(scene)
    assert (seen.evaluates, seen.cancel) == ("evaluate" if cancel == "user" else "none", cancel)


@pytest.mark.parametrize("kinds", [("user", "parent"), ("parent", "user")])
async def test_of_two_late_stops_the_stronger_decides(kernel: Kernel, kinds: tuple[Any, Any]) -> None:
    """In whatever order they came."""
    scene, _, _ = await unsettled(kernel)
    for kind in kinds:
        await kernel.stops.cancel(scene.sid, kind=kind)
    _, seen = await begun(scene)
    assert seen.cancel == "user"


async def test_a_late_stop_of_one_turn_is_none_of_the_next(kernel: Kernel) -> None:
    """It goes with the settlement."""
    scene, _, _ = await unsettled(kernel)
    await kernel.stops.cancel(scene.sid)
    await settled(scene)
    await scene.finished(await scene.prompted("next"))
    _, seen = await begun(scene)
    assert (seen.evaluates, seen.cancel) == ("evaluate", "")


@pytest.mark.parametrize("late", ["user", "parent"])
async def test_a_stop_between_looking_and_settling_is_looked_at_again(kernel: Kernel, late: Any) -> None:
    """EVALUATE, nothing written, where it may decide otherwise; a parent's settles without the step."""
    scene, _, _ = await unsettled(kernel)
    guard, seen = await begun(scene)
    await kernel.stops.cancel(scene.sid, kind=late)
    if late == "user":
        async with unchanged(kernel):
            assert (await settled(scene, "build", seen=seen, guard=guard)).verdict is Verdict.EVALUATE
        _, seen = await begun(scene)
        assert (await settled(scene, seen=seen, guard=guard)).detail == "none"
    else:
        assert (await settled(scene, "build", seen=seen, guard=guard)).detail == "none"
    assert (await scene.view()).step == "plan"


async def test_a_late_stop_is_logged_as_one_of_that_turn(kernel: Kernel) -> None:
    """Once."""
    scene, _, _ = await unsettled(kernel)
    for number in range(2):
        await kernel.stops.cancel(scene.sid, operation_id=f"o{number}")
    assert [entry["turn"] for entry in await of_type(scene, "turn.cancelled_by_user")] == ["1"]


@pytest.mark.parametrize("kind", ["user", "parent"])
async def test_a_stop_that_was_not_acknowledged_decides_as_one_that_was(kernel: Kernel, kind: Any) -> None:
    """Escalated is stopped."""
    scene = await in_step(kernel)
    await scene.prompted()
    await kernel.stops.cancel(scene.sid, kind=kind)
    assert await scene.expired("cancel") == "OK"
    _, seen = await begun(scene)
    assert (seen.evaluates, seen.cancel) == ("evaluate" if kind == "user" else "none", kind)
