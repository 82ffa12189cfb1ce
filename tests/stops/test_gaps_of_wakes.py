"""Wake-latch 4.6, gaps G1 to G20, one by one: those of sends, stops and claims. The others are in test_gaps_of_lives.

Each docstring says what the naive version does. G21 is a fault of a test there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.domain.errors import CancelConflict, SessionClosed
from tests.stops.naive import FLAG_LATCH, ONE_STOP, OPEN_ONLY, rewrite
from tests.stops.scene import Resident, Scene, aborted
from tests.support.faulty import FaultyStore
from tests.support.watch import seen


def faults(scene: Scene) -> FaultyStore:
    """Faults for the worker's own scripts."""
    assert isinstance(scene.puppet, Resident)
    return scene.puppet.faulty


@pytest.mark.parametrize("side", ["before", "after"])
async def test_g1_a_send_on_either_side_of_the_exit_runs(resident: Scene, side: str) -> None:
    """G1. Naive: the last look and giving up are two calls, and a send between them sits on an idle session.

    `tests/faults/test_exit_gap.py` shows that version failing; here both sides of the one script are met.
    """
    call, faulty = await resident.run("one"), faults(resident)

    async def send() -> None:
        await resident.send("two")

    (faulty.before if side == "before" else faulty.after)("finish", send)
    call.done()
    await resident.goes_on("two")
    assert await resident.turns() == [("completed", "one"), ("completed", "two")]
    assert (await resident.judged()).intervals == ([[1, 2]] if side == "before" else [[1], [2]])


async def test_g2_an_empty_turn_strands_no_other_wake(resident: Scene) -> None:
    """G2. Naive: the empty first batch ends the driver without another look, and B, sent meanwhile, is parked."""
    (await resident.run("warm")).done()
    await resident.idle()
    faulty = faults(resident)

    async def remove() -> None:
        await resident.session.inbox.remove(message_id)

    async def send() -> None:
        await resident.send("B")

    message_id = "a"
    faulty.before("claim", remove)
    faulty.after("claim", send)
    await resident.send("A", message_id=message_id)
    await resident.goes_on("B")
    assert faulty.unused == []
    assert (await resident.turns())[1:] == [("completed",), ("completed", "B")]


async def test_g3_a_close_after_a_stop_is_still_a_close(scene: Scene) -> None:
    """G3. Naive: the fence looks at the cause of the abort, and the first cause wins: a whole turn runs inside."""
    call = await scene.run("one")
    await scene.cancel()
    await scene.session.close()
    await scene.send("late")
    await aborted(call)
    call.done("cancelled")
    oracle = await scene.judged()
    assert (oracle.closed, len(oracle.turns), scene.puppet.is_asked) == (True, 1, False)


async def test_g4_a_broad_stop_out_of_a_turns_own_output_clears_and_aborts(scene: Scene) -> None:
    """G4. Naive: the observer of the first text is inside the publisher; its stop throws, and B runs."""
    call = await scene.run("one", "B")
    await call.turn.emit("first words")
    await seen(scene.session, "output")
    assert await scene.cancelled(call, keep_inbox=False) == "cancelled"
    assert await scene.turns() == [("cancelled", "one")]


@pytest.mark.parametrize("left", ["inject", "parked"])
@pytest.mark.parametrize("naive", [False, True])
async def test_g5_a_wake_that_is_taken_back_replays_nothing(
    resident: Scene, left: str, naive: bool, tmp_path: Path
) -> None:
    """G5. Naive: a flag remembers the wake and outlives its message, so what was parked runs."""
    call = await resident.run("one", *["parked"] * (left == "parked"))
    if naive:
        rewrite(resident, tmp_path, FLAG_LATCH)
    stop = await resident.cancel()
    wake = await resident.send("X")
    if left == "inject":
        await resident.send("inject", list="next-step", wake=False)
    await resident.session.inbox.remove(wake.message_id)
    await aborted(call)
    call.done("cancelled")
    await resident.outcome(stop)
    if naive:
        assert (await resident.puppet.next()).prompt.text == left
        return
    await resident.idle()
    assert (await resident.pending(), (await resident.session.snapshot()).turn) == ([left], 1)


async def test_g6_a_stop_during_a_job_parks_the_wake_that_came_before_it(scene: Scene) -> None:
    """G6. Naive: maintenance's latch survives a keep-inbox stop, a turn's does not. Here stop means stop."""
    async with scene.session.maintain("job"):
        await scene.send("before")
        await scene.cancel()
        await scene.send("after")
    await scene.goes_on("before", "after")
    await scene.judged()
    async with scene.session.maintain("job"):
        await scene.send("stopped")
        await scene.cancel()
    await scene.idle()
    assert await scene.pending() == ["stopped"]


