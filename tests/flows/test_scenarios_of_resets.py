"""Scenarios K and L of kandev: context resets, and what comes late.

Shown elsewhere on real processes: K10, K12 and the deaths of K4 in tests/faults/test_killed_resets.py, K13 and K19 in
tests/workers/test_reset_endings.py and tests/orchestrator/test_entering.py, L8 in tests/integration. Without a
counterpart here: K3 and L4 (nothing is reserved: a claim opens the turn), K15 (there is no configuration to restore),
L2 and L5 (turns are fields of one record), L6 (nothing is abandoned by a restart: state is in Redis), L10 (stalls are
shown by `explain`, and change nothing), L11 (there are no tasks beside sessions).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import CancelConflict, ResetInProgress
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import begun as evaluation
from tests.scripts.flow import in_step, of_type
from tests.scripts.resetting import begun, ended, outcome
from tests.scripts.scene import COUNTED, Scene, unchanged

if TYPE_CHECKING:
    from coordinator.services import Kernel

REAL = pytest.mark.parametrize("backend_kind", ["bundled", "debian"], indirect=True)


@pytest.fixture(params=["fake", "bundled", "debian"])
def backend_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_session_that_never_ran_is_reset_without_a_provider(kernel: Kernel) -> None:
    """K1: a success that calls nobody; the later start happens once."""
    scene = await Scene(kernel).opened()
    assert await begun(scene) == "committed"
    await scene.sent()
    await scene.booted()
    assert (await scene.claimed()).verdict is Verdict.OK
    assert (await scene.types()).count("agent.boot_ready") == 1


async def test_an_active_turn_is_stopped_then_the_provider_is_called(kernel: Kernel) -> None:
    """K2: stop, end, call, state, marker off, in this order; the successor's generation is higher."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await begun(scene)
    await scene.finished(ownership, "cancelled")
    assert (await scene.view()).phase == "maintenance"
    assert await ended(scene)
    kinds = [kind for kind in await scene.types() if kind.startswith(("reset", "cancel", "turn.ended"))]
    assert kinds == ["reset.started", "cancel.requested", "turn.ended", "cancel.settled", "reset.committed"]
    view = await scene.view()
    assert (view.resume_token, view.reset_pending) == ("fresh", False)
    await scene.settled()
    assert (await scene.prompted("next")).generation > ownership.generation


@pytest.mark.parametrize("how", ["escalated", "lost", "interrupted"])
async def test_a_stop_that_nobody_confirms_calls_nobody(kernel: Kernel, how: str) -> None:
    """K4: no call of the provider, no prompt, a visible failure, and an idle session."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await begun(scene)
    if how == "interrupted":
        await scene.finished(ownership, "interrupted")
    else:
        await scene.expired("cancel" if how == "escalated" else "lease")
    view = await scene.view()
    assert (view.phase, view.reset_outcome, view.resume_token) == ("idle", "failed", "resume-1")
    assert (await of_type(scene, "reset.failed"))[0]["why"] == "the stop was not confirmed"


@pytest.mark.parametrize("kind", ["user", "silent", "parent"])
async def test_a_reset_inherits_no_stop(kernel: Kernel, kind: str) -> None:
    """K5: a conflict, with nothing written and nobody called."""
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await kernel.stops.cancel(scene.sid, kind=kind)  # type: ignore[arg-type]
    guard = await kernel.guards.acquire(scene.sid, "resetter")
    async with unchanged(kernel):
        with pytest.raises(CancelConflict):
            await kernel.resets.begin(scene.sid, "r", guard.number)


async def test_a_prompt_during_a_reset_is_told_of_the_reset(kernel: Kernel) -> None:
    """K7: and no other refusal goes before it."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await begun(scene)
    async with unchanged(kernel):
        with pytest.raises(ResetInProgress, match=r"\(r\)"):
            await kernel.stops.put_direct(scene.sid, "now", wait=30)


