"""Traces of the model check that concern stops: each began as a fault of an earlier wording, named by its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import OFFERS, Scene, unchanged
from tests.scripts.states import WAITING, brought, owned

if TYPE_CHECKING:
    from coordinator.services import Kernel


@pytest.mark.parametrize("state", ["idle", *WAITING])
async def test_f1_a_cancel_without_an_open_turn_can_never_be_finished(kernel: Kernel, state: str) -> None:
    """No operation is recorded: it is over at once, no turn ends that never started, no execution is suspect."""
    scene = await brought(kernel, state)
    stop = await kernel.stops.cancel(scene.sid)
    view = await scene.view()
    assert (stop.outcome, view.cancel_pending) == ("idle" if state == "idle" else "cancelled", False)
    assert ("cancel" in await scene.deadlines(), view.suspects) == (False, ())
    assert (await scene.types()).count("turn.ended") == (state == "unsettled")


@pytest.mark.parametrize("kind", ["silent", "system"])
async def test_f2_a_kind_that_does_not_park_strands_nothing(kernel: Kernel, kind: Any) -> None:
    """Latched A, then cancel(silent): A runs when the stop has converged."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind=kind)
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.RESTARTED


@pytest.mark.parametrize("parked_by", ["stop", "error"])
async def test_f3_the_abort_sequence_dies_with_its_activity(kernel: Kernel, parked_by: str) -> None:
    """Parked by a stop or an error, then a maintenance job begins and ends: what was parked does not start."""
    scene = await brought(kernel, "accepted")
    if parked_by == "stop":
        await kernel.stops.cancel(scene.sid)
    await scene.finished(await owned(scene), "cancelled" if parked_by == "stop" else "error")
    await kernel.maintenance.begin(scene.sid, "job", "compact")
    assert await kernel.maintenance.end(scene.sid, "job")
    assert ((await scene.view()).status, await scene.pending()) == ("idle", ["queued"])


@pytest.mark.parametrize("reason", ["completed", "max_tokens", "error", "blocked"])
async def test_f4_a_turn_that_completes_by_itself_while_a_cancel_is_in_flight_escapes_the_stop(
    kernel: Kernel, reason: str
) -> None:
    """A open, B queued, cancel(user), finish(completed): B stays; ready and outcome tell the truth."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, operation_id="o")
    assert (await scene.finished(await owned(scene), reason)).verdict is Verdict.GONE
    assert ((await scene.readies())[-1][1].reason, await kernel.stops.outcome(scene.sid, "o")) == (reason, "completed")
    assert await scene.pending() == ["queued"]


@pytest.mark.parametrize("end", ["maintain_end", "expire", "close"])
async def test_f5_only_finish_and_escalate_settle_the_operation(kernel: Kernel, end: str) -> None:
    """Maintenance, cancel, its end: nothing is pending that could hit whatever runs then."""
    scene = await brought(kernel, "maintenance")
    await kernel.stops.cancel(scene.sid, operation_id="o")
    if end == "close":
        await kernel.sessions.close(scene.sid)
    if end == "expire":
        await scene.expired("maintenance")
    else:
        await kernel.maintenance.end(scene.sid, "job")
    assert not (await scene.view()).cancel_pending
    assert await kernel.stops.outcome(scene.sid, "o") == ("escalated" if end == "expire" else "cancelled")
    assert "cancel" not in await scene.deadlines()


@pytest.mark.parametrize("end", ["lease", "acceptance", "interrupted"])
async def test_f7_lost_and_interrupted_with_an_abort_recorded_follow_its_row(kernel: Kernel, end: str) -> None:
    """Without one what is awake restarts, with one what was parked stays."""
    for stop, status in ((False, "running"), (True, "idle")):
        scene = await brought(kernel, "unaccepted")
        if stop:
            await kernel.stops.cancel(scene.sid)
        if end == "interrupted":
            await scene.finished(await owned(scene), "interrupted")
        else:
            await scene.expired(end)
        assert (await scene.view()).status == status
        await kernel.store.redis.flushall()


@pytest.mark.parametrize("end", ["lease", "acceptance", "interrupted", "cancelled"])
async def test_f8_a_lost_turn_with_a_cancel_in_flight_puts_its_batch_back(kernel: Kernel, end: str) -> None:
    """A claimed, replace R, worker dies before acceptance: R is first and A does not run again."""
    scene = await brought(kernel, "unaccepted")
    await kernel.stops.put_first(scene.sid, "R", kind="replace")
    if end in {"interrupted", "cancelled"}:
        await scene.finished(await owned(scene), end)
    else:
        await scene.expired(end)
    assert ((await scene.view()).status, await scene.pending()) == ("running", ["R", "queued"])


async def test_f9_a_repeated_send_undoes_a_stop(kernel: Kernel) -> None:
    """Send A, reply lost; stop parks A; the client repeats send A: A stays parked."""
    scene = await brought(kernel, "reserved")
    message = (await scene.view()).inbox.next_turn[0].message_id
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel, OFFERS):
        assert (await kernel.inbox.send(scene.sid, "queued", message_id=message)).duplicate


async def test_f10_a_late_duplicate_of_claim_opens_a_turn_that_nobody_drives(kernel: Kernel) -> None:
    """Also after a stop that ended its turn, while the wake that came meanwhile waits."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    await scene.sent("wake")
    await scene.finished(await owned(scene), "cancelled")
    async with unchanged(kernel):
        assert (await scene.claimed("c1")).verdict is Verdict.FINISHED


