"""While the marker of a reset is on nothing starts: what comes waits in line, and the reset is not touched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import ResetInProgress, SessionBusy
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import begun as evaluated
from tests.scripts.flow import entered, in_step, of_type
from tests.scripts.resetting import PHASES, begun, ended, outcome, quiesced, resetting
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def gone_on(scene: Scene, phase: str) -> None:
    """The reset goes its way, whatever came meanwhile."""
    assert await outcome(scene) == ("running", "")
    if phase == "open":
        assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.GONE
    if phase == "starting":
        assert await scene.kernel.executions.boot(scene.sid, "e1")
    assert await ended(scene)


@pytest.mark.parametrize("list_name", ["next-turn", "next-step"])
@pytest.mark.parametrize("phase", PHASES)
async def test_a_message_waits_and_runs_after_it(kernel: Kernel, phase: str, list_name: Any) -> None:
    """Latched, also where the session shows as idle."""
    scene = await resetting(kernel, phase)
    receipt = await kernel.inbox.send(scene.sid, "meanwhile", list=list_name)
    assert receipt.placement == "latched"
    with pytest.raises(SessionBusy):
        await kernel.inbox.send(scene.sid, "rejected", on_busy="reject")
    await gone_on(scene, phase)
    assert (await scene.view()).status == "running"
    assert "meanwhile" in await scene.pending()


@pytest.mark.parametrize("kind", ["replace", "parent"])
@pytest.mark.parametrize("phase", PHASES)
async def test_a_replacement_and_an_interrupt_go_first_and_stop_nothing(kernel: Kernel, phase: str, kind: str) -> None:
    """An interrupt parks what was queued before it, here too."""
    scene = await resetting(kernel, phase)
    revision = (await scene.view()).cancel_revision
    assert (await kernel.stops.put_first(scene.sid, "next", kind=kind)).placement == "latched"
    view = await scene.view()
    assert (view.cancel_revision, await scene.pending()) == (revision, ["next", "queued"])
    assert [entry.awake for entry in view.inbox.next_turn] == [True, kind == "replace"]
    await gone_on(scene, phase)
    if phase == "open":
        await scene.settled()
    assert [message.body for message in (await scene.claimed()).messages] == ["next"]


@pytest.mark.parametrize("phase", PHASES)
async def test_a_direct_prompt_is_refused_and_a_job_too(kernel: Kernel, phase: str) -> None:
    """ResetInProgress, SessionBusy; nothing is written."""
    scene = await resetting(kernel, phase)
    async with unchanged(kernel):
        with pytest.raises(ResetInProgress, match=r"\(r\)"):
            await kernel.stops.put_direct(scene.sid, "direct", wait=30)
        with pytest.raises(SessionBusy):
            await kernel.maintenance.begin(scene.sid, "job", "compact")


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", ["user", "parent", "silent", "system"])
@pytest.mark.parametrize("phase", PHASES)
async def test_a_stop_shares_its_operation_s_ticket_and_does_not_touch_it(
    kernel: Kernel, phase: str, kind: Any, keep: bool
) -> None:
    """Section 6: parking kinds raise the mark, a broad one clears; with the prompt gone there is nothing to stop."""
    scene = await resetting(kernel, phase)
    before = await scene.view()
    deadline = (await scene.deadlines())["reset"]
    stop = await kernel.stops.cancel(scene.sid, kind=kind, keep_inbox=keep, operation_id="o")
    after = await scene.view()
    assert (stop.ticket, stop.outcome) == (("r", None) if phase == "open" else ("o", "idle"))
    assert (after.cancel_kind, after.cancel_revision) == (before.cancel_kind, before.cancel_revision)
    assert (after.phase, after.reset_pending, (await scene.deadlines())["reset"]) == (before.phase, True, deadline)
    assert after.park_mark == (after.sequence if kind in {"user", "parent"} else 0)
    assert await scene.pending() == (["queued"] if keep else [])
    await gone_on(scene, phase)
    runs = keep and kind in {"silent", "system"}
    assert (await scene.view()).status == ("running" if runs else "idle")
    assert await kernel.stops.outcome(scene.sid, "o") == ("cancelled" if phase == "open" else "idle")


async def test_a_person_s_stop_of_the_turn_that_a_reset_stops_is_logged_once(kernel: Kernel) -> None:
    """And decides nothing: the turn was stopped by the system."""
    scene = await resetting(kernel, "open")
    for number in range(2):
        await kernel.stops.cancel(scene.sid, operation_id=f"o{number}")
    await gone_on(scene, "open")
    assert len(await of_type(scene, "turn.cancelled_by_user")) == 1
    assert (await scene.readies())[-1][1].cancel_kind == "system"
    await scene.settled()
    assert (await of_type(scene, "turn.settled"))[-1]["outcome"] == "none"


@pytest.mark.parametrize("phase", PHASES)
async def test_no_driver_and_no_worker_gets_in(kernel: Kernel, phase: str) -> None:
    """Invariant 6: while the marker is on no prompt reaches the agent."""
    scene = await resetting(kernel, phase)
    async with unchanged(kernel):
        claim = await scene.claimed("late")
        assert claim.verdict is (Verdict.OWED if phase == "open" else Verdict.SUPERSEDED)
        for token in (scene.token, "r"):
            accepted = await kernel.executions.accept(scene.sid, token, "e2", "w2")
            assert accepted.verdict in {Verdict.SUPERSEDED, Verdict.TAKEN}
        if phase != "open":
            retired = await kernel.turns.retire(scene.sid, scene.token, "e1", error="no")
            assert retired.verdict is Verdict.SUPERSEDED


@pytest.mark.parametrize("running", [True, False], ids=["open", "called"])
async def test_a_move_under_it_is_applied_and_its_prompt_waits(kernel: Kernel, running: bool) -> None:
    """Only a turn that is unsettled, or an entry, holds a move up; the step's prompt runs when the reset is over."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    if not running:
        await scene.finished(ownership)
        await kernel.stops.cancel(scene.sid)
        entry, event = (await scene.readies())[-1]
        guard = await kernel.guards.acquire(scene.sid, "replica")
        seen = await kernel.settlements.begin(event, entry, guard.number)
        await kernel.settlements.settle(event, entry, guard.number, seen=seen)
    assert await begun(scene) == "running"
    assert await kernel.workflows.move(scene.sid, "review") == "applied"
    assert await entered(scene, "review it")
    assert (await scene.view()).phase == ("running" if running else "maintenance")
    await gone_on(scene, "open" if running else "called")
    assert ((await scene.view()).status, await scene.pending()) == ("running", ["review it"])


