"""A context reset begins: what it stops, what it waits for, and what refuses it (section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import (
    CancelConflict,
    ConflictingRepeat,
    GuardLost,
    ResetInProgress,
    SessionBusy,
    SessionClosed,
    SessionUnknown,
    Superseded,
    UsageError,
)
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import entered, entries, of_type, on_workflow
from tests.scripts.resetting import PHASES, begun, ended, outcome, quiesced, resetting
from tests.scripts.scene import OFFERS, Scene, heard, unchanged
from tests.scripts.states import brought, owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def test_an_open_prompt_is_stopped_and_its_own_end_gives_the_session_to_the_worker(kernel: Kernel) -> None:
    """The exclusive operation of kind system, for exactly this prompt; the finish makes the phase, and tells."""
    scene = await brought(kernel, "accepted")
    control = kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        assert await begun(scene) == "running"
        view = await scene.view()
        assert (view.phase, view.cancel_id, view.cancel_kind, view.reset_pending) == ("running", "r", "system", True)
        assert await so_far() == [(control, f"abort s 1 {scene.token} system")]
        assert await scene.renewed(claim="c1") == "abort"
        assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.GONE
        assert (await so_far())[-1] == (control, "reset s r")
    view = await scene.view()
    assert (view.phase, view.status, view.activity, view.waiting_for) == ("maintenance", "idle", "r", "reset")
    assert (view.cancel_outcome, view.last_reason, view.unsettled_turn) == ("cancelled", "cancelled", 1)
    assert {"reset", "lease"} <= set(await scene.deadlines())
    assert not {"cancel", "retention"} & set(await scene.deadlines())
    assert await scene.renewed() == "reset"


@pytest.mark.parametrize("reason", ["completed", "error", "blocked", "max_tokens"])
async def test_whatever_the_driver_reports_confirms_the_stop(kernel: Kernel, reason: str) -> None:
    """A completion that crossed the stop too: the agent is quiet, and the queue does not go on."""
    scene = await resetting(kernel, "open")
    assert (await scene.finished(await owned(scene), reason, error="x")).verdict is Verdict.GONE
    view = await scene.view()
    assert (view.phase, view.park_mark, view.cancel_outcome) == ("maintenance", 0, "completed")
    assert await scene.pending() == ["queued"]


@pytest.mark.parametrize("state", ["ready", "guarded", "unsettled"])
async def test_with_nothing_open_the_worker_has_it_at_once(kernel: Kernel, state: str) -> None:
    """The activity ends, whatever its driver waits for; its claim is superseded."""
    scene = await brought(kernel, state)
    if state == "guarded":
        await kernel.guards.release(scene.sid, "somebody", 1)
    assert await begun(scene) == "running"
    view = await scene.view()
    assert (view.phase, view.activity, view.cancel_pending, view.execution_status) == (
        "maintenance",
        "r",
        False,
        "ready",
    )
    assert (await scene.types())[-1] == "idle"
    async with unchanged(kernel):
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
    assert "placement" not in await scene.deadlines()


async def test_an_agent_that_starts_is_let_start_and_then_reset(kernel: Kernel) -> None:
    """A start counts as live: no word of a reset before it is up."""
    scene = await resetting(kernel, "starting")
    assert ((await scene.view()).phase, await scene.renewed()) == ("maintenance", "held")
    assert await kernel.executions.boot(scene.sid, "e1", "booted")
    assert await scene.renewed() == "reset"
    assert await ended(scene)
    assert ((await scene.view()).resume_token, (await scene.view()).status) == ("fresh", "running")


@pytest.mark.parametrize("state", ["idle", "reserved"])
async def test_without_an_execution_it_is_committed_at_once_and_the_resume_token_dropped(
    kernel: Kernel, state: str
) -> None:
    """Nobody to call; what was awake runs in the fresh context, under a new activity."""
    scene = await brought(kernel, state)
    await kernel.store.redis.hset(scene.keys["session"], "resume_token", "old")  # type: ignore[misc]
    assert await begun(scene) == "committed"
    view = await scene.view()
    assert (view.resume_token, view.reset_pending, view.reset_outcome) == ("", False, "committed")
    assert [entry["type"] for entry in await of_type(scene, "reset.started", "reset.committed")] == [
        "reset.started", "reset.committed",
    ]  # fmt: skip
    assert view.status == ("idle" if state == "idle" else "running")
    assert (view.activity != scene.token) is (state == "reserved")
    assert "reset" not in await scene.deadlines()
    assert (await scene.deadlines()).keys() >= ({"retention"} if state == "idle" else {"placement"})


@pytest.mark.parametrize("how", ["a suspect", "an expired lease"])
async def test_an_execution_whose_end_nobody_confirmed_fails_it_at_once(kernel: Kernel, how: str) -> None:
    """A fenced agent can still act outside Redis: a reset must not run beside it. What is queued is parked."""
    scene = await brought(kernel, "ready")
    if how == "a suspect":
        await kernel.store.redis.sadd(scene.keys["suspects"], "e0")  # type: ignore[misc]
    else:
        await scene.swept()
        await scene.make_due("lease")
    assert await begun(scene) == "failed"
    view = await scene.view()
    assert (view.status, view.park_mark, view.reset_outcome) == ("idle", view.sequence, "failed")
    assert view.execution_id == ("e1" if how == "a suspect" else "")
    assert (await outcome(scene))[1] == "an execution may still be alive"


async def test_beside_a_suspect_it_stops_nothing_before_it_fails(kernel: Kernel) -> None:
    """The turn goes on, and completes."""
    scene = await brought(kernel, "accepted")
    await kernel.store.redis.sadd(scene.keys["suspects"], "e0")  # type: ignore[misc]
    assert await begun(scene) == "failed"
    view = await scene.view()
    assert (view.open_turn, view.cancel_pending, view.park_mark) == (1, False, view.sequence)
    assert (await scene.finished(await owned(scene))).verdict is Verdict.GO_ON


@pytest.mark.parametrize("phase", PHASES)
async def test_a_repeat_joins_it_without_a_guard_and_another_is_refused(kernel: Kernel, phase: str) -> None:
    """The id is the reset; a second one waits for nobody."""
    scene = await resetting(kernel, phase)
    async with unchanged(kernel):
        assert await kernel.resets.begin(scene.sid, "r", 0) == "running"
        assert await outcome(scene) == ("running", "")
    guard = await kernel.guards.acquire(scene.sid, "other")
    async with unchanged(kernel):
        with pytest.raises(ResetInProgress, match=r"\(r\)"):
            await kernel.resets.begin(scene.sid, "r2", guard.number)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_repeat_after_its_end_answers_how_it_ended_and_begins_nothing(kernel: Kernel, committed: bool) -> None:
    """Also when the session is closed by then."""
    scene = await quiesced(kernel)
    assert await ended(scene, committed=committed)
    expected = "committed" if committed else "failed"
    await kernel.sessions.close(scene.sid)
    async with unchanged(kernel, OFFERS):
        assert await kernel.resets.begin(scene.sid, "r", 0) == expected
    assert await outcome(scene) == (expected, "" if committed else "boom")


async def test_refusals_write_nothing(kernel: Kernel) -> None:
    """No session, no guard, another's guard, a pending stop, a maintenance job, a closed session."""
    with pytest.raises(SessionUnknown):
        await kernel.resets.begin("nobody", "r", 0)
    with pytest.raises(SessionUnknown):
        await kernel.resets.state("nobody", "r")
    scene = await brought(kernel, "accepted")
    guard = await kernel.guards.acquire(scene.sid, "resetter")
    async with unchanged(kernel):
        for number in (0, guard.number + 1):
            with pytest.raises(GuardLost):
                await kernel.resets.begin(scene.sid, "r", number)
        with pytest.raises(Superseded):
            await kernel.resets.begin(scene.sid, "r", guard.number, entry_id="n-other")
        with pytest.raises(UsageError):
            await outcome(scene)
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(CancelConflict, match=r"\(user\)"):
            await kernel.resets.begin(scene.sid, "r", guard.number)
    await kernel.store.redis.flushall()
    scene = await brought(kernel, "maintenance")
    guard = await kernel.guards.acquire(scene.sid, "resetter")
    async with unchanged(kernel):
        with pytest.raises(SessionBusy, match="maintenance"):
            await kernel.resets.begin(scene.sid, "r", guard.number)
    for close in ("closing", "closed"):
        await kernel.store.redis.flushall()
        scene = await brought(kernel, close)
        guard = await kernel.guards.acquire(scene.sid, "resetter")
        async with unchanged(kernel):
            with pytest.raises(SessionClosed):
                await kernel.resets.begin(scene.sid, "r", guard.number)


