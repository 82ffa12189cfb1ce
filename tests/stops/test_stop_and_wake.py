"""Wake-latch C: what was queued before a stop, what is sent during it, and what is sent after.

C45, C46, C61 (reasoning, half tool calls, parallel tools) are inside the agent. C36, C40, C52, C53, C55 are elsewhere.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Scene, aborted
from tests.support.watch import BOUND, seen


async def test_a_stop_of_an_idle_session_arms_nothing(scene: Scene) -> None:
    """28, 43: the next prompt runs as if there had been no stop, and so does one after a stopped turn."""
    assert (await scene.cancel()).known == "idle"
    await scene.send("one")
    assert await scene.cancelled(await scene.puppet.next()) == "cancelled"
    await scene.send("two")
    await scene.goes_on("two")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two")]


@pytest.mark.parametrize("keep", [True, False])
async def test_a_stop_right_after_a_send_meets_it_before_its_turn(deployment: Deployment, keep: bool) -> None:
    """29, 37, 51: no turn opens. Decided differently: nothing was claimed, so a kept message is parked, not used up."""
    agent = Puppet()
    scene = Scene(deployment, agent, await deployment.opened())
    await scene.send("one")
    assert (await scene.cancel(keep_inbox=keep)).known == "cancelled"
    assert await scene.told("session.status", "turn.started") == ["running", "idle"]
    assert await scene.pending() == ["one"] * keep
    await deployment.replica()
    await deployment.worker(agent)
    await scene.send("two")
    await scene.goes_on(*["one"] * keep, "two")
    await scene.judged()


async def test_what_was_queued_before_a_stop_is_parked_until_a_wake(scene: Scene) -> None:
    """30: queue of one, idle, one call of the agent; a later wake runs the parked one first."""
    assert await scene.cancelled(await scene.run("one", "two")) == "cancelled"
    await scene.idle()
    assert await scene.pending() == ["two"]
    assert not scene.puppet.is_asked
    await scene.send("three")
    await scene.goes_on("two", "three")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two"), ("completed", "three")]
    assert (await scene.judged()).intervals == [[1], [2, 3]]


async def test_what_is_sent_during_the_stop_runs_without_another_wake(scene: Scene) -> None:
    """31, 34: latched over the whole window, however slowly the agent obeys; the queue before it is released too."""
    call = await scene.run("one", "parked")
    stop = await scene.cancel()
    await aborted(call)
    for text in ("early", "late"):
        assert (await scene.send(text)).placement == "latched"
        await call.turn.emit(f"still busy with {text}")
    waiting = asyncio.create_task(scene.idle())
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    await scene.goes_on("parked", "early")
    assert not waiting.done()
    await scene.goes_on("late")
    await waiting
    assert [taken for _, taken in await scene.turns()] == ["one", "parked", "early", "late"]
    # The idle between the two runs is an event like any other, and no waiter takes it for the end.
    assert await scene.told("session.status") == ["running", "idle", "running", "idle"]


@pytest.mark.parametrize("wakes", [True, False])
async def test_steering_during_the_stop_gets_a_turn_of_its_own_if_it_wakes(scene: Scene, wakes: bool) -> None:
    """Wake-latch 2.2, running aborted: a waking one goes to next-turn; a non-waking one stays, parked."""
    call = await scene.run("one")
    stop = await scene.cancel()
    await scene.send("steer", list="next-step", wake=wakes)
    await aborted(call)
    inbox = (await scene.session.snapshot()).inbox
    assert (len(inbox.next_turn), len(inbox.next_step)) == (int(wakes), int(not wakes))
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    if wakes:
        await scene.goes_on("steer")
        assert await scene.turns() == [("cancelled", "one"), ("completed", "steer")]
    else:
        await scene.idle()
        assert await scene.pending() == ["steer"]


async def test_what_is_sent_while_a_closing_session_unwinds_never_runs(scene: Scene) -> None:
    """35: not latched; the close ends with one call of the agent in all, and the message is discarded visibly."""
    call = await scene.run("one")
    await scene.session.close()
    assert (await scene.send("late")).placement == "parked"
    assert await aborted(call) == "close"
    call.done("cancelled")
    oracle = await scene.judged()
    assert (len(oracle.turns), [one.discarded for one in oracle.messages.values()]) == (1, ["", "closed"])


async def test_a_waiter_from_before_the_stop_is_released_by_it(deployment: Deployment) -> None:
    """38: broad, before any claim: the waiter resolves, although no turn will ever open."""
    scene = Scene(deployment, Puppet(), await deployment.opened())
    await scene.send("one")
    waiting = asyncio.create_task(scene.session.wait_idle(timeout=BOUND))
    await scene.cancel(keep_inbox=False)
    await waiting


async def test_a_follower_that_sends_waits_and_stops_at_the_idle_edge(scene: Scene) -> None:
    """39: what it sends is placed, then parked by its own stop; the next wake runs both."""
    (await scene.run("one")).done()
    await seen(scene.session, "session.status", status="idle")
    waiting = asyncio.create_task(scene.idle())
    async with scene.session.guard(timeout=BOUND):
        await scene.send("two")
        await scene.cancel()
    await waiting
    assert await scene.pending() == ["two"]
    await scene.send("three")
    await scene.goes_on("two", "three")
    await scene.judged()


async def test_a_broad_stop_discards_each_message_visibly(scene: Scene) -> None:
    """41, 54: one turn, one call; queue and steering are gone, next-step first, and nothing of it becomes a turn."""
    call = await scene.run("one", "two", "three")
    await scene.send("steer", list="next-step")
    assert await scene.cancelled(call, keep_inbox=False) == "cancelled"
    assert await scene.turns() == [("cancelled", "one")]
    discarded = [entry async for entry in scene.session.history() if entry.type == "inbox.discarded"]
    assert [scene.texts[entry.fields["message_id"]] for entry in discarded] == ["steer", "two", "three"]
    assert {entry.fields["why"] for entry in discarded} == {"cancelled"}


async def test_a_stop_that_meets_the_agents_last_words_ends_both(scene: Scene) -> None:
    """50, decided differently: the agent's own reason stays. The queue is the stop's all the same: parked."""
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    call.done("max_tokens")
    assert await scene.outcome(stop) == "completed"
    assert await scene.turns(rests=False) == [("max_tokens", "one")]
    assert await scene.pending() == ["two"]
