"""Kandev B: a completion and the deadline, and what comes after either."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.domain.verdicts import Verdict
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Scene, aborted
from tests.support.faulty import FaultyStore
from tests.support.sweeping import due
from tests.support.watch import BOUND, seen
from workers.agents.protocol import TurnEnd


async def test_a_completion_in_time_beats_the_deadline(scene: Scene) -> None:
    """B11: the agent had finished by itself: its own reason, outcome `completed`, and no escalation."""
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    await aborted(call)
    call.done("completed")
    assert await scene.outcome(stop) == "completed"
    assert await scene.turns(rests=False) == [("completed", "one")]
    assert await scene.pending() == ["two"]


@pytest.mark.parametrize("first", ["completion", "deadline"])
async def test_at_the_deadline_exactly_one_of_both_ends_counts(deployment: Deployment, first: str) -> None:
    """B12: a completion at the deadline wins if its script came first; whichever did, the other is stale."""
    agent = Puppet()
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened(settlement="none"))
    call = await scene.run("one")
    ended = asyncio.create_task(seen(scene.session, "turn.ended"))
    stop, faulty = await scene.cancel(), FaultyStore(scene.kernel.store)
    await aborted(call)
    score = await due(scene.kernel, scene.session.id, "cancel")

    async def complete() -> None:
        call.done("cancelled")
        await ended

    if first == "completion":
        faulty.before("expire_cancel", complete)
    expired = await scene.kernel.deadlines.expire("cancel", scene.session.id, score)
    if first == "deadline":
        if not call.outcome.cancelled():
            call.done("cancelled")
        assert expired.verdict is Verdict.OK
    assert (await ended).fields["reason"] == ("cancelled" if first == "completion" else "escalated")
    assert await scene.outcome(stop) == ("cancelled" if first == "completion" else "escalated")
    assert len((await scene.judged()).turns) == 1


async def test_an_escalation_releases_those_who_wait_for_that_turn_and_nobody_else(scene: Scene) -> None:
    """B15: a waiter of the next message goes on waiting, for its own turn."""
    call = await scene.run("one")
    first = asyncio.create_task(scene.session.result(call.prompt.messages[0].message_id, timeout=BOUND))
    stop = await scene.cancel()
    receipt = await scene.send("two")
    assert receipt.placement == "latched"
    second = asyncio.create_task(scene.session.result(receipt.message_id, timeout=BOUND))
    assert (await first).reason == "escalated"
    assert await scene.outcome(stop) == "escalated"
    call = await scene.puppet.next()
    assert not second.done()
    call.done()
    assert (await second).reason == "completed"
    assert await scene.turns() == [("escalated", "one"), ("completed", "two")]


async def test_what_a_given_up_prompt_fails_with_later_is_suppressed(deployment: Deployment) -> None:
    """B17: the next prompt is accepted meanwhile; the old one's error ends nothing and shows nowhere."""
    agent, held = Puppet(), asyncio.Event()

    async def hangs(prompt: object, turn: object) -> TurnEnd | None:
        try:
            return await agent(prompt, turn)  # type: ignore[arg-type]
        except asyncio.CancelledError:
            await held.wait()
            raise OSError("the line went dead") from None

    await deployment.replica()
    await deployment.worker(hangs)
    scene = Scene(deployment, agent, await deployment.opened())
    await scene.run("one")
    stop = await scene.cancel()
    await scene.send("two")
    assert await scene.outcome(stop) == "escalated"
    call = await scene.puppet.next()
    assert (await scene.session.snapshot()).suspects
    held.set()
    call.done()
    assert await scene.turns() == [("escalated", "one"), ("completed", "two")]
    assert "the line went dead" not in str([entry.fields async for entry in scene.session.history()])