async def test_a_move_behind_the_turn_that_it_stopped_waits_for_that_settlement(kernel: Kernel) -> None:
    """The marker holds the settlement up, and so the move."""
    scene = await in_step(kernel)
    await scene.prompted()
    await begun(scene)
    await scene.finished(await owned(scene), "cancelled")
    assert await kernel.workflows.move(scene.sid, "review") == "pending"
    assert await ended(scene)
    await scene.settled()
    assert ((await scene.view()).step, (await scene.view()).pending_move) == ("review", "")


async def test_hold_and_renewal_of_its_execution_go_on(kernel: Kernel) -> None:
    """Every heartbeat says it again, so that a lost hint costs one; the second one ends nothing."""
    scene = await quiesced(kernel)
    assert [await scene.renewed(token="") for _ in range(3)] == ["reset"] * 3
    assert "unnamed" not in await record(scene)
    assert (await scene.view()).reset_pending


async def test_its_turn_is_settled_after_it_and_never_evaluated(kernel: Kernel) -> None:
    """Under the marker a settlement answers RESETTING, writes nothing and leaves the entry pending."""
    scene = await quiesced(kernel)
    await scene.delivered()
    entry, event = (await scene.readies())[-1]
    async with unchanged(kernel):
        assert (await kernel.settlements.settle(event, entry)).verdict is Verdict.RESETTING
    guard, seen = await evaluated(scene)
    assert seen.verdict is Verdict.RESETTING
    async with unchanged(kernel):
        assert (await kernel.settlements.settle(event, entry, guard, seen=seen)).verdict is Verdict.RESETTING
        assert (await kernel.settlements.failed(event, entry, guard, "x", 1)).verdict is Verdict.RESETTING
    assert entry in await scene.delivered()
    await ended(scene)
    settled = await kernel.settlements.settle(event, entry, guard, seen=seen)
    assert (settled.verdict, settled.detail) == (Verdict.OK, "none")


async def test_a_job_has_nothing_of_a_reset(kernel: Kernel) -> None:
    """It is maintenance too: what befalls the idle execution is none of its business."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await kernel.maintenance.begin(scene.sid, "job", "compact")
    await scene.expired("lease")
    view = await scene.view()
    assert (view.phase, view.activity, view.reset_outcome, view.park_mark) == ("maintenance", "job", "", 0)
    assert await of_type(scene, "reset.failed") == []
    assert await kernel.maintenance.end(scene.sid, "job")


async def test_after_an_outage_a_stop_finds_it_still_on(kernel: Kernel) -> None:
    """Deadlines count as not due until a sweep has given grace."""
    scene = await quiesced(kernel)
    await scene.make_due("reset")
    await kernel.stops.cancel(scene.sid)
    assert await outcome(scene) == ("running", "")
