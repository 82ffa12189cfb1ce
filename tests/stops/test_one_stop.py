"""Kandev B: one stop, and every way in which an agent takes it.

B16 (a terminal without a protocol) has no counterpart here.
"""

from __future__ import annotations

import asyncio

import pytest

from coordinator import Orchestrator, Session
from coordinator.domain.errors import Superseded
from coordinator.handlers import SettledTurn
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Scene, aborted
from tests.support.watch import BOUND, seen
from workers.agents.protocol import TurnEnd


async def test_an_agent_that_obeys_ends_its_turn_as_cancelled(scene: Scene) -> None:
    """B1, D19: no escalation; the execution is kept, and the session is idle."""
    call = await scene.run("one")
    assert await scene.cancelled(call) == "cancelled"
    await scene.send("two")
    await scene.goes_on("two")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two")]
    assert len((await scene.judged()).workers) == 1
    assert (await scene.session.snapshot()).status == "idle"


async def test_an_agent_that_never_answers_is_escalated_at_the_deadline(scene: Scene) -> None:
    """B2: one ready, reason `escalated`; the late completion changes nothing, and the next turn has a new execution."""
    call = await scene.run("one")
    stop = await scene.cancel()
    asked = await seen(scene.session, "cancel.requested")
    assert await scene.outcome(stop) == "escalated"
    settled = await seen(scene.session, "cancel.settled")
    took = int(settled.fields["at_ms"]) - int(asked.fields["at_ms"])
    assert 600 <= took < 600 + 1000
    assert not await call.turn.report(TurnEnd(call.prompt.ownership))
    await scene.send("two")
    await scene.goes_on("two")
    assert await scene.turns() == [("escalated", "one"), ("completed", "two")]
    oracle = await scene.judged()
    assert oracle.stale == 1
    assert oracle.turns[1].execution_id != oracle.turns[2].execution_id


async def test_an_agent_that_says_it_cannot_stop_is_escalated_at_once(scene: Scene) -> None:
    """B3: nobody waits for the deadline."""
    call = await scene.run("one")
    stop = await scene.cancel()
    await aborted(call)
    escalating = asyncio.create_task(call.turn.cannot_cancel("the provider has no cancel"))
    assert await scene.outcome(stop) == "escalated"
    await escalating
    asked, settled = await seen(scene.session, "cancel.requested"), await seen(scene.session, "cancel.settled")
    assert int(settled.fields["at_ms"]) - int(asked.fields["at_ms"]) < 600
    ended = await seen(scene.session, "error", where="execution")
    assert ended.fields["message"] == "the provider has no cancel"
    with pytest.raises(Superseded):
        await call.turn.emit("more")
    assert await scene.turns() == [("escalated", "one")]


async def test_without_a_cancel_an_agent_can_not_end_its_turn_that_way(scene: Scene) -> None:
    """B3: nothing is pending, so nothing is escalated."""
    call = await scene.run("one")
    await call.turn.cannot_cancel("not asked")
    call.done()
    assert await scene.turns() == [("completed", "one")]


async def test_with_nothing_to_stop_a_stop_writes_nothing(scene: Scene) -> None:
    """B5, B4 (idle): outcome `idle` at once, and no entry in the log."""
    assert (await scene.cancel()).known == "idle"
    assert await scene.cancelled(await scene.run("one")) == "cancelled"
    await scene.idle()
    before = await scene.told()
    for kind in ("user", "parent", "silent", "system"):
        assert (await scene.cancel(kind=kind)).known == "idle"
    assert await scene.told() == before


async def test_a_caller_that_gives_up_changes_nothing_about_its_stop(scene: Scene) -> None:
    """B6, B14, D4: its wait ends, the prompt stays owed until its agent answers, and the stop goes on."""
    call = await scene.run("one")
    stop = await scene.cancel()
    waiting = asyncio.create_task(scene.outcome(stop))
    await aborted(call)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    view = await scene.session.snapshot()
    assert (view.open_turn, view.cancel_pending) == (1, True)
    call.done("cancelled")
    assert await scene.turns() == [("cancelled", "one")]
    assert not (await scene.session.snapshot()).cancel_pending


async def test_a_stop_under_a_guard_ends_although_its_ready_waits_for_that_guard(deployment: Deployment) -> None:
    """B7, B20: the ready is data; its settlement runs when the guard is free."""
    agent, orchestrator = Puppet(), Orchestrator(deployment.coord)
    evaluated: list[str] = []

    @orchestrator.on_turn_complete
    async def evaluate(turn: SettledTurn, session: Session) -> None:
        evaluated.append(turn.reason)

    await deployment.replica(orchestrator)
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    call = await scene.run("one")
    async with scene.session.guard(timeout=BOUND) as guard:
        stop = await guard.cancel()
        await aborted(call)
        call.done("completed")
        assert await scene.outcome(stop) == "completed"
        assert (await scene.session.snapshot()).unsettled_turn == 1
    assert await scene.turns() == [("completed", "one")]


async def test_a_handler_that_hangs_under_the_guard_delays_no_stop(deployment: Deployment) -> None:
    """B20: cancel looks at no guard, and nothing that a stop needs waits behind a handler."""
    agent, orchestrator = Puppet(), Orchestrator(deployment.coord)
    hangs, free = asyncio.Event(), asyncio.Event()

    @orchestrator.on_turn_complete
    async def evaluate(turn: SettledTurn, session: Session) -> None:
        hangs.set()
        await free.wait()

    await deployment.replica(orchestrator)
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    (await scene.run("one", "two")).done()
    async with asyncio.timeout(BOUND):
        await hangs.wait()
        assert (await scene.cancel()).known == "cancelled"
    assert (await scene.session.snapshot()).status == "idle"
    free.set()
    assert await scene.turns(rests=False) == [("completed", "one")]
    assert await scene.pending() == ["two"]


async def test_an_abort_of_an_earlier_prompt_never_reaches_a_later_one(scene: Scene) -> None:
    """B9, B18: the hint names its generation; the prompt that runs now is the one that a new stop ends."""
    call = await scene.run("one", "two")
    call.done()
    call = await scene.puppet.next()
    keys, view = scene.kernel.store.keys, await scene.session.snapshot()
    hint = f"abort {scene.session.id} {view.generation - 1} {view.activity} user"
    assert await scene.kernel.store.redis.publish(keys.control(view.worker_id), hint) == 1
    # A hint that came later is answered: so the one before it was heard.
    await scene.send("three", list="next-step")
    assert await call.steered() == ["three"]
    assert not call.turn.cancelled.is_set()
    stop = await scene.cancel(expected_generation=view.generation)
    assert await aborted(call) == "user"
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    assert await scene.turns() == [("completed", "one"), ("cancelled", "two", "three")]


async def test_a_driver_that_waits_under_a_guard_is_let_go_by_a_close(scene: Scene) -> None:
    """B19: a prompt that waits for its turn ends with its session."""
    await (await scene.run("one")).turn.emit("x")
    async with scene.session.guard(timeout=BOUND):
        await scene.send("two")
        await scene.outcome((await scene.cancel()).id)
        await scene.send("three")
        assert await scene.kernel.sessions.close(scene.session.id) == "closed"
    assert await scene.told("session.closed") == ["session.closed"]
    assert not scene.puppet.is_asked
