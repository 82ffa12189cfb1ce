"""Kandev D and E: several stops at once, what else goes on meanwhile, and the progress that everybody can see.

D5 (the runtime's cancel fails) is decided differently: a stop does not fail. An agent that raises when it is asked
ends its turn as an error, the operation as completed; one that does nothing is escalated. D13 (a turn still open after
the reconcile) can't occur: one script ends the turn and the operation.
"""

from __future__ import annotations

import asyncio

import pytest

from coordinator import Orchestrator, Session
from coordinator.domain.errors import SessionClosed
from coordinator.domain.records import Ownership
from coordinator.domain.verdicts import Verdict
from coordinator.handlers import SettledTurn
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Resident, Scene, aborted
from tests.support.watch import BOUND, seen
from workers.agents.protocol import DispatchFailed


async def test_many_stops_at_once_are_one(scene: Scene) -> None:
    """D1, E1: one operation and ticket, one note, one end, a deadline that stays; one true and one false."""
    call = await scene.run("one")
    first = await scene.cancel()
    deadline = await _deadline(scene)
    more = await asyncio.gather(*(scene.cancel() for _ in range(5)))
    assert await _deadline(scene) == deadline > 0
    assert {stop.id for stop in more} == {first.id}
    await aborted(call)
    call.done("cancelled")
    assert {await scene.outcome(stop) for stop in (first, *more)} == {"cancelled"}
    oracle = await scene.judged()
    assert (oracle.operations.by_user, oracle.operations.revision) == ([1], 2)
    assert await scene.told("cancel.requested", "cancel.settled", "turn.cancelled_by_user") == [
        "turn.cancelled_by_user", "cancel.requested", "cancel.settled",
    ]  # fmt: skip


async def _deadline(scene: Scene) -> int:
    return sum(one.at_ms for one in (await scene.session.snapshot()).deadlines if one.kind == "cancel")


async def test_a_person_joins_a_silent_stop_and_gets_the_persons_effects_once(scene: Scene) -> None:
    """D2: one abort, whose cause stays the first; note and parking come with the upgrade."""
    call = await scene.run("one", "two")
    silent = await scene.cancel(kind="silent")
    assert (await scene.session.snapshot()).park_mark == 0
    user = await scene.cancel()
    assert user.id == silent.id
    assert await aborted(call) == "silent"
    call.done("cancelled")
    assert await scene.outcome(user) == "cancelled"
    oracle = await scene.judged(rests=False)
    assert oracle.operations.kinds == {silent.id: ["silent", "user"]}
    assert oracle.operations.by_user == [1]
    assert await scene.pending() == ["two"]


@pytest.mark.parametrize("kind", ["silent", "parent", "system"])
async def test_no_other_stop_is_a_persons(deployment: Deployment, kind: str) -> None:
    """D3, F: no note and no evaluation, also of an agent that completes all the same; only parents park."""
    agent, orchestrator = Puppet(), Orchestrator(deployment.coord)
    evaluated: list[int] = []

    @orchestrator.on_turn_complete
    async def evaluate(turn: SettledTurn, session: Session) -> None:
        evaluated.append(turn.turn)

    await deployment.replica(orchestrator)
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    call = await scene.run("one", "two")
    assert await scene.cancelled(call, kind=kind) == "cancelled"
    if kind == "parent":
        await scene.idle()
        assert await scene.pending() == ["two"]
        await scene.send("wake")
    await scene.goes_on("two", *["wake"] * (kind == "parent"))
    oracle = await scene.judged()
    assert oracle.operations.by_user == []
    assert evaluated == list(oracle.turns)[1:]


async def test_an_agent_that_fails_when_it_is_asked_has_ended_all_the_same(scene: Scene) -> None:
    """D5, decided differently: the turn is an error with its text, the operation is over, and the error parks nothing.

    Only the stop does: what was sent during it runs.
    """
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    await scene.send("late")
    await aborted(call)
    call.raises(OSError("no such process"))
    assert await scene.outcome(stop) == "completed"
    await scene.goes_on("two", "late")
    assert await scene.turns() == [("error", "one"), ("completed", "two"), ("completed", "late")]


async def test_what_is_late_of_others_changes_nothing_during_a_stop(scene: Scene) -> None:
    """D9: a boot, an end, a release and a loss that name another execution or prompt are answered, and that is all."""
    call, kernel, session_id = await scene.run("one"), scene.kernel, scene.session.id
    stop = await scene.cancel()
    before = (await scene.session.snapshot()).cancel_revision
    assert not await kernel.executions.boot(session_id, "x-old")
    stale = await kernel.turns.finish(session_id, Ownership("x-old", 1, "c-old"), "a-old", "completed")
    assert stale.verdict is Verdict.STALE
    await kernel.executions.release(session_id, "x-old")
    assert not await kernel.stops.escalate(session_id, Ownership("x-old", 1, "c-old"), "it says so")
    lost = await kernel.deadlines.expire("lease", session_id, "1")
    assert lost.verdict is Verdict.NOT_DUE
    view = await scene.session.snapshot()
    assert (view.open_turn, view.cancel_pending, view.cancel_revision) == (1, True, before)
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    await scene.judged()


