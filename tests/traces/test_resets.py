"""Traces of the model check that concern resets: each began as a fault of an earlier wording, named by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import GuardLost
from coordinator.domain.verdicts import Verdict
from tests.scripts.resetting import begun, ended, outcome, quiesced, resetting
from tests.scripts.scene import OFFERS, Scene, unchanged
from tests.scripts.states import WAITING, brought, owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel


@pytest.mark.parametrize("parked_by", ["stop", "error"])
async def test_f3_the_abort_sequence_dies_with_its_activity(kernel: Kernel, parked_by: str) -> None:
    """Parked by a stop or an error, then a reset begins and ends: what was parked does not start."""
    scene = await brought(kernel, "accepted")
    if parked_by == "stop":
        await kernel.stops.cancel(scene.sid)
    await scene.finished(await owned(scene), "cancelled" if parked_by == "stop" else "error")
    assert await begun(scene) == "running"
    assert await ended(scene)
    assert ((await scene.view()).status, await scene.pending()) == ("idle", ["queued"])


@pytest.mark.parametrize("sends", [False, True])
@pytest.mark.parametrize("state", ["idle", *WAITING, "unaccepted", "accepted"])
async def test_f6_a_reset_of_a_session_with_a_queue_fails_without_anybody_s_fault(
    kernel: Kernel, state: str, sends: bool
) -> None:
    """Open or between two turns, a send under the marker or none: it is committed, and then the queue goes on."""
    scene = await brought(kernel, state)
    if state == "guarded":
        await kernel.guards.release(scene.sid, "somebody", (await scene.view()).guard_number)
    stage = await begun(scene)
    if stage == "running" and sends:
        assert (await kernel.inbox.send(scene.sid, "meanwhile")).placement == "latched"
    if state in {"unaccepted", "accepted"}:
        assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.GONE
    if state == "starting":
        await kernel.executions.boot(scene.sid, "e1")
    if stage == "running":
        assert (await scene.view()).phase == "maintenance"
        assert await ended(scene)
    assert (await outcome(scene))[0] == "committed"
    waited = ["queued"] * (state != "idle") + ["meanwhile"] * (stage == "running" and sends)
    assert ((await scene.view()).status, await scene.pending()) == ("running" if waited else "idle", waited)


@pytest.mark.parametrize("later", ["none", "another", "another under the same guard"])
async def test_f11_operation_ids_are_forgotten_when_the_operation_is_settled(kernel: Kernel, later: str) -> None:
    """A packet of reset_begin that comes a second time sets no marker again, with nobody behind it."""
    scene = await brought(kernel, "ready")
    number = (await kernel.guards.acquire(scene.sid, "resetter")).number
    await kernel.resets.begin(scene.sid, "r", number)
    await ended(scene, committed=False, called=False)
    if later == "another":
        await kernel.guards.release(scene.sid, "resetter", number)
        number = (await kernel.guards.acquire(scene.sid, "resetter")).number
    if later != "none":
        await kernel.resets.begin(scene.sid, "r2", number)
        assert await kernel.resets.end(scene.sid, "e1", "r2", committed=True, resume_token="newer")
    async with unchanged(kernel, OFFERS):
        assert await kernel.resets.begin(scene.sid, "r", number) == "failed"


@pytest.mark.parametrize("phase", ["open", "called"])
async def test_f15_all_refuse_a_closed_session_locks_it_up(kernel: Kernel, phase: str) -> None:
    """The close takes the marker off; what is open ends, and its ready is settled."""
    scene = await resetting(kernel, phase)
    await kernel.sessions.close(scene.sid)
    if phase == "open":
        await scene.finished(await owned(scene), "cancelled")
        await scene.settled()
    view = await scene.view()
    assert (view.lifecycle, view.reset_pending, view.unsettled_turn) == ("closed", False, 0)
    assert not await ended(scene)


async def test_f18_a_guard_that_is_lost_leaves_the_reset_its_worker_s(kernel: Kernel) -> None:
    """The resetter is gone: the worker's own end writes the new context, so that record and provider agree."""
    scene = await quiesced(kernel)
    with pytest.raises(GuardLost):
        await kernel.resets.begin(scene.sid, "other", (await scene.view()).guard_number)
    assert await ended(scene)
    assert ((await record(scene))["resume_token"], (await outcome(scene))[0]) == ("fresh", "committed")


@pytest.mark.parametrize("kind", ["reset", "lease"])
async def test_f18_context_and_record_disagree(kernel: Kernel, kind: str) -> None:
    """Marker or lease over during the call: that execution is void, and its late end touches nothing."""
    scene = await quiesced(kernel)
    await scene.expired(kind)
    async with unchanged(kernel):
        assert not await ended(scene)
    view = await scene.view()
    assert (view.execution_id, view.suspects, view.resume_token) == ("", ("e1",), "resume-1")
    assert (await outcome(scene))[0] == "failed"


async def test_f21_a_prompt_is_handed_over_under_the_marker(kernel: Kernel) -> None:
    """Claimed, reply lost, reset: the repeat of the claim says so, and the driver does not call the agent."""
    scene = await brought(kernel, "unaccepted")
    await begun(scene)
    claim = await scene.claimed("c1")
    assert (claim.verdict, claim.abort) == (Verdict.OK, "system")
    assert claim.ownership
    await scene.finished(claim.ownership, "cancelled")
    async with unchanged(kernel):
        assert (await scene.claimed("c2")).verdict is Verdict.SUPERSEDED


@pytest.mark.parametrize("phase", ["open", "called"])
async def test_f25_a_person_s_stop_is_refused_during_a_reset(kernel: Kernel, phase: str) -> None:
    """It never is: the reset goes on, and the queue does not after it."""
    scene = await resetting(kernel, phase)
    await kernel.stops.cancel(scene.sid)
    if phase == "open":
        await scene.finished(await owned(scene), "cancelled")
    assert await ended(scene)
    assert ((await scene.view()).status, await scene.pending()) == ("idle", ["queued"])


@pytest.mark.parametrize("end", ["cancel", "lease", "interrupted"])
async def test_a_reset_that_goes_on_after_a_stop_that_nobody_confirmed(kernel: Kernel, end: str) -> None:
    """Its provider is never called: the agent may still act."""
    scene = await resetting(kernel, "open")
    if end == "interrupted":
        await scene.finished(await owned(scene), end)
    else:
        await scene.expired(end)
    view = await scene.view()
    assert (view.reset_pending, view.phase, view.suspects) == (False, "idle", ("e1",))
    assert (await outcome(scene))[0] == "failed"


async def test_d9_a_turn_settled_inside_a_reset_meets_its_marker(kernel: Kernel) -> None:
    """Its entry stays pending, and is settled after the reset."""
    scene = await quiesced(kernel)
    entry, event = (await scene.readies())[-1]
    async with unchanged(kernel):
        assert (await kernel.settlements.settle(event, entry)).verdict is Verdict.RESETTING
    await ended(scene)
    assert (await kernel.settlements.settle(event, entry)).detail == "none"


async def test_d10_the_marker_has_a_deadline_of_its_own(kernel: Kernel) -> None:
    """Whatever else dies: the session goes on by it."""
    scene = await quiesced(kernel)
    await kernel.inbox.send(scene.sid, "meanwhile")
    assert "reset" in await scene.deadlines()
    assert await scene.expired("reset") == "OK"
    assert (await scene.view()).phase == "idle"
    assert (await Scene(kernel, scene.sid).view()).waiting_for != "reset"
    await kernel.inbox.send(scene.sid, "afterwards")
    assert (await scene.view()).status == "running"
