"""Kandev H: something put in the place of what runs, all or nothing."""

from __future__ import annotations

import pytest

from coordinator.domain.errors import CancelConflict, MessageNotPending
from tests.stops.scene import Scene, aborted
from tests.support.keyspace import dump
from tests.support.watch import BOUND
from workers.agents.protocol import DispatchFailed, TurnEnd


async def test_on_an_idle_session_a_replacement_is_a_prompt_before_the_parked_ones(scene: Scene) -> None:
    """H1: nothing is cancelled; it starts at once, and what was parked follows."""
    await scene.send("parked", wake=False)
    assert (await scene.replace("now")).placement == "started"
    await scene.goes_on("now", "parked")
    assert await scene.turns() == [("completed", "now"), ("completed", "parked")]
    assert (await scene.judged()).operations.outcomes == {}


async def test_a_replacement_stops_what_runs_and_the_queue_follows_it(scene: Scene) -> None:
    """H, section 6: replacement first, then the queue, whose order is kept; nothing is parked, no note is left."""
    call = await scene.run("one", "two", "three")
    receipt = await scene.replace("instead")
    assert receipt.placement == "latched"
    assert await aborted(call) == "replace"
    call.done("cancelled")
    assert await scene.outcome(receipt.message_id) == "cancelled"
    await scene.goes_on("instead", "two", "three")
    assert [taken for _, taken in await scene.turns()] == ["one", "instead", "two", "three"]
    assert (await scene.judged()).operations.by_user == []


async def test_a_late_completion_does_not_end_the_replacement(scene: Scene) -> None:
    """H, B2: the predecessor's agent ignores the stop, and completes when its successor is with its agent."""
    call = await scene.run("one", "two")
    receipt = await scene.replace("instead")
    assert await scene.outcome(receipt.message_id) == "escalated"
    successor = await scene.puppet.next()
    assert not await call.turn.report(TurnEnd(call.prompt.ownership))
    assert (await scene.session.snapshot()).open_turn == 2
    successor.done()
    await scene.goes_on("two")
    assert await scene.turns() == [("escalated", "one"), ("completed", "instead"), ("completed", "two")]


async def test_a_replacement_during_a_persons_stop_is_refused_and_writes_nothing(scene: Scene) -> None:
    """H4: a stop is a stop; the caller may try again when it is over."""
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    before = await dump(scene.kernel.store.redis, ["*workers", "*worker:*", "*deadlines", "*counters"])
    with pytest.raises(CancelConflict):
        await scene.replace("instead")
    assert await dump(scene.kernel.store.redis, ["*workers", "*worker:*", "*deadlines", "*counters"]) == before
    await aborted(call)
    call.done("cancelled")
    await scene.outcome(stop)
    await scene.replace("instead")
    await scene.goes_on("instead", "two")
    await scene.judged()


async def test_a_persons_stop_during_a_replacement_parks_that_too(scene: Scene) -> None:
    """H4, decided differently: never refused. Kind and ticket stay, and the replacement waits for the next wake."""
    call = await scene.run("one")
    receipt = await scene.replace("instead")
    stop = await scene.cancel()
    assert (stop.id, stop.known) == (receipt.message_id, None)
    await aborted(call)
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    await scene.idle()
    assert await scene.pending() == ["instead"]
    await scene.send("wake")
    await scene.goes_on("instead", "wake")
    oracle = await scene.judged()
    assert (oracle.operations.kinds, oracle.operations.by_user) == ({stop.id: ["replace"]}, [1])


async def test_a_replacement_goes_before_a_prompt_that_waits_for_its_claim(scene: Scene) -> None:
    """H5 (pending): nothing is open, so nothing is stopped; the one in line keeps its place behind it."""
    (await scene.run("one")).done()
    await scene.idle()
    async with scene.session.guard(timeout=BOUND):
        await scene.send("two")
        assert (await scene.replace("instead")).placement == "queued"
    await scene.goes_on("instead", "two")
    assert await scene.turns() == [("completed", "one"), ("completed", "instead"), ("completed", "two")]


async def test_a_prompt_that_is_claimed_and_not_accepted_is_replaced(resident: Scene) -> None:
    """H5 (accepted), decided differently: no conflict. It is the open prompt: stopped, and used up."""
    call = await resident.run("one")
    assert not (await resident.session.snapshot()).accepted
    receipt = await resident.replace("instead")
    await aborted(call)
    call.done("cancelled")
    assert await resident.outcome(receipt.message_id) == "cancelled"
    await resident.goes_on("instead")
    assert await resident.turns() == [("cancelled", "one"), ("completed", "instead")]


async def test_a_second_replacement_is_refused_until_the_first_is_live_and_then_replaces_it(scene: Scene) -> None:
    """H6."""
    call = await scene.run("one")
    first = await scene.replace("two")
    with pytest.raises(CancelConflict):
        await scene.replace("three")
    await aborted(call)
    call.done("cancelled")
    await scene.outcome(first.message_id)
    call = await scene.puppet.next()
    second = await scene.replace("three")
    await aborted(call)
    call.done("cancelled")
    await scene.outcome(second.message_id)
    await scene.goes_on("three")
    assert await scene.turns() == [("cancelled", "one"), ("cancelled", "two"), ("completed", "three")]


async def test_a_replacement_whose_dispatch_fails_is_first_in_line_again(resident: Scene) -> None:
    """H8: nothing is lost or reordered, and the queue is not parked by it."""
    call = await resident.run("one", "two")
    receipt = await resident.replace("instead")
    await aborted(call)
    call.done("cancelled")
    await resident.outcome(receipt.message_id)
    (await resident.puppet.next()).raises(DispatchFailed("no route"))
    call = await resident.puppet.next()
    assert (call.prompt.text, call.prompt.attempt) == ("instead", 2)
    call.done()
    await resident.goes_on("two")
    assert await resident.turns() == [
        ("cancelled", "one"), ("error", "instead"), ("completed", "instead"), ("completed", "two"),
    ]  # fmt: skip


async def test_chosen_messages_go_first_all_or_none(scene: Scene) -> None:
    """H9: one that is gone refuses the call, and nothing has changed; else they run first, in the order of the call."""
    call = await scene.run("one", "two", "three", "four")
    ids = {text: message_id for message_id, text in scene.texts.items()}
    before = await scene.told()
    with pytest.raises(MessageNotPending):
        await scene.session.replace(entries=[ids["four"], ids["one"]])
    assert await scene.told() == before
    receipt = await scene.session.replace(entries=[ids["four"], ids["three"]])
    await aborted(call)
    call.done("cancelled")
    assert await scene.outcome(receipt.message_id) == "cancelled"
    await scene.goes_on("four", "three", "two")
    assert [taken for _, taken in await scene.turns()] == ["one", "four", "three", "two"]