async def test_g7_a_closed_session_takes_nothing(scene: Scene) -> None:
    """G7. Naive: no fence after the end; a follow-up starts a driver on a session that nobody keeps."""
    assert await scene.session.close() == "closed"
    with pytest.raises(SessionClosed):
        await scene.send("one")
    with pytest.raises(SessionClosed):
        await scene.replace("one")
    assert (await scene.session.snapshot()).turn == 0


async def test_g8_what_is_sent_again_at_its_discard_counts_as_after_the_stop(scene: Scene) -> None:
    """G8. Naive: the observer runs in the middle of the clear, before the abort, and what it sends is parked."""
    call = await scene.run("one", "two")
    stop = await scene.cancel(keep_inbox=False)
    await seen(scene.session, "inbox.discarded")
    assert (await scene.send("two again")).placement == "latched"
    await aborted(call)
    call.done("cancelled")
    await scene.outcome(stop)
    await scene.goes_on("two again")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two again")]


@pytest.mark.parametrize("naive", [False, True])
async def test_g9_a_stop_between_two_turns_stops_the_next(resident: Scene, naive: bool, tmp_path: Path) -> None:
    """G9. Naive: it aborts the signal of the turn that is over, and B runs. Placed right before B's claim."""
    call, faulty = await resident.run("one", "B"), faults(resident)
    stops = []
    if naive:
        rewrite(resident, tmp_path, OPEN_ONLY)

    async def stop() -> None:
        stops.append(await resident.cancel())

    faulty.before("claim", stop)
    call.done()
    if naive:
        assert (await resident.puppet.next()).prompt.text == "B"
        return
    await seen(resident.session, "session.status", status="idle")
    assert stops[0].known == "cancelled"
    assert await resident.turns(rests=False) == [("completed", "one")]
    assert await resident.pending() == ["B"]


async def test_g10_a_claim_takes_both_lists_or_none(resident: Scene) -> None:
    """G10. Naive: two appends; when the second fails the next-step messages are in neither list nor turn."""
    (await resident.run("warm")).done()
    await resident.idle()
    faulty = faults(resident)
    await resident.send("steer", list="next-step", wake=False)
    faulty.drop_call("claim", 1)
    faulty.drop_reply("claim", 2)
    await resident.send("one")
    call = await resident.puppet.next()
    assert (call.bodies, faulty.unused) == (["steer", "one"], [])
    call.done()
    assert (await resident.turns())[1:] == [("completed", "steer", "one")]


async def test_g11_a_row_is_not_steered_into_a_turn_that_is_being_stopped(scene: Scene) -> None:
    """G11. Naive: remove and send again: the order changes, and the log tells of a discard that was none."""
    call = await scene.run("one", "Q1", "Q2")
    stop = await scene.cancel()
    q1 = next(message_id for message_id, text in scene.texts.items() if text == "Q1")
    before = await scene.told()
    with pytest.raises(CancelConflict):
        await scene.session.inbox.steer(q1)
    assert (await scene.told(), await scene.pending()) == (before, ["Q1", "Q2"])
    await aborted(call)
    call.done("cancelled")
    await scene.outcome(stop)
    await scene.send("wake")
    await scene.goes_on("Q1", "Q2", "wake")
    await scene.judged()


@pytest.mark.parametrize("naive", [False, True])
async def test_g12_a_second_stop_parks_what_came_after_the_first(resident: Scene, naive: bool, tmp_path: Path) -> None:
    """G12. Naive: during convergence a keep-inbox stop does nothing, and B runs though it was stopped."""
    call = await resident.run("one")
    if naive:
        rewrite(resident, tmp_path, ONE_STOP)
    stop = await resident.cancel()
    assert (await resident.send("B")).placement == "latched"
    assert (await resident.cancel()).id == stop.id
    await aborted(call)
    call.done("cancelled")
    await resident.outcome(stop)
    if naive:
        assert (await resident.puppet.next()).prompt.text == "B"
        return
    await resident.idle()
    assert await resident.pending() == ["B"]
    await resident.send("C")
    await resident.goes_on("B", "C")
    await resident.judged()


async def test_g13_what_does_not_wake_starts_nothing_on_an_idle_session(scene: Scene) -> None:
    """G13, accepted for a live driver: after a natural end the queue runs as a whole, non-waking messages included.

    Naive: no wake bit is stored, so nobody can tell them apart, and an idle session is started.
    """
    for name in ("next-turn", "next-step"):
        assert (await scene.send(name, list=name, wake=False)).placement == "parked"
    assert await scene.told("session.status") == []
    await scene.send("one")
    call = await scene.puppet.next()
    assert call.bodies == ["next-step", "next-turn"]
    call.done()
    call = await scene.puppet.next()
    await scene.send("quiet", wake=False)
    stop = await scene.cancel()
    await scene.send("quieter", wake=False)
    await aborted(call)
    call.done("cancelled")
    await scene.outcome(stop)
    await scene.idle()
    assert await scene.pending() == ["quiet", "quieter"]
