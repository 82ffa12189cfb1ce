"""Closing: what is queued is discarded, nothing starts any more, and what is open ends as usual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import SessionBusy, SessionUnknown
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import COUNTED, Scene, unchanged

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel


async def closing(kernel: Kernel, *, accept: bool = True) -> tuple[Scene, Ownership]:
    """A session that was closed while its prompt is open and a message waits."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted(accept=accept)
    await scene.sent("queued")
    assert await kernel.sessions.close(scene.sid) == "closing"
    return scene, ownership


async def test_an_idle_session_is_closed_at_once_and_its_inbox_discarded(kernel: Kernel) -> None:
    """Wake-latch F88: next-step first, one discard each, then closed; the second time nothing happens."""
    scene = await Scene(kernel).opened()
    steers = [await scene.sent(f"{number}", list="next-step", wake=False) for number in (1, 2)]
    quiet = await scene.sent("3", wake=False)
    assert await kernel.sessions.close(scene.sid) == "closed"
    discards = [entry for entry in await scene.log() if entry["type"] == "inbox.discarded"]
    assert [(entry["message_id"], entry["why"]) for entry in discards] == [
        (message, "closed") for message in (*steers, quiet)
    ]
    assert (await scene.types())[-1] == "session.closed"
    assert set(await scene.deadlines()) == {"retention"}
    assert not await kernel.store.redis.exists(scene.keys["messages"], scene.keys["message_info"], scene.keys["awake"])
    assert not await kernel.store.redis.hexists(scene.keys["session"], "inbox_bytes")  # type: ignore[misc]
    async with unchanged(kernel):
        assert await kernel.sessions.close(scene.sid) == "closed"


async def test_an_unknown_session_can_not_be_closed(kernel: Kernel) -> None:
    """Nothing is minted from nothing."""
    async with unchanged(kernel):
        with pytest.raises(SessionUnknown):
            await kernel.sessions.close("nobody")


async def test_an_open_prompt_ends_as_usual_and_then_the_session_is_closed(kernel: Kernel) -> None:
    """Wake-latch E71, F16: closing, then closed by the end of what is open, which a close stops like any cancel."""
    scene, ownership = await closing(kernel)
    view = await scene.view()
    assert (view.lifecycle, view.status, await scene.pending()) == ("closing", "running", [])
    assert (view.cancel_pending, view.cancel_kind) == (True, "close")
    async with unchanged(kernel):
        assert await kernel.sessions.close(scene.sid) == "closing"
    assert await kernel.turns.output(scene.sid, ownership, 2, "still here")
    assert (await scene.finished(ownership)).verdict is Verdict.GONE
    assert (await scene.types())[-4:] == ["turn.ended", "cancel.settled", "idle", "session.closed"]
    assert (await scene.log())[-3]["outcome"] == "completed"
    view = await scene.view()
    assert (view.lifecycle, view.cancel_pending) == ("closed", False)
    await scene.settled()
    assert (await scene.view()).unsettled_turn == 0
    async with unchanged(kernel):
        assert (await scene.finished(ownership)).verdict is Verdict.GONE


@pytest.mark.parametrize("end", ["interrupted", "undelivered", "lease", "acceptance"])
async def test_messages_that_would_go_back_in_line_are_used_up_instead(kernel: Kernel, end: str) -> None:
    """F8, section 9: a close is a cancel, under which nothing goes back in line; every end closes, none restarts."""
    scene, ownership = await closing(kernel, accept=False)
    if end == "interrupted":
        assert (await scene.finished(ownership, "interrupted")).verdict is Verdict.GONE
    elif end == "undelivered":
        assert (await scene.finished(ownership, "error", undelivered=True)).verdict is Verdict.GONE
    else:
        assert await scene.expired(end) == "OK"
    view = await scene.view()
    assert (view.lifecycle, view.status, view.activity) == ("closed", "idle", "")
    assert (await scene.pending(), view.inbox.in_flight) == ([], ())
    assert "inbox.returned" not in await scene.types()
    assert view.last_reason == ("error" if end == "undelivered" else "escalated")
    assert ((await scene.types())[-1], view.cancel_pending) == ("session.closed", False)
    assert not await kernel.store.redis.exists(scene.keys["messages"], scene.keys["awake"])


