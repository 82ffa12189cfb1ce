"""Wake-latch C: what the agent of a stopped turn sees, says and leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.domain.errors import Superseded
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Resident, Scene, aborted
from tests.support.watch import BOUND, seen, told
from workers.agents.protocol import DispatchFailed, Prompt, Turn, TurnEnd
from workers.host import Host


async def test_what_was_said_before_the_stop_stays_said_and_nothing_else_is(scene: Scene) -> None:
    """42, 44, 47, 49: the text is logged before the end of its turn; a turn that said nothing has no output."""
    call = await scene.run("one")
    await call.turn.emit("half a ")
    await call.turn.emit("sentence")
    assert await scene.cancelled(call) == "cancelled"
    assert await scene.cancelled(await scene.run("two")) == "cancelled"
    oracle = await scene.judged()
    assert [turn.text for turn in oracle.turns.values()] == ["half a sentence", ""]
    assert await told(scene.session, "output", "turn.ended") == ["output", "turn.ended", "turn.ended"]


async def test_a_stop_beats_a_retry(resident: Scene) -> None:
    """48: what failed to dispatch, and would go back in line, is used up once its turn is being stopped."""
    call = await resident.run("one")
    stop = await resident.cancel()
    await aborted(call)
    call.raises(DispatchFailed("try again"))
    assert await resident.outcome(stop) == "completed"
    assert await resident.turns() == [("error", "one")]


async def test_the_first_cause_is_the_one_that_is_shown(scene: Scene) -> None:
    """56: a parent, then a person: the agent goes on seeing the parent, the operation is the person's."""
    call = await scene.run("one")
    stop = await scene.cancel(kind="parent")
    assert await aborted(call) == "parent"
    await scene.cancel()
    call.done("cancelled")
    await scene.outcome(stop)
    assert call.turn.cancel_cause == "parent"
    assert (await scene.judged()).operations.kinds == {stop.id: ["parent", "user"]}


@pytest.mark.parametrize("seam", ["own", "emit", "step", "before"])
async def test_at_every_seam_an_agent_sees_the_same_stop_and_settles(deployment: Deployment, seam: str) -> None:
    """58, 59: waiting by itself, speaking, at a boundary, or not called yet: one turn, cancelled, and no more."""
    reached, released, causes = asyncio.Event(), asyncio.Event(), []

    async def agent(prompt: Prompt, turn: Turn) -> TurnEnd:
        reached.set()
        while not turn.cancelled.is_set():
            if seam == "emit":
                await turn.emit("x" * 20_000)
            elif seam == "step":
                await turn.take_steering()
            else:
                await turn.cancelled.wait()
        await released.wait()
        causes.append(turn.cancel_cause)
        return TurnEnd(prompt.ownership, "cancelled")

    await deployment.replica()
    await deployment.worker(agent)
    scene = Scene(deployment, Puppet(), await deployment.opened())
    await scene.send("one")
    async with asyncio.timeout(BOUND):
        await reached.wait()
    stop = await scene.cancel()
    released.set()
    assert await scene.outcome(stop) == "cancelled"
    assert await scene.turns() == [("cancelled", "one")]
    assert causes == ["user"]


async def test_a_stop_between_claim_and_call_keeps_the_prompt_from_the_agent(
    resident: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """59, 94: the claim's answer and the hint are lost: its repeat tells of the stop, and the agent sees nothing."""
    monkeypatch.setattr(Host, "abort", lambda *_: None)
    (await resident.run("one")).done()
    await resident.idle()
    assert isinstance(resident.puppet, Resident)
    faulty, stops = resident.puppet.faulty, []

    async def stop() -> None:
        stops.append(await resident.cancel())

    faulty.after("claim", stop)
    faulty.drop_reply("claim")
    await resident.send("two")
    await seen(resident.session, "cancel.settled")
    assert faulty.unused == []
    assert await resident.outcome(stops[0]) == "cancelled"
    assert await resident.turns() == [("completed", "one"), ("cancelled", "two")]
    assert [prompt.text for prompt in resident.puppet.prompts] == ["one"]


async def test_an_agent_that_stops_its_own_session_leaves_what_it_found_parked(deployment: Deployment) -> None:
    """60: what it injects stays in next-step, and the next wake delivers it, once."""
    agent = Puppet()

    async def cancels_itself(prompt: Prompt, turn: Turn) -> TurnEnd | None:
        if prompt.text != "one":
            return await agent(prompt, turn)
        await turn.session.cancel()
        await turn.session.inject("what I found")
        await turn.cancelled.wait()
        return TurnEnd(prompt.ownership, "cancelled")

    await deployment.replica()
    await deployment.worker(cancels_itself)
    scene = Scene(deployment, agent, await deployment.opened())
    await scene.send("one")
    await seen(scene.session, "cancel.settled")
    await scene.idle()
    assert await scene.pending() == ["what I found"]
    await scene.send("two")
    call = await agent.next()
    assert call.bodies == ["what I found", "two"]
    call.done()
    await scene.judged()


async def test_what_a_given_up_agent_says_is_refused(scene: Scene) -> None:
    """44, 59: after an escalation neither text nor a boundary nor a completion of that turn counts."""
    call = await scene.run("one")
    await scene.send("steer", list="next-step")
    assert await scene.outcome(await scene.cancel()) == "escalated"
    with pytest.raises(Superseded):
        await call.turn.emit("more")
    with pytest.raises(Superseded):
        await call.turn.take_steering()
    assert not await call.turn.report(TurnEnd(call.prompt.ownership))
    await scene.idle()
    assert await scene.pending() == ["steer"]