@pytest.mark.parametrize("kind", ["cancel", "acceptance", "maintenance"])
async def test_what_is_over_when_it_comes_is_applied_first(kernel: Kernel, kind: str) -> None:
    """Section 4: a stop not acknowledged leaves a suspect, so the reset fails; an ended job is in no way."""
    scene = await brought(kernel, {"cancel": "accepted", "acceptance": "unaccepted"}.get(kind, kind))
    if kind == "cancel":
        await kernel.stops.cancel(scene.sid, kind="silent")
    await kernel.deadlines.sweep(kernel.store.keys.partition_of(scene.sid))
    await scene.make_due(kind)
    assert await begun(scene) == ("committed" if kind == "maintenance" else "failed")
    assert not {kind, "reset"} & set(await scene.deadlines())


async def test_a_lease_that_is_over_ends_the_open_prompt_and_with_it_the_reset(kernel: Kernel) -> None:
    """Nobody is there to confirm the stop."""
    scene = await brought(kernel, "accepted")
    await kernel.deadlines.sweep(kernel.store.keys.partition_of(scene.sid))
    await scene.make_due("lease")
    assert await begun(scene) == "failed"
    view = await scene.view()
    assert (view.last_reason, view.cancel_outcome, view.status) == ("escalated", "escalated", "idle")


