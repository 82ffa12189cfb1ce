"""What is put first in line: replacements, interrupts and direct prompts, each with its stop or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import (
    ConflictingRepeat,
    GuardLost,
    InboxFull,
    MessageNotPending,
    PredecessorPending,
    SessionClosed,
    SessionUnknown,
    TurnChanged,
)  # fmt: skip
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import OPEN, WAITING, brought, owned

if TYPE_CHECKING:
    from coordinator.services import Kernel

FIRST = ["replace", "parent", "direct"]


@pytest.mark.parametrize("kind", FIRST)
async def test_an_idle_session_starts_and_the_parked_queue_follows(kernel: Kernel, kind: str) -> None:
    """Model 66, 69: as any wake does; the mark is cleared by the claim."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    await scene.finished(await owned(scene), "cancelled")
    await scene.settled()
    receipt = await kernel.stops.put_first(scene.sid, "next", kind=kind)
    assert (receipt.placement, receipt.sequence) == ("started", 3)
    assert [(e.body, e.awake) for e in (await scene.view()).inbox.next_turn] == [("next", True), ("queued", False)]
    scene.token = (await scene.view()).activity
    assert [message.body for message in (await scene.claimed()).messages] == ["next"]
    assert (await scene.view()).park_mark == 0


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("state", WAITING)
async def test_where_a_driver_waits_only_an_interrupt_takes_its_activity(kernel: Kernel, state: str, kind: str) -> None:
    """Section 6: nothing is open; a replacement only goes first, an interrupt ends the activity and parks the queue."""
    scene = await brought(kernel, state)
    token = (await scene.view()).activity
    receipt = await kernel.stops.put_first(scene.sid, "next", kind=kind)
    view = await scene.view()
    assert await scene.pending() == ["next", "queued"]
    assert (view.status, view.cancel_pending) == ("running", False)
    if kind == "parent":
        assert (receipt.placement, view.activity != token) == ("started", True)
        assert (await scene.types())[-2:] == ["idle", "running"]
        assert [entry.awake for entry in view.inbox.next_turn] == [True, False]
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
    else:
        assert (receipt.placement, view.activity) == ("queued", token)


@pytest.mark.parametrize("kind", ["replace", "parent"])
@pytest.mark.parametrize("state", OPEN)
async def test_what_is_open_is_stopped_and_the_new_one_runs_first(kernel: Kernel, state: str, kind: str) -> None:
    """F2, F8: one script; replace leaves the queue awake, an interrupt parks it; the batch does not come back."""
    scene = await brought(kernel, state)
    receipt = await kernel.stops.put_first(scene.sid, "next", kind=kind, message_id="m", expected_generation=1)
    view = await scene.view()
    assert (receipt.placement, view.cancel_kind) == ("latched", kind)
    assert [entry.awake for entry in view.inbox.next_turn] == [True, kind == "replace"]
    assert await kernel.stops.outcome(scene.sid, "m") is None
    assert await scene.expired("lease") == "OK"
    assert await kernel.stops.outcome(scene.sid, "m") == "escalated"
    assert await scene.pending() == ["next", "queued"]
    await scene.settled()
    await scene.booted("e2", "w2")
    assert [message.body for message in (await scene.claimed()).messages] == ["next"]
    assert (await scene.types())[-1] != "inbox.returned"


@pytest.mark.parametrize("kind", FIRST)
async def test_a_maintenance_job_is_stopped_by_an_interrupt_only(kernel: Kernel, kind: str) -> None:
    """Section 6: the others only put their message first; all of them run when the job has ended."""
    scene = await brought(kernel, "maintenance")
    assert (await kernel.stops.put_first(scene.sid, "next", kind=kind)).placement == "latched"
    assert (await scene.view()).cancel_kind == ("parent" if kind == "parent" else "")
    assert await kernel.maintenance.extend(scene.sid, "job") == ("parent" if kind == "parent" else "")
    assert await kernel.maintenance.end(scene.sid, "job")
    view = await scene.view()
    assert (view.status, view.cancel_pending, await scene.pending()) == ("running", False, ["next", "queued"])


async def test_chosen_entries_go_first_in_the_order_of_the_call_and_awake(kernel: Kernel) -> None:
    """Seed 2: quiet and steering ones too; the queue keeps its order behind them."""
    scene = await brought(kernel, "accepted")
    quiet = await scene.sent("quiet", wake=False)
    steer = await scene.sent("steer", list="next-step", wake=False)
    receipt = await kernel.stops.put_first(scene.sid, kind="replace", chosen=[steer, quiet], message_id="o")
    view = await scene.view()
    assert [(e.body, e.awake) for e in view.inbox.next_turn] == [("steer", True), ("quiet", True), ("queued", True)]
    assert (view.inbox.next_step, view.cancel_kind, receipt.sequence) == ((), "replace", view.sequence)
    async with unchanged(kernel):
        assert (
            await kernel.stops.put_first(scene.sid, kind="replace", chosen=[steer, quiet], message_id="o")
        ).duplicate


@pytest.mark.parametrize("gone", ["nobody", "in flight", "removed"])
async def test_one_chosen_entry_that_is_not_pending_refuses_all(kernel: Kernel, gone: str) -> None:
    """All or nothing: nothing is moved and nothing stopped."""
    scene = await brought(kernel, "accepted")
    view = await scene.view()
    queued = view.inbox.next_turn[0].message_id
    other = view.inbox.in_flight[0].message_id if gone == "in flight" else await scene.sent("other")
    if gone != "in flight":
        await kernel.inbox.remove(scene.sid, other)
    async with unchanged(kernel):
        with pytest.raises(MessageNotPending, match=other):
            await kernel.stops.put_first(scene.sid, kind="replace", chosen=[queued, other])


