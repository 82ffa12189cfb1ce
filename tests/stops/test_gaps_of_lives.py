"""Wake-latch 4.6, gaps G14 to G20: what must survive a start that fails, a repeat, a crash.

Each docstring says what the naive version does.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from coordinator import Reentry, Session
from coordinator.domain.records import Ownership
from coordinator.domain.verdicts import Verdict
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Resident, Scene, aborted
from tests.support.watch import BOUND, seen
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd


async def test_g14_a_start_that_nobody_carries_out_ends_or_goes_on(deployment: Deployment) -> None:
    """G14. Naive: the session was marked running before anything could fail, and stays so for ever.

    Here it always has a deadline: a lost placement is offered again, a failed start is an end, and a stop ends it.
    """
    agent = Resident()

    async def fails(execution: Execution) -> None:
        agent.executions.append(execution)
        raise OSError("no such program")

    scene = Scene(deployment, agent, await deployment.opened())
    await scene.send("one")
    view = await scene.session.snapshot()
    assert (view.status, [one.kind for one in view.deadlines]) == ("running", ["placement"])
    assert (await scene.cancel()).known == "cancelled"
    agent.start = fails  # type: ignore[method-assign]
    await deployment.replica()
    await deployment.worker(agent)
    await scene.send("two")
    await seen(scene.session, "error", where="start")
    await scene.idle()
    assert await scene.pending() == ["one", "two"]
    assert len(agent.executions) == 1


@pytest.mark.parametrize("claimed", [True, False])
async def test_g15_what_waits_behind_a_followers_own_start_and_stop_is_not_lost(scene: Scene, claimed: bool) -> None:
    """G15. Naive: W1 is consumed by a turn that was stopped with empty hands, W2 and C are parked for good.

    Here W1 is with its agent, or else pending like the others; the next wake runs what is left, in order.
    """
    call = await scene.run("one")
    stop = await scene.cancel()
    for text in ("W1", "W2"):
        await scene.send(text)
    await aborted(call)
    async with AsyncExitStack() as guard:
        if not claimed:
            await guard.enter_async_context(scene.session.guard(timeout=BOUND))
        call.done("cancelled")
        await seen(scene.session, "session.status", status="idle")
        if claimed:
            call = await scene.puppet.next()
            assert call.prompt.text == "W1"
        await scene.send("C")
        stop = await scene.cancel()
        assert (stop.known is None) is claimed
    if claimed:
        await aborted(call)
        call.done("cancelled")
        assert await scene.outcome(stop) == "cancelled"
    await scene.idle()
    left = ["W2", "C"] if claimed else ["W1", "W2", "C"]
    assert await scene.pending() == left
    await scene.send("wake")
    await scene.goes_on(*left, "wake")
    oracle = await scene.judged()
    assert all(len(message.turns) == 1 for message in oracle.messages.values())


@pytest.mark.parametrize("moment", ["pending", "open", "ended"])
async def test_g16_a_message_sent_twice_runs_once_whenever_it_is_repeated(scene: Scene, moment: str) -> None:
    """G16. Naive: its id is known while it is pending only, and a repeat after the claim runs again."""
    call = await scene.run("one")
    first = await scene.send("m", message_id="m")
    if moment != "pending":
        call.done()
        call = await scene.puppet.next()
    if moment == "ended":
        await scene.cancelled(call)
    again = await scene.send("m", message_id="m")
    assert (again.duplicate, again.sequence) == (True, first.sequence)
    if moment != "ended":
        call.done()
    if moment == "pending":
        await scene.goes_on("m")
    oracle = await scene.judged()
    assert oracle.messages["m"].turns == [2]


async def test_g17_what_is_sent_to_a_closing_session_does_not_come_back_to_life(scene: Scene) -> None:
    """G17. Naive: its log holds a prompt that was inserted and never cancelled, and a resume runs it later."""
    call = await scene.run("one")
    await scene.session.close()
    await scene.send("steer", list="next-step")
    await aborted(call)
    call.done("cancelled")
    oracle = await scene.judged()
    assert [one.discarded for one in oracle.messages.values()] == ["", "closed"]
    assert await scene.pending() == []


async def test_g18_waiting_for_oneself_is_refused_at_once(deployment: Deployment) -> None:
    """G18. Naive: it never resolves. Here in a turn, in a task that it starts, and in a maintenance job."""
    refused: list[str] = []

    async def agent(prompt: Prompt, turn: Turn) -> TurnEnd | None:
        for call in (turn.session.wait_idle(), asyncio.create_task(turn.session.wait_idle())):
            try:
                await call
            except Reentry:
                refused.append("turn")
        return None

    await deployment.replica()
    await deployment.worker(agent)
    scene = Scene(deployment, Puppet(), await deployment.opened())
    await scene.send("one")
    await seen(scene.session, "turn.ended")
    await scene.judged()
    with pytest.raises(Reentry):
        await _in_a_job(scene.session)
    assert refused == ["turn", "turn"]


async def _in_a_job(session: Session) -> None:
    async with session.maintain("job"):
        await session.wait_idle(timeout=BOUND)


async def test_g19_no_turn_opens_before_the_end_of_the_last_is_written(resident: Scene) -> None:
    """G19. Naive: an append that fails leaves turn 1 open, and turn 2 begins all the same.

    Here the end is repeated until it is recorded, and nothing is claimed meanwhile.
    """
    call = await resident.run("one", "two")
    assert isinstance(resident.puppet, Resident)
    faulty, waiting = resident.puppet.faulty, []

    async def look() -> None:
        view = await resident.session.snapshot()
        waiting.append((view.open_turn, resident.puppet.is_asked))

    for occurrence in (1, 2, 3):
        faulty.drop_call("finish", occurrence)
        faulty.before("finish", look, occurrence)
    call.done()
    await resident.goes_on("two")
    assert waiting == [(1, False)] * 3
    assert await resident.turns() == [("completed", "one"), ("completed", "two")]


async def test_g20_a_wake_in_the_window_survives_everybody_who_knew_of_it(deployment: Deployment) -> None:
    """G20. Naive: the latch is in memory; after a crash the session sits idle with its wake.

    The worker is taken for dead in the middle of the stop; whoever ends the prompt derives the restart from the record.
    """
    agent, session = Puppet(), await deployment.opened()
    scene = Scene(deployment, agent, session)
    await deployment.worker(agent)
    call = await scene.run("one", "parked")
    await scene.cancel()
    assert (await scene.send("wake")).placement == "latched"
    kernel, owned = scene.kernel, call.prompt.ownership
    assert await kernel.stops.escalate(session.id, owned, "its worker is gone")
    stale = await kernel.turns.finish(session.id, Ownership(*_parts(owned)), call.turn.session.id, "cancelled")
    assert stale.verdict is Verdict.STALE
    await deployment.replica()
    await scene.goes_on("parked", "wake")
    assert [taken for _, taken in await scene.turns()] == ["one", "parked", "wake"]


def _parts(owned: Ownership) -> tuple[str, int, str]:
    return owned.execution_id, owned.generation, owned.claim_id