@pytest.mark.parametrize("reason", ["completed", "max_tokens", "error", "blocked", "cancelled"])
async def test_no_end_of_a_closing_session_goes_on_with_what_was_sent_meanwhile(kernel: Kernel, reason: str) -> None:
    """Section 5.4, row 1, F15: sends meanwhile are parked, never start anything, and are discarded at the end."""
    scene, ownership = await closing(kernel)
    receipt = await kernel.inbox.send(scene.sid, "meanwhile")
    assert receipt.placement == "parked"
    async with unchanged(kernel):
        with pytest.raises(SessionBusy):
            await kernel.inbox.send(scene.sid, "meanwhile", on_busy="reject")
    assert (await scene.finished(ownership, reason)).verdict is Verdict.GONE
    discarded = [entry["message_id"] for entry in await scene.log() if entry["type"] == "inbox.discarded"]
    assert discarded[-1] == receipt.message_id
    assert (await scene.view()).lifecycle == "closed"


@pytest.mark.parametrize("state", ["reserved", "starting", "ready", "guarded", "unsettled"])
async def test_a_driver_that_waits_is_superseded_and_the_session_closed_at_once(kernel: Kernel, state: str) -> None:
    """Section 6: nothing is open, so nothing unwinds; the activity is dropped, not its execution."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    if state == "starting":
        scene.execution = "e1"
        await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    elif state != "reserved":
        await scene.booted()
    if state == "guarded":
        await kernel.guards.acquire(scene.sid, "somebody")
    elif state == "unsettled":
        ownership = (await scene.claimed()).ownership
        assert ownership
        await scene.sent("next")
        await scene.finished(ownership)
    assert await kernel.sessions.close(scene.sid) == "closed"
    assert (await scene.types())[-2:] == ["idle", "session.closed"]
    async with unchanged(kernel):
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.SUPERSEDED
        assert (await kernel.turns.retire(scene.sid, scene.token, "e1")).verdict is Verdict.SUPERSEDED
    if state not in {"reserved", "starting"}:
        assert (await scene.view()).execution_status == "ready"
    if state != "reserved":
        assert await scene.renewed(token="") == "release"
        assert await kernel.executions.release(scene.sid, "e1")
    if state == "unsettled":
        await scene.settled()
    assert set(await scene.deadlines()) == {"retention"}


async def test_a_closed_session_is_not_brought_back_by_any_event(kernel: Kernel) -> None:
    """L9: late completions, outputs, claims, placements, boots and settlements leave it closed."""
    scene, ownership = await closing(kernel)
    await scene.expired("lease")
    entry, event = (await scene.readies())[-1]
    await kernel.settlements.settle(event, entry)
    async with unchanged(kernel, COUNTED):
        assert (await scene.finished(ownership, number=9, text="late")).verdict is Verdict.STALE
        assert not await kernel.turns.output(scene.sid, ownership, 9, "late")
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
        assert not await kernel.executions.boot(scene.sid, "e1")
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.SUPERSEDED
    assert (await scene.view()).lifecycle == "closed"


async def test_the_last_execution_of_a_closed_session_ends_like_any_other(kernel: Kernel) -> None:
    """Its lease still runs out, and it is remembered as suspect until its worker reports it gone."""
    scene, ownership = await closing(kernel)
    await scene.finished(ownership)
    assert await scene.expired("lease") == "OK"
    view = await scene.view()
    assert (view.lifecycle, view.suspects, view.execution_id) == ("closed", ("e1",), "")
    assert await kernel.executions.release(scene.sid, "e1")
    assert (await scene.view()).suspects == ()