@pytest.mark.parametrize("kind", FIRST)
async def test_refusals_write_nothing(kernel: Kernel, kind: str) -> None:
    """Expectation, guard, room, session, another text under the same id."""
    scene = await brought(kernel, "ready")
    await kernel.stops.put_first(scene.sid, "text", kind=kind, message_id="m")
    refusals: list[tuple[type[Exception], dict[str, Any]]] = [
        (TurnChanged, {"expected_turn": 3}),
        (TurnChanged, {"expected_generation": 1}),
        (GuardLost, {"guard_number": 9}),
        (ConflictingRepeat, {"message_id": "m"}),
    ]
    for error, options in refusals:
        async with unchanged(kernel):
            with pytest.raises(error):
                await kernel.stops.put_first(scene.sid, "other", kind=kind, **options)
    async with unchanged(kernel):
        with pytest.raises(SessionUnknown):
            await kernel.stops.put_first("nobody", "text", kind=kind)
        kernel.store._common["max_inbox"] = 1
        with pytest.raises(InboxFull):
            await kernel.stops.put_first(scene.sid, "text", kind=kind)
    await kernel.sessions.close(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(SessionClosed):
            await kernel.stops.put_first(scene.sid, "text", kind=kind)


async def direct(kernel: Kernel, state: str) -> tuple[Scene, int]:
    """A direct prompt in line, put there under a guard that is held; the guard's number."""
    scene = await brought(kernel, state)
    number = (await kernel.guards.acquire(scene.sid, "holder")).number
    await kernel.stops.put_direct(scene.sid, "direct", wait=30, message_id="d", guard_number=number)
    return scene, number


async def test_a_direct_prompt_passes_its_guard_and_settles_the_turn_before(kernel: Kernel) -> None:
    """Section 8: else claim, settle and the holder would wait for each other; the ready of turn 1 is stale then."""
    scene, _ = await direct(kernel, "unsettled")
    entry, ready = (await scene.readies())[-1]
    assert (await kernel.settlements.settle(ready, entry)).verdict is Verdict.GUARDED
    claim = await scene.claimed("mine")
    assert (claim.verdict, [message.body for message in claim.messages]) == (Verdict.OK, ["direct"])
    settled = [(e["turn"], e["outcome"]) for e in await scene.log() if e["type"] == "turn.settled"]
    assert settled == [("1", "superseded")]
    await kernel.guards.release(scene.sid, "holder", 1)
    assert (await kernel.settlements.settle(ready, entry)).verdict is Verdict.STALE


async def test_only_the_holder_s_own_prompt_passes(kernel: Kernel) -> None:
    """After the guard was lost and taken by another it waits like any, and so it does under a free guard."""
    scene, number = await direct(kernel, "unsettled")
    await kernel.guards.release(scene.sid, "holder", number)
    assert (await scene.claimed("x")).verdict is Verdict.UNSETTLED
    await kernel.guards.acquire(scene.sid, "another")
    async with unchanged(kernel):
        assert (await scene.claimed("x")).verdict is Verdict.GUARDED


async def test_one_direct_prompt_waits_at_a_time(kernel: Kernel) -> None:
    """Section 8: the second caller is told at once, by the name of the first."""
    scene, number = await direct(kernel, "ready")
    async with unchanged(kernel):
        with pytest.raises(PredecessorPending, match="'d'"):
            await kernel.stops.put_direct(scene.sid, "second", wait=30, guard_number=number)
    await scene.claimed()
    receipt = await kernel.stops.put_direct(scene.sid, "second", wait=30, guard_number=number)
    assert receipt.placement == "latched"


@pytest.mark.parametrize("stop", ["user", "parent", "interrupt", "broad silent", "close"])
async def test_a_stop_that_parks_or_clears_discards_the_one_that_waits(kernel: Kernel, stop: Any) -> None:
    """Section 8: visibly, since its caller waits for it; the others are parked."""
    scene, _ = await direct(kernel, "ready")
    if stop == "interrupt":
        await kernel.stops.put_first(scene.sid, "next", kind="parent")
    elif stop == "close":
        await kernel.sessions.close(scene.sid)
    elif stop == "broad silent":
        await kernel.stops.cancel(scene.sid, kind="silent", keep_inbox=False)
    else:
        await kernel.stops.cancel(scene.sid, kind=stop)
    discarded = {e["message_id"]: e["why"] for e in await scene.log() if e["type"] == "inbox.discarded"}
    assert discarded["d"] == ("closed" if stop == "close" else "cancelled")
    assert "direct" not in await scene.pending()


async def test_an_interrupt_may_choose_the_direct_prompt_that_waits(kernel: Kernel) -> None:
    """It goes first and is not discarded: found by the property tests as a script that broke off half-way."""
    scene, _ = await direct(kernel, "ready")
    await kernel.stops.put_first(scene.sid, kind="parent", chosen=["d"])
    assert await scene.pending() == ["direct", "queued"]


async def test_a_direct_prompt_waits_behind_a_stop_too(kernel: Kernel) -> None:
    """Kandev 2.9: a prompt's claim waits for the stop; it lies above the mark, so the stop's end runs it."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind="user")
    receipt = await kernel.stops.put_direct(scene.sid, "direct", wait=30)
    assert receipt.placement == "latched"
    assert (await scene.pending())[0] == "direct"
