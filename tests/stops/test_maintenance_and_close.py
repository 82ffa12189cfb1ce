"""Wake-latch D, E and G: jobs that own the idle session, closing it, and what is built on both.

D69's parents and children, E72 and E77-E79 (listeners inside the loop, refused appends) have no counterpart: a script
writes a turn's end whole. G94-G97, G102 are goals and jobs of that product; what they need of this layer is here.
"""

from __future__ import annotations

import asyncio

import pytest

from coordinator import Orchestrator, Session
from coordinator.domain.errors import SessionBusy, SessionClosed, Superseded
from coordinator.domain.events import AgentStopped
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Scene, aborted
from tests.support.watch import BOUND, seen


async def test_a_prompt_during_a_job_runs_after_it_and_a_waiter_covers_both(scene: Scene) -> None:
    """D63: latched; no status of its own."""
    async with scene.session.maintain("compaction"):
        assert (await scene.send("one")).placement == "latched"
        waiting = asyncio.create_task(_covers(scene))
        assert await scene.told("session.status") == []
        assert not scene.puppet.is_asked
    await scene.goes_on("one")
    await waiting
    assert await scene.turns() == [("completed", "one")]


async def _covers(scene: Scene) -> None:
    await seen(scene.session, "turn.started")
    await scene.idle()


async def test_what_was_taken_back_during_a_job_starts_nothing(scene: Scene) -> None:
    """D64, G5: no turn at all, not even an empty one."""
    async with scene.session.maintain("compaction"):
        receipt = await scene.send("one")
        await scene.session.inbox.remove(receipt.message_id)
    assert await scene.told("session.status", "turn.started") == []
    await scene.judged()


async def test_a_second_job_and_a_job_beside_a_turn_are_refused_at_once(scene: Scene) -> None:
    """D66: the first is unaffected."""
    begin = scene.kernel.maintenance.begin
    async with scene.session.maintain("first"):
        with pytest.raises(SessionBusy):
            await begin(scene.session.id, "j2", "second")
    call = await scene.run("one")
    with pytest.raises(SessionBusy):
        await begin(scene.session.id, "j2", "second")
    call.done()
    assert await scene.turns() == [("completed", "one")]


async def test_a_job_that_fails_gives_the_session_back(scene: Scene) -> None:
    """D67: its own error reaches its caller, and what came meanwhile runs."""
    with pytest.raises(ZeroDivisionError):
        await _fails(scene)
    await scene.goes_on("one")
    assert await scene.turns() == [("completed", "one")]


async def _fails(scene: Scene) -> None:
    async with scene.session.maintain("compaction"):
        await scene.send("one")
        raise ZeroDivisionError


async def test_what_was_parked_before_a_job_is_parked_after_it(scene: Scene) -> None:
    """D68, D69: nor does an inject during the job start anything; the next wake takes all, in order."""
    await scene.send("parked", wake=False)
    async with scene.session.maintain("compaction"):
        for text in ("notice 1", "notice 2"):
            await scene.send(text, list="next-step", wake=False)
    assert (await scene.session.snapshot()).status == "idle"
    assert await scene.told("session.status") == []
    await scene.send("wake")
    call = await scene.puppet.next()
    assert call.bodies == ["notice 1", "notice 2", "parked"]
    call.done()
    await scene.goes_on("wake")
    await scene.judged()


async def test_a_stop_asks_a_job_to_end_and_parks_what_came_before_it(scene: Scene) -> None:
    """G6, wake-latch 2.4: what was sent to the job's session before the stop is parked, what comes after runs."""
    async with scene.session.maintain("compaction") as job:
        await scene.send("before")
        stop = await scene.cancel()
        assert stop.known is None
        async with asyncio.timeout(BOUND):
            await job.cancelled.wait()
        assert job.cancel_cause == "user"
    assert await scene.outcome(stop) == "cancelled"
    assert (await scene.pending(), (await scene.session.snapshot()).status) == (["before"], "idle")
    await scene.send("after")
    await scene.goes_on("before", "after")
    await scene.judged()


async def test_a_job_that_ignores_a_stop_loses_the_session_at_the_deadline(scene: Scene) -> None:
    """Section 6: escalated; what was sent after the stop runs, and the job learns that it was too late."""
    with pytest.raises(Superseded):
        await _ignores(scene)
    assert await scene.turns() == [("completed", "after")]


