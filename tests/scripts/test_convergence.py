"""Wakes that come while a stop converges: which run, which wait, and what the log shows of it (section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import OFFERS, Scene, unchanged
from tests.scripts.states import brought, owned

if TYPE_CHECKING:
    from coordinator.services import Kernel

ENDS = ["cancelled", "completed", "error", "escalated", "lost"]


async def ended(scene: Scene, how: str) -> None:
    """The open prompt's end, in one of the ways."""
    if how == "escalated":
        await scene.expired("cancel")
    elif how == "lost":
        await scene.expired("lease")
    else:
        await scene.finished(await owned(scene), how, error="boom")
    scene.token = (await scene.view()).activity


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("keep", [True, False])
async def test_a_wake_after_the_stop_restarts_by_a_visible_pair(kernel: Kernel, keep: bool, how: str) -> None:
    """The latch is derived: idle and running both logged, a new token; the queue before the stop goes first if kept."""
    scene = await brought(kernel, "accepted")
    token = scene.token
    await kernel.stops.cancel(scene.sid, keep_inbox=keep)
    receipt = await kernel.inbox.send(scene.sid, "wake", list="next-step")
    assert receipt.placement == "latched"
    assert (await scene.view()).inbox.next_turn[-1].body == "wake"
    await ended(scene, how)
    assert (await scene.types())[-2:] == ["idle", "running"]
    view = await scene.view()
    assert (view.activity != token, view.cancel_pending, view.last_reason) == (
        True, False, "escalated" if how in {"escalated", "lost"} else how,
    )  # fmt: skip
    assert await scene.pending() == (["queued", "wake"] if keep else ["wake"])


@pytest.mark.parametrize("how", ENDS)
async def test_without_a_wake_it_stays_idle_whatever_the_end(kernel: Kernel, how: str) -> None:
    """F4, stop means stop: also for a turn that completed by itself, and for a quiet message sent in between."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    await scene.sent("quiet", wake=False)
    await ended(scene, how)
    assert ((await scene.view()).status, await scene.pending()) == ("idle", ["queued", "quiet"])


async def test_a_second_stop_parks_the_wake_before_it_and_not_the_one_after(kernel: Kernel) -> None:
    """Section 5.5: although it only joins."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    await scene.sent("between")
    await kernel.stops.cancel(scene.sid)
    assert not any(entry.awake for entry in (await scene.view()).inbox.next_turn)
    await scene.sent("after")
    await ended(scene, "cancelled")
    assert (await scene.view()).status == "running"
    assert [entry.awake for entry in (await scene.view()).inbox.next_turn] == [False, False, True]


@pytest.mark.parametrize("first", ["user", "parent"])
async def test_a_silent_one_never_moves_the_mark_also_when_it_joins(kernel: Kernel, first: Any) -> None:
    """F2: the wake that came between the two runs."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind=first)
    mark = (await scene.view()).park_mark
    await scene.sent("between")
    await kernel.stops.cancel(scene.sid, kind="silent")
    assert ((await scene.view()).park_mark, (await scene.view()).cancel_kind) == (mark, first)
    await ended(scene, "cancelled")
    assert (await scene.view()).status == "running"


async def test_a_wake_that_is_removed_again_leaves_no_latch(kernel: Kernel) -> None:
    """It can't outlive its message: idle, no empty turn."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    wake = await scene.sent("wake")
    await kernel.inbox.remove(scene.sid, wake)
    await ended(scene, "cancelled")
    assert (await scene.types())[-1] == "idle"


async def test_one_removed_after_the_restart_gives_the_empty_turn(kernel: Kernel) -> None:
    """Section 5.1: numbered, ended at once, no generation and no ready; what was parked stays parked."""
    scene = await brought(kernel, "accepted", settlement="none")
    await kernel.stops.cancel(scene.sid, keep_inbox=False)
    wake = await scene.sent("wake")
    await ended(scene, "cancelled")
    await kernel.inbox.remove(scene.sid, wake)
    assert (await scene.claimed("empty")).verdict is Verdict.EMPTY
    assert (await scene.types())[-3:] == ["turn.started", "turn.ended", "idle"]
    assert ((await scene.view()).generation, len(await scene.readies())) == (1, 1)


async def test_a_new_turn_inherits_no_abort(kernel: Kernel) -> None:
    """Section 5.5: nothing of the operation is left when the next prompt opens."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    await scene.sent("wake")
    await ended(scene, "cancelled")
    await scene.settled()
    claim = await scene.claimed("next")
    assert (claim.abort, (await scene.view()).cancel_kind) == ("", "")
    assert await scene.renewed(claim="next") == "held"
    await scene.finished(await owned(scene))
    assert (await scene.readies())[-1][1].cancel_kind == ""


async def test_the_wake_of_a_closing_session_is_parked_and_discarded(kernel: Kernel) -> None:
    """A close never latches."""
    scene = await brought(kernel, "closing")
    assert (await kernel.inbox.send(scene.sid, "wake")).placement == "parked"
    await ended(scene, "cancelled")
    assert ((await scene.view()).lifecycle, await scene.pending()) == ("closed", [])
    assert "running" not in (await scene.types())[-3:]


async def test_a_repeated_wake_does_not_undo_the_stop(kernel: Kernel) -> None:
    """F9: its first call came before the stop; a repeat starts nothing and moves nothing."""
    scene = await brought(kernel, "accepted")
    message = await scene.sent("wake")
    await kernel.stops.cancel(scene.sid)
    for _ in range(2):
        async with unchanged(kernel, OFFERS):
            assert (await kernel.inbox.send(scene.sid, "wake", message_id=message)).duplicate
        if (await scene.view()).open_turn:
            await ended(scene, "cancelled")
    assert (await scene.view()).status == "idle"