async def test_a_reset_for_an_entry_is_begun_only_while_that_is_under_way(kernel: Kernel) -> None:
    """Its end announces the entry again, so that any replica goes on from there."""
    scene = await on_workflow(kernel)
    event = (await entries(scene))[-1][1]
    assert await begun(scene, f"reset-{event.entry_id}", event.entry_id) == "committed"
    assert [one.entry_id for _, one in await entries(scene)] == [event.entry_id] * 2
    assert await begun(scene, "another") == "committed"
    assert len(await entries(scene)) == 2
    assert await entered(scene)
    guard = await kernel.guards.acquire(scene.sid, "late")
    async with unchanged(kernel):
        with pytest.raises(Superseded):
            await kernel.resets.begin(scene.sid, "r", guard.number, entry_id=event.entry_id)


@pytest.mark.parametrize("phase", PHASES)
async def test_the_marker_always_has_a_deadline(kernel: Kernel, phase: str) -> None:
    """Nothing leads to a state that nothing leads out of: above the cancel and the provider's reset."""
    scene = await resetting(kernel, phase)
    deadlines = await scene.deadlines()
    assert 29_000 < deadlines["reset"] - (await scene.view()).now_ms <= 30_000
    assert deadlines.get("cancel", 0) < deadlines["reset"]
    assert await scene.expired("reset") == "OK"
    assert "reset_id" not in await record(scene)


async def test_the_older_of_two_resets_is_in_the_log_and_never_begins_again(kernel: Kernel) -> None:
    """The record keeps one; a late packet of the first finds its receipt, and an id is of one operation."""
    scene = Scene(kernel)
    await scene.opened()
    assert [await begun(scene, one) for one in ("r", "r2")] == ["committed", "committed"]
    assert await outcome(scene) == ("committed", "no execution")
    await scene.sent(message_id="m")
    guard = await kernel.guards.acquire(scene.sid, "resetter")
    async with unchanged(kernel):
        assert await kernel.resets.begin(scene.sid, "r", guard.number) == "committed"
        with pytest.raises(ConflictingRepeat):
            await kernel.resets.begin(scene.sid, "m", guard.number)