async def test_a_ready_waits_for_the_marker_to_go(kernel: Kernel) -> None:
    """K8: during it nothing is settled or acknowledged; afterwards all is as ever. A boot ends nothing at any time."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await begun(scene)
    await scene.finished(ownership, "cancelled")
    await scene.delivered()
    entry, event = (await scene.readies())[-1]
    async with unchanged(kernel):
        assert (await kernel.settlements.settle(event, entry)).verdict is Verdict.RESETTING
        await kernel.executions.boot(scene.sid, "e1", "")
    assert entry in await scene.delivered()
    await ended(scene)
    assert (await kernel.settlements.settle(event, entry)).detail == "none"


async def test_a_reset_completes_no_step_and_says_nothing(kernel: Kernel) -> None:
    """K9: the turn that it stopped is not evaluated, whatever the step asks for; the log names no user."""
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await begun(scene)
    await scene.finished(ownership, "cancelled")
    await ended(scene)
    await scene.delivered()
    assert (await evaluation(scene))[1].evaluates == "none"
    assert await of_type(scene, "turn.cancelled_by_user") == []


async def test_without_a_runtime_the_token_is_dropped(kernel: Kernel) -> None:
    """K14: the next execution resumes nothing."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.settled()
    await kernel.executions.release(scene.sid, "e1")
    assert (await scene.view()).resume_token == "resume-1"
    assert await begun(scene) == "committed"
    assert (await scene.view()).resume_token == ""


async def test_the_completion_of_the_replaced_turn_is_late(kernel: Kernel) -> None:
    """K16, L9b: after the successor has begun it changes nothing but a counter and a line of the log."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await begun(scene)
    await scene.expired("cancel")
    await scene.settled()
    await scene.sent("next")
    await scene.booted("e2")
    await scene.claimed("next")
    async with unchanged(kernel, COUNTED):
        assert (await scene.finished(ownership, "completed")).verdict is Verdict.STALE


async def test_a_turn_starts_once_and_ends_once(kernel: Kernel) -> None:
    """L1, L9a: repeats get the first answer; what an ended prompt says is refused."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    first = await scene.finished(ownership)
    async with unchanged(kernel):
        assert (await scene.finished(ownership)).verdict is first.verdict
        assert not await kernel.turns.output(scene.sid, ownership, 9, "late")
    assert (await scene.types()).count("turn.started") == (await scene.types()).count("turn.ended") == 1


@REAL
async def test_a_reset_meets_a_claim_a_message_and_a_stop(kernel: Kernel) -> None:
    """K2, K5, K7, concurrently: no prompt is open that the reset does not stop, and the session goes on."""
    for number in range(40):
        scene = await Scene(kernel, f"s{number}").opened()
        await scene.sent("first")
        await scene.booted()
        guard = await kernel.guards.acquire(scene.sid, "resetter")
        found = await asyncio.gather(
            kernel.resets.begin(scene.sid, "r", guard.number),
            scene.claimed("racing"),
            kernel.inbox.send(scene.sid, "second"),
            kernel.stops.cancel(scene.sid),
            kernel.guards.release(scene.sid, "resetter", guard.number),
            return_exceptions=True,
        )
        view = await scene.view()
        if view.reset_pending and view.open_turn:
            assert view.cancel_kind == "system"
            claim = found[1]
            assert not isinstance(claim, BaseException)
            assert claim.ownership
            await scene.finished(claim.ownership, "cancelled")
        if (await scene.view()).reset_pending:
            assert await ended(scene)
            assert (await outcome(scene))[0] == "committed"
        view = await scene.view()
        assert not view.reset_pending
        awake = [one for one in view.inbox.next_turn if one.awake]
        assert view.status == "running" or not awake, (found, view)


@REAL
async def test_a_report_meets_the_deadline_and_a_close(kernel: Kernel) -> None:
    """K10, K12, concurrently: one end of the reset, which the report's answer tells truly."""
    for number in range(40):
        scene = await Scene(kernel, f"s{number}").opened()
        await scene.finished(await scene.prompted())
        await scene.settled()
        await begun(scene)
        score = await scene.make_due("reset")
        counted, *_ = await asyncio.gather(
            ended(scene), kernel.deadlines.expire("reset", scene.sid, score), kernel.sessions.close(scene.sid)
        )
        ends = await of_type(scene, "reset.committed", "reset.failed")
        assert [one["type"] for one in ends] == ["reset.committed" if counted else "reset.failed"]
        assert (await scene.view()).lifecycle == "closed"
