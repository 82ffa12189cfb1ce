"""Deadlines that are over when a stop comes: applied first, as a sweep would, but not after an outage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import InboxFull, TurnChanged
from coordinator.domain.verdicts import Verdict
from tests.scripts.resetting import begun, resetting
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import brought, owned

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coordinator.services import Kernel

STOPS = ["cancel", "replace", "close"]


async def stopped(kernel: Kernel, scene: Scene, stop: str) -> None:
    if stop == "cancel":
        await kernel.stops.cancel(scene.sid, operation_id="second")
    elif stop == "replace":
        await kernel.stops.put_first(scene.sid, "instead", kind="replace", message_id="second")
    else:
        await kernel.sessions.close(scene.sid, "second")


@pytest.mark.parametrize("stop", STOPS)
async def test_an_operation_that_is_over_is_not_joined(kernel: Kernel, stop: str) -> None:
    """Its prompt has ended as escalated; the stop acts on what is there then."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind="system", operation_id="first")
    await scene.swept()
    await scene.make_due("cancel")
    await stopped(kernel, scene, stop)
    assert await kernel.stops.outcome(scene.sid, "first") == "escalated"
    view = await scene.view()
    assert (view.last_reason, view.cancel_pending) == ("escalated", False)
    assert (view.status, view.lifecycle) == {
        "cancel": ("idle", "open"), "replace": ("running", "open"), "close": ("idle", "closed"),
    }[stop]  # fmt: skip


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", ["cancel", "acceptance", "lease"])
async def test_after_an_outage_nothing_is_over_until_a_sweep_has_given_grace(
    kernel: Kernel, kind: str, stop: str
) -> None:
    """Section 4: nobody is declared dead for what Redis or the replicas missed."""
    scene = await brought(kernel, "unaccepted")
    await kernel.stops.cancel(scene.sid, kind="silent", operation_id="first")
    await scene.swept(ms_ago=3100)
    await scene.make_due(kind)
    if stop == "replace":
        async with unchanged(kernel):
            with pytest.raises(Exception, match="being stopped"):
                await stopped(kernel, scene, stop)
    else:
        await stopped(kernel, scene, stop)
    view = await scene.view()
    assert (view.open_turn, view.cancel_pending, view.suspects) == (1, True, ())


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("stop", STOPS)
async def test_a_stop_that_finds_the_lease_over_escalates_at_once(kernel: Kernel, stop: str, recorded: bool) -> None:
    """Section 6: the first one, one that joins, a replacement and a close alike: nobody is there to acknowledge."""
    scene = await brought(kernel, "accepted")
    if recorded and stop != "replace":
        await kernel.stops.cancel(scene.sid, kind="silent", operation_id="first")
    await scene.swept()
    await scene.make_due("lease")
    await stopped(kernel, scene, stop)
    ticket = "first" if recorded and stop != "replace" else "second"
    assert await kernel.stops.outcome(scene.sid, ticket) == "escalated"
    view = await scene.view()
    assert (view.open_turn, view.suspects, view.last_reason) == (0, ("e1",), "escalated")


@pytest.mark.parametrize("stop", STOPS)
async def test_other_deadlines_are_applied_first_too(kernel: Kernel, stop: str) -> None:
    """An acceptance puts back, a failed start parks, a job is over; none of them meets the later stop."""
    for state, kind in (("unaccepted", "acceptance"), ("starting", "start"), ("maintenance", "maintenance")):
        scene = await brought(kernel, state)
        await scene.swept()
        await scene.make_due(kind)
        await stopped(kernel, scene, stop)
        assert kind not in await scene.deadlines()
        assert not (await scene.view()).cancel_pending
        if stop == "replace":
            assert (await scene.pending())[0] == "instead"
            assert (await scene.view()).status == "running"
        await kernel.store.redis.flushall()


async def test_a_refusal_keeps_only_what_was_over(kernel: Kernel) -> None:
    """The turn that was meant has ended on the way: the caller is told so, and it has ended."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind="system")
    await scene.swept()
    await scene.make_due("cancel")
    with pytest.raises(TurnChanged):
        await kernel.stops.cancel(scene.sid, expected_turn=9)
    assert (await scene.view()).last_reason == "escalated"
    async with unchanged(kernel):
        with pytest.raises(TurnChanged):
            await kernel.stops.cancel(scene.sid, expected_turn=9)


@pytest.mark.parametrize("refused", ["cancel", "replace", "direct"])
async def test_what_an_overdue_end_began_is_placed_also_after_a_refusal(kernel: Kernel, refused: str) -> None:
    """The refusal has no room for its token: the next sweep offers it, and not the placement's deadline."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind="silent")
    await scene.sent("since", message_id="since")
    await scene.swept()
    await scene.make_due("cancel")
    kernel.store._common["max_inbox"] = 0
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "cancel": lambda: kernel.stops.cancel(scene.sid, expected_turn=9),
        "replace": lambda: kernel.stops.put_first(scene.sid, "instead", kind="replace", expected_turn=9),
        "direct": lambda: kernel.stops.put_direct(scene.sid, "direct", wait=30),
    }
    with pytest.raises((TurnChanged, InboxFull)):
        await calls[refused]()
    view = await scene.view()
    assert (view.status, view.waiting_for, view.suspects) == ("running", "placement", ("e1",))
    assert (await scene.deadlines())["placement"] <= view.now_ms


async def outage(scene: Scene) -> None:
    """Redis was away for longer than a lease: nobody swept, and nobody could renew."""
    await scene.swept(ms_ago=7000)
    await scene.make_due("lease")


async def test_after_an_outage_a_stop_that_its_driver_confirms_is_confirmed(kernel: Kernel) -> None:
    """The driver came first, before its worker's heartbeat: its execution is used on, and reset."""
    scene = await resetting(kernel, "open")
    await outage(scene)
    await scene.finished(await owned(scene), "cancelled")
    view = await scene.view()
    assert (view.phase, view.execution_id, view.suspects, view.reset_pending) == ("maintenance", "e1", (), True)


async def test_after_an_outage_a_reset_waits_for_the_worker(kernel: Kernel) -> None:
    scene = await brought(kernel, "ready")
    await outage(scene)
    assert await begun(scene) == "running"
    assert (await scene.view()).suspects == ()


async def test_after_an_outage_no_other_worker_takes_a_live_execution_s_session(kernel: Kernel) -> None:
    """Its worker is told once more; whether it lives, its heartbeat or the next sweep but one says."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await outage(scene)
    await scene.sent("again")
    accepted = await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")
    assert accepted.verdict is Verdict.LIVE
    assert (await scene.view()).execution_id == "e1"
    await scene.swept()
    await scene.make_due("lease")
    assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.OK
