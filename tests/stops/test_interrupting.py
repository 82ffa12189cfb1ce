"""Kandev I: steering into a turn, and interrupts by a parent.

I5 (who may interrupt) is the deployer's: there is no family of sessions here. What a parent proves is the generation
that it means. I9 (the cancel fails, the entry stays queued) can't occur: message and operation are one script.
"""

from __future__ import annotations

import asyncio

import pytest

from coordinator.domain.errors import TurnChanged
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Resident, Scene, aborted


async def test_steering_stays_in_its_turn(scene: Scene) -> None:
    """I1, I2: same generation, no second turn, in the order of arrival.

    Decided differently: it does not wait behind the queue, which is another list.
    """
    call = await scene.run("one", "queued")
    for text in ("left", "right"):
        assert (await scene.send(text, list="next-step")).placement == "queued"
    assert await call.steered() == ["left", "right"]
    assert await call.steered() == []
    call.done()
    await scene.goes_on("queued")
    assert await scene.turns() == [("completed", "one", "left", "right"), ("completed", "queued")]
    assert (await scene.session.snapshot()).generation == 2


async def test_steering_whose_answer_is_lost_is_taken_once(resident: Scene) -> None:
    """I4: there is no acknowledgement to hang; the repeat of a boundary gets the same batch."""
    call = await resident.run("one")
    await resident.send("left", list="next-step")
    assert isinstance(resident.puppet, Resident)
    faulty = resident.puppet.faulty
    faulty.drop_reply("step")
    assert await call.steered() == ["left"]
    assert faulty.unused == []
    call.done()
    assert await resident.turns() == [("completed", "one", "left")]


async def test_an_interrupt_names_the_generation_that_it_means(scene: Scene) -> None:
    """I5, I10, wake-latch 92: another one is refused without any effect; the right one stops it, without a note."""
    call = await scene.run("one", "two")
    before = await scene.told()
    with pytest.raises(TurnChanged):
        await scene.interrupt("child, listen", expected_generation=7)
    assert await scene.told() == before
    assert not call.turn.cancelled.is_set()
    receipt = await scene.interrupt("child, listen", expected_generation=1)
    assert await aborted(call) == "parent"
    call.done("cancelled")
    assert await scene.outcome(receipt.message_id) == "cancelled"
    await scene.goes_on("child, listen", "two")
    assert (await scene.judged()).operations.by_user == []


async def test_three_parents_at_once_stop_once_and_each_is_heard(scene: Scene) -> None:
    """I7: they join one operation; every one's own message runs, the later before the earlier."""
    call = await scene.run("one")
    await asyncio.gather(*(scene.interrupt(text) for text in "abc"))
    assert await aborted(call) == "parent"
    call.done("cancelled")
    calls = [await scene.puppet.next()]
    for _ in range(2):
        calls[-1].done()
        calls.append(await scene.puppet.next())
    calls[-1].done()
    oracle = await scene.judged()
    assert sorted(one.prompt.text for one in calls) == ["a", "b", "c"]
    assert len(oracle.operations.outcomes) == 1


async def test_an_interrupt_during_a_persons_stop_waits_in_line(scene: Scene) -> None:
    """I8: nothing is stopped for it; it was sent after the stop, so it runs when that is over."""
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    await scene.interrupt("child, listen")
    await aborted(call)
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    await scene.goes_on("two", "child, listen")
    oracle = await scene.judged()
    assert oracle.operations.kinds == {stop.id: ["user"]}
    assert oracle.intervals == [[1], [2, 3]]


async def test_an_interrupt_of_a_session_leaves_every_other_alone(deployment: Deployment, scene: Scene) -> None:
    """Wake-latch 91: no stop cascades."""
    call = await scene.run("one")
    child = Scene(deployment, scene.puppet, await deployment.opened())
    grandchild = await child.run("below")
    await scene.interrupt("listen")
    await aborted(call)
    assert not grandchild.turn.cancelled.is_set()
    call.done("cancelled")
    grandchild.done()
    await scene.goes_on("listen")
    assert await child.turns() == [("completed", "below")]
    await scene.judged()


async def test_an_interrupt_of_what_is_being_stopped_signals_once(deployment: Deployment) -> None:
    """Wake-latch 93: the agent hears one abort, whoever joins."""
    agent, heard = Puppet(), []
    await deployment.replica()
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    call = await scene.run("one")
    await scene.cancel(kind="silent")
    heard.append(await aborted(call))
    call.turn.cancelled.clear()
    receipt = await scene.interrupt("listen")
    assert len(await scene.told("cancel.requested")) == 2
    assert call.turn.cancel_cause == heard[0] == "silent"
    call.done("cancelled")
    assert receipt.placement == "latched"
    await scene.goes_on("listen")
    await scene.judged()