async def test_a_prompt_during_a_stop_waits_for_its_end(scene: Scene) -> None:
    """D10: latched, then a turn of its own, behind the idle edge."""
    call = await scene.run("one")
    stop = await scene.cancel()
    assert (await scene.send("two")).placement == "latched"
    await aborted(call)
    assert not scene.puppet.is_asked
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    await scene.goes_on("two")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two")]
    assert (await scene.judged()).intervals == [[1], [2]]


async def test_a_slow_stop_holds_nobody_up(deployment: Deployment, scene: Scene) -> None:
    """D12, D15: the guard is free, output and reads go on, and other sessions are stopped meanwhile."""
    call = await scene.run("one")
    stop = await scene.cancel()
    await aborted(call)
    async with scene.session.guard(timeout=0):
        pass
    await call.turn.emit("tidying up")
    assert (await seen(scene.session, "output")).fields["text"] == "tidying up"
    other = Scene(deployment, scene.puppet, await deployment.opened())
    assert await other.cancelled(await other.run("other")) == "cancelled"
    assert (await scene.session.snapshot()).cancel_pending
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    await scene.judged()


async def test_guards_of_stopped_sessions_do_not_pile_up(deployment: Deployment, scene: Scene) -> None:
    """D14: a guard is a key with a TTL, gone with its release."""
    for session in [await deployment.opened() for _ in range(10)]:
        async with session.guard(timeout=BOUND) as guard:
            await guard.cancel()
    assert not [key async for key in scene.kernel.store.redis.scan_iter(match="*:guard")]


async def test_a_close_overrides_a_stop_and_ends_with_it(scene: Scene) -> None:
    """D16, wake-latch 57, 71: the cause stays the first; what was queued never starts; closed when nothing is open."""
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    assert await scene.kernel.sessions.close(scene.session.id) == "closing"
    assert await aborted(call) == "user"
    assert (await scene.send("three")).placement == "parked"
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    oracle = await scene.judged()
    assert oracle.closed
    assert oracle.operations.kinds == {stop.id: ["user", "close"]}
    assert [message.discarded for message in oracle.messages.values()] == ["", "closed", "closed"]
    with pytest.raises(SessionClosed):
        await scene.send("four")


@pytest.mark.parametrize("moment", ["placement", "start", "running", "settlement"])
async def test_a_stop_at_every_moment_ends_what_runs(deployment: Deployment, moment: str) -> None:
    """D6, D17: also with no worker, during the start, and between two turns; nothing revives it afterwards."""
    agent = Resident()
    scene = Scene(deployment, agent, await deployment.opened())
    if moment in {"placement", "start"}:
        agent.may_start.clear()
        await scene.send("one")
        if moment == "start":
            await deployment.worker(agent)
            await agent.starting.acquire()
        assert (await scene.session.snapshot()).waiting_for == moment
        assert (await scene.cancel()).known == "cancelled"
    else:
        await deployment.worker(agent)
        call = await scene.run("one", "two")
        if moment == "running":
            assert await scene.cancelled(call) == "cancelled"
        else:
            call.done()
            await seen(scene.session, "turn.ended")
            assert (await scene.session.snapshot()).waiting_for == "settlement"
            assert (await scene.cancel()).known == "cancelled"
    assert (await scene.session.snapshot()).status == "idle"
    agent.may_start.set()
    await deployment.replica()
    if moment == "placement":
        await deployment.worker(agent)
    left = await scene.pending()
    assert left == (["one"] if moment in {"placement", "start"} else ["two"])
    # A worker that is known to be at work, and has left this session alone.
    other = Scene(deployment, agent, await deployment.opened())
    (await other.run("other")).done()
    await other.idle()
    assert (await scene.session.snapshot()).status == "idle"
    await scene.send("wake")
    await scene.goes_on(*left, "wake")
    await scene.judged()


async def test_a_retry_that_is_armed_never_fires_after_a_stop(resident: Scene) -> None:
    """D18: a failed dispatch goes back in line; under a stop it is used up, and what is in line is parked."""
    call = await resident.run("one", "two")
    stop = await resident.cancel()
    await aborted(call)
    call.raises(DispatchFailed("the agent was not there"))
    assert await resident.outcome(stop) == "completed"
    assert await resident.turns(rests=False) == [("error", "one")]
    assert await resident.pending() == ["two"]
