"""How a context reset ends: by its worker's report, or by whatever dies; never as a success that nobody confirmed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import of_type
from tests.scripts.resetting import PHASES, begun, ended, outcome, quiesced, resetting
from tests.scripts.scene import OFFERS, Scene, heard, unchanged
from tests.scripts.states import brought, owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel

BROKEN = ["expired", "lost", "called", "not called"]
"""Ends without success, once the worker has the session."""


async def broken(scene: Scene, how: str) -> None:
    if how == "expired":
        assert await scene.expired("reset") == "OK"
    elif how == "lost":
        assert await scene.expired("lease") == "OK"
    else:
        assert await ended(scene, committed=False, called=how == "called")


async def nothing_more(scene: Scene) -> None:
    """Whatever its worker reports now, or a sweeper finds, has no effect."""
    async with unchanged(scene.kernel, OFFERS):
        assert not await ended(scene)
        assert not await ended(scene, execution="e9")
        assert (await scene.kernel.deadlines.expire("reset", scene.sid, "1")).verdict is Verdict.NOT_DUE


async def test_a_commit_keeps_the_execution_with_its_fresh_resume_token_and_runs_what_waited(kernel: Kernel) -> None:
    """Marker off, record, log and exit decision in one script; the live execution is told, no placement offered."""
    scene = await quiesced(kernel)
    async with heard(kernel, kernel.store.keys.control("w1")) as so_far:
        assert await ended(scene)
        assert [text for _, text in await so_far()] == ["run s after"]
    view = await scene.view()
    assert (view.resume_token, view.execution_id, view.status, view.activity) == ("fresh", "e1", "running", "after")
    assert (view.reset_pending, view.reset_id, view.reset_outcome, view.park_mark) == (False, "r", "committed", 0)
    assert (await of_type(scene, "reset.committed")) == [{"type": "reset.committed", "reset_id": "r", "why": ""}]
    assert (await scene.types())[-2:] == ["reset.committed", "running"]
    assert "reset" not in await scene.deadlines()
    async with unchanged(kernel, OFFERS):
        assert await ended(scene)
        assert not await ended(scene, committed=False)
        assert not await ended(scene, execution="e9")
        assert not await kernel.resets.end(scene.sid, "e1", "r0", committed=True)
    await scene.settled()
    assert [message.body for message in (await scene.claimed()).messages] == ["queued"]


async def test_a_commit_with_nothing_awake_stays_idle(kernel: Kernel) -> None:
    """No turn of its own; the session is kept for its retention."""
    scene = await quiesced(kernel)
    await kernel.inbox.clear(scene.sid)
    await scene.sent("quiet", wake=False)
    assert await ended(scene)
    assert ((await scene.view()).status, (await scene.view()).execution_id) == ("idle", "e1")
    assert set(await scene.deadlines()) == {"lease", "settlement", "retention"}


@pytest.mark.parametrize("how", BROKEN)
async def test_a_failure_parks_and_only_one_before_the_call_keeps_the_execution(kernel: Kernel, how: str) -> None:
    """Section 8: nobody knows the context of an agent that was called, so the next one resumes from the old token."""
    scene = await quiesced(kernel)
    await scene.sent("meanwhile")
    await broken(scene, how)
    view = await scene.view()
    kept = how == "not called"
    assert (view.phase, view.status, view.resume_token) == ("idle", "idle", "resume-1")
    assert (view.execution_id, view.suspects) == (("e1", ()) if kept else ("", ("e1",)))
    assert (view.park_mark, [entry.awake for entry in view.inbox.next_turn]) == (view.sequence, [False, False])
    (failed,) = await of_type(scene, "reset.failed")
    why = {"expired": "not answered in time", "lost": "its worker is gone"}.get(how, "boom")
    assert (failed["why"], await outcome(scene)) == (why, ("failed", why))
    assert "reset" not in await scene.deadlines()
    await nothing_more(scene)
    await scene.sent("wake")
    assert (await scene.view()).status == "running"


async def test_a_report_of_failure_is_repeated_by_its_own_worker_only(kernel: Kernel) -> None:
    """The same again, and not for one that the deadline has ended: its execution is not used again."""
    scene = await quiesced(kernel)
    assert await ended(scene, committed=False)
    async with unchanged(kernel):
        assert await ended(scene, committed=False)
        assert not await ended(scene, committed=False, execution="e2")
    await kernel.store.redis.flushall()
    scene = await quiesced(kernel)
    assert await scene.expired("reset") == "OK"
    async with unchanged(kernel):
        assert not await ended(scene, committed=False)


async def test_an_earlier_report_of_the_same_worker_makes_no_later_one_a_repeat(kernel: Kernel) -> None:
    """The deadline ended this one."""
    scene = await resetting(kernel, "called")
    assert await ended(scene, committed=False, called=False)
    assert await begun(scene, "r2") == "running"
    assert await scene.expired("reset") == "OK"
    async with unchanged(kernel):
        assert not await kernel.resets.end(scene.sid, "e1", "r2", committed=False, why="late")


@pytest.mark.parametrize("phase", ["open", "called", "starting"])
async def test_only_the_worker_that_has_the_session_may_report(kernel: Kernel, phase: str) -> None:
    """Not before the prompt has ended, not another execution, not of another reset."""
    scene = await resetting(kernel, phase)
    async with unchanged(kernel):
        assert not await ended(scene, execution="e9")
        assert not await kernel.resets.end(scene.sid, "e1", "r9", committed=True)
        if phase == "open":
            assert not await ended(scene)


async def test_the_deadline_while_the_prompt_unwinds_leaves_that_to_its_stop(kernel: Kernel) -> None:
    """It has failed, and parks; the operation goes on, and its end is an ordinary one."""
    scene = await resetting(kernel, "open")
    assert await scene.expired("reset") == "OK"
    view = await scene.view()
    assert (view.open_turn, view.cancel_kind, view.reset_outcome, view.suspects) == (1, "system", "failed", ())
    assert (view.phase, view.activity, view.park_mark) == ("running", scene.token, view.sequence)
    assert "cancel" in await scene.deadlines()
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.GONE
    view = await scene.view()
    assert (view.phase, view.execution_id, await scene.pending()) == ("idle", "e1", ["queued"])
    await nothing_more(scene)


async def test_a_message_after_the_deadline_runs_when_the_stop_is_over(kernel: Kernel) -> None:
    """It lies above the mark that the failure raised."""
    scene = await resetting(kernel, "open")
    await scene.expired("reset")
    await scene.sent("after")
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.RESTARTED


@pytest.mark.parametrize("how", ["cancel", "escalate", "lease", "acceptance", "interrupted"])
async def test_a_stop_that_nobody_confirmed_fails_it(kernel: Kernel, how: str) -> None:
    """Stricter than the seed: the agent may still act, so its context is not replaced beside it."""
    scene = await brought(kernel, "unaccepted")
    await begun(scene)
    if how == "escalate":
        assert await kernel.stops.escalate(scene.sid, await owned(scene), "it can't")
    elif how == "interrupted":
        assert (await scene.finished(await owned(scene), "interrupted")).verdict is Verdict.GONE
    else:
        assert await scene.expired(how) == "OK"
    view = await scene.view()
    assert (view.phase, view.last_reason, view.cancel_outcome) == ("idle", "escalated", "escalated")
    assert (view.suspects, view.execution_id, view.reset_outcome) == (("e1",), "", "failed")
    assert view.park_mark == view.sequence
    assert (await outcome(scene))[1] == "the stop was not confirmed"
    assert not {"reset", "cancel", "acceptance", "lease"} & set(await scene.deadlines())
    await nothing_more(scene)
    assert await begun(scene, "r2") == "failed", "as long as the suspect is there"
    await kernel.executions.release(scene.sid, "e1")
    assert await begun(scene, "r3") == "committed"


@pytest.mark.parametrize("how", ["start", "lease", "reset"])
async def test_a_start_that_does_not_end_fails_it(kernel: Kernel, how: str) -> None:
    """Its worker was to let the start end first."""
    scene = await resetting(kernel, "starting")
    assert await scene.expired(how) == "OK"
    view = await scene.view()
    assert (view.phase, view.suspects, view.reset_outcome) == ("idle", ("e1",), "failed")
    assert (view.park_mark, set(await scene.deadlines())) == (view.sequence, {"suspect", "retention"})
    await nothing_more(scene)


@pytest.mark.parametrize("phase", ["called", "starting"])
async def test_an_execution_that_its_worker_gives_up_needs_no_reset(kernel: Kernel, phase: str) -> None:
    """Nothing is there to be called: the next execution begins without a resume token."""
    scene = await resetting(kernel, phase)
    assert await kernel.executions.release(scene.sid, "e1")
    view = await scene.view()
    assert (view.resume_token, view.reset_outcome, view.status) == ("", "committed", "running")
    assert view.suspects == ()
    async with unchanged(kernel):
        assert not await ended(scene)
        assert await kernel.executions.release(scene.sid, "e1")


async def test_a_suspect_s_release_does_not_end_it(kernel: Kernel) -> None:
    """It is about another execution."""
    scene = await resetting(kernel, "called")
    await kernel.store.redis.sadd(scene.keys["suspects"], "e0")  # type: ignore[misc]
    assert await kernel.executions.release(scene.sid, "e0")
    assert (await scene.view()).reset_pending


@pytest.mark.parametrize("phase", PHASES)
async def test_a_close_fails_it(kernel: Kernel, phase: str) -> None:
    """The worker may be in the call: its execution is void, and the session closed at once; an open prompt unwinds."""
    scene = await resetting(kernel, phase)
    lifecycle = await kernel.sessions.close(scene.sid, "close")
    view = await scene.view()
    assert (view.reset_pending, view.reset_outcome) == (False, "failed")
    assert (await outcome(scene))[1] == "the session is closed"
    await nothing_more(scene)
    if phase == "open":
        assert (lifecycle, view.cancel_kind, view.cancel_id) == ("closing", "close", "r")
        await scene.finished(await owned(scene), "cancelled")
        assert ((await scene.view()).lifecycle, (await scene.view()).phase) == ("closed", "idle")
    else:
        assert (lifecycle, view.phase, view.suspects) == ("closed", "idle", ("e1",))
        assert set(await scene.deadlines()) == {"suspect", "retention"}
        assert await scene.renewed() == "superseded"


async def test_a_deadline_without_a_reset_is_only_taken_away(kernel: Kernel) -> None:
    """GONE."""
    scene = await Scene(kernel).opened()
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"reset:s": 1})
    async with unchanged(kernel, {"*:deadlines"}):
        assert (await kernel.deadlines.expire("reset", scene.sid, "1")).verdict is Verdict.GONE
    assert set(await scene.deadlines()) == {"retention"}
    assert "reset_last" not in await record(scene)


@pytest.mark.parametrize("stop", ["cancel", "replace", "reset", "direct"])
async def test_a_stop_that_meets_the_deadline_applies_it_first(kernel: Kernel, stop: str) -> None:
    """Section 4: as a sweep would; the stop then acts on what is there."""
    scene = await quiesced(kernel)
    await kernel.deadlines.sweep(kernel.store.keys.partition_of(scene.sid))
    await scene.make_due("reset")
    if stop == "cancel":
        assert (await kernel.stops.cancel(scene.sid)).outcome == "idle"
    elif stop == "reset":
        assert await begun(scene, "r2") == "failed"
    elif stop == "replace":
        assert (await kernel.stops.put_first(scene.sid, "next", kind="replace")).placement == "started"
    else:
        assert (await kernel.stops.put_direct(scene.sid, "next", wait=30)).placement == "latched"
    assert await outcome(scene) == ("failed", "not answered in time")