async def _ignores(scene: Scene) -> None:
    async with scene.session.maintain("compaction"):
        await scene.cancel()
        await scene.send("after")
        await seen(scene.session, "cancel.settled", outcome="escalated")
        await scene.goes_on("after")


async def test_a_close_ends_what_runs_and_nothing_starts_again(scene: Scene) -> None:
    """E71, E81: cancelled, the tail is discarded, running then idle; a waiter resolves."""
    call = await scene.run("one", "two")
    waiting = asyncio.create_task(scene.session.wait_idle(timeout=BOUND))
    assert await scene.session.close() == "closing"
    assert await aborted(call) == "close"
    assert not waiting.done()
    call.done("cancelled")
    await waiting
    assert await scene.turns() == [("cancelled", "one")]
    assert await scene.told("session.status", "session.closed") == ["running", "idle", "session.closed"]


async def test_what_a_follower_sends_at_the_idle_edge_of_a_close_is_refused(scene: Scene) -> None:
    """E73, decided differently: it is not drained first. The same script that goes idle closes the session."""
    call = await scene.run("one")
    edge = asyncio.create_task(seen(scene.session, "session.status", status="idle"))
    await scene.session.close()
    await aborted(call)
    call.done("cancelled")
    await edge
    with pytest.raises(SessionClosed):
        await scene.send("late")
    await scene.judged()


async def test_two_closes_at_once_end_together_and_the_id_stays_taken(scene: Scene) -> None:
    """E74, E75: both see the same end; opening it again is refused until retention has removed it."""
    call = await scene.run("one")
    others = [scene.deployment.coord.session(scene.session.id) for _ in range(2)]
    assert await asyncio.gather(*(one.close() for one in others)) == ["closing", "closing"]
    waits = [asyncio.create_task(one.wait_idle(timeout=BOUND)) for one in others]
    await aborted(call)
    assert not any(wait.done() for wait in waits)
    with pytest.raises(SessionClosed):
        await others[0].open()
    call.done("cancelled")
    await asyncio.gather(*waits)
    assert [await one.close() for one in others] == ["closed", "closed"]
    with pytest.raises(SessionClosed):
        await others[0].open()
    assert await scene.told("session.closed") == ["session.closed"]


async def test_a_handler_that_raises_changes_nothing_about_a_close(deployment: Deployment) -> None:
    """E72, E80: handlers are asked afterwards, and their faults stay theirs."""
    agent, orchestrator, heard = Puppet(), Orchestrator(deployment.coord), asyncio.Event()

    @orchestrator.on_event("agent.stopped")
    async def stopped(event: AgentStopped, session: Session) -> None:
        heard.set()
        raise ZeroDivisionError

    await deployment.replica(orchestrator)
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    call = await scene.run("one")
    await scene.session.close()
    await aborted(call)
    call.done("cancelled")
    async with asyncio.timeout(BOUND):
        await heard.wait()
    assert await scene.turns() == [("cancelled", "one")]


async def test_after_a_failed_turn_a_steer_runs_what_was_queued_too(scene: Scene) -> None:
    """G99: an error parks the queue; the next wake takes both, the steering at the boundary."""
    call = await scene.run("one", "human")
    call.done("error")
    await scene.idle()
    assert await scene.pending() == ["human"]
    await scene.send("steer", list="next-step")
    call = await scene.puppet.next()
    assert call.bodies == ["steer", "human"]
    call.done()
    await scene.judged()


async def test_a_wake_whose_message_is_taken_back_still_has_its_edges(deployment: Deployment) -> None:
    """G95, G96: running, an empty turn, idle: who waits for the end of what it sent sees one."""
    agent = Puppet()
    scene = Scene(deployment, agent, await deployment.opened())
    receipt = await scene.send("one")
    await scene.session.inbox.remove(receipt.message_id)
    await deployment.replica()
    await deployment.worker(agent)
    ended = await seen(scene.session, "turn.ended")
    assert (ended.fields["reason"], ended.fields["empty"]) == ("completed", "1")
    await scene.judged()
    assert await scene.told("session.status", "turn.started", "turn.ended") == [
        "running", "turn.started", "turn.ended", "idle",
    ]  # fmt: skip
    assert not agent.prompts