@pytest.mark.parametrize("call", ["cancel", "replace", "edit"])
async def test_f11_operation_ids_are_forgotten_when_the_operation_is_settled(kernel: Kernel, call: str) -> None:
    """A cancel of the idle session, delivered twice, leaves the turn of a message sent afterwards alone."""
    scene = await Scene(kernel).opened()

    async def made() -> None:
        if call == "cancel":
            await kernel.stops.cancel(scene.sid, keep_inbox=False, operation_id="o")
        elif call == "replace":
            await kernel.stops.put_first(scene.sid, "R", kind="replace", message_id="o")
        else:
            await kernel.inbox.clear(scene.sid, "o")

    await made()
    if call == "replace":
        scene.token = (await scene.view()).activity
    await scene.prompted("afterwards")
    await scene.sent("queued")
    async with unchanged(kernel, OFFERS):
        await made()


async def test_f12_step_gives_the_same_batch_again_after_an_abort(kernel: Kernel) -> None:
    """Next-step T taken, reply lost, then a stop: the repeat still has it; the next number takes nothing."""
    scene = await brought(kernel, "accepted")
    await scene.sent("T", list="next-step")
    ownership = await owned(scene)
    taken = await kernel.turns.step(scene.sid, ownership, 1)
    assert taken
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        assert await kernel.turns.step(scene.sid, ownership, 1) == taken
    assert await kernel.turns.step(scene.sid, ownership, 2) == ()


@pytest.mark.parametrize("closing_by", ["finish", "expire"])
async def test_f15_all_refuse_a_closed_session_locks_it_up(kernel: Kernel, closing_by: str) -> None:
    """On a closing one finish, expire, renew and settle work as usual, and nothing restarts."""
    scene = await brought(kernel, "closing")
    assert await scene.renewed(claim="c1") == "abort"
    if closing_by == "finish":
        await scene.finished(await owned(scene), "cancelled")
    else:
        await scene.expired("cancel")
    await scene.settled()
    view = await scene.view()
    assert (view.lifecycle, view.unsettled_turn, view.cancel_pending) == ("closed", 0, False)


@pytest.mark.parametrize("recorded", ["user", "parent", "silent", "system", "replace", ""])
async def test_f16_the_cancel_of_close_has_no_kind(kernel: Kernel, recorded: Any) -> None:
    """It is `close`: it overrides any, and the ready says so, so that nothing is evaluated."""
    scene = await brought(kernel, "accepted")
    if recorded == "replace":
        await kernel.stops.put_first(scene.sid, "R", kind="replace")
    elif recorded:
        await kernel.stops.cancel(scene.sid, kind=recorded)
    await kernel.sessions.close(scene.sid)
    await scene.finished(await owned(scene))
    assert (await scene.readies())[-1][1].cancel_kind == "close"
    assert (await scene.view()).lifecycle == "closed"


async def test_f17_prompt_does_not_wait_for_the_settlement(kernel: Kernel) -> None:
    """A direct prompt that carries no guard is claimed after the settlement, as any other is."""
    scene = await brought(kernel, "unsettled")
    await kernel.stops.put_direct(scene.sid, "direct", wait=30)
    async with unchanged(kernel):
        assert (await scene.claimed("c")).verdict is Verdict.UNSETTLED
    await scene.settled()
    assert [message.body for message in (await scene.claimed("c")).messages] == ["direct"]


@pytest.mark.parametrize("end", ["cancelled", "escalated", "interrupted"])
async def test_f19_a_turn_that_was_stopped_settles_like_any(kernel: Kernel, end: str) -> None:
    """Every numbered turn has exactly one ready that can be settled, and nothing of it is evaluated as completed."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    if end == "escalated":
        await scene.expired("cancel")
    else:
        await scene.finished(await owned(scene), end)
    assert len(await scene.readies()) == 1
    await scene.settled()
    assert (await scene.log())[-1]["outcome"] == "none"


async def test_f21_a_prompt_is_handed_over_after_it_was_cancelled(kernel: Kernel) -> None:
    """Claimed, reply lost, cancelled: the repeat of the claim says so, and the driver does not call the agent."""
    scene = await brought(kernel, "unaccepted")
    await kernel.stops.cancel(scene.sid, kind="parent")
    claim = await scene.claimed("c1")
    assert (claim.verdict, claim.abort) == (Verdict.OK, "parent")
    assert claim.ownership
    assert (await scene.finished(claim.ownership, "cancelled")).verdict is Verdict.GONE


async def test_f22_acceptance_has_no_script(kernel: Kernel) -> None:
    """An agent that hangs at its start, and is stopped: escalated, the execution suspect, the batch used up."""
    scene = await brought(kernel, "unaccepted")
    await kernel.stops.cancel(scene.sid, kind="silent", operation_id="o")
    await scene.expired("acceptance")
    assert await kernel.stops.outcome(scene.sid, "o") == "escalated"
    assert ((await scene.view()).suspects, await scene.pending()) == (("e1",), ["queued"])


@pytest.mark.parametrize("recorded", ["replace", "system"])
async def test_f25_a_person_s_stop_is_refused_during_replace_or_system(kernel: Kernel, recorded: Any) -> None:
    """It never is: it shares the ticket and raises the mark; kind and outcome stay, and the queue does not go on."""
    scene = await brought(kernel, "accepted")
    if recorded == "replace":
        await kernel.stops.put_first(scene.sid, "R", kind="replace", message_id="o")
    else:
        await kernel.stops.cancel(scene.sid, kind="system", operation_id="o")
    assert (await kernel.stops.cancel(scene.sid)).ticket == "o"
    assert (await scene.view()).cancel_kind == recorded
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.GONE
    assert (await kernel.stops.outcome(scene.sid, "o"), (await scene.view()).status) == ("cancelled", "idle")
