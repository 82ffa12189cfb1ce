"""A worker and its execution: accepting an activity, booting, giving it back, going away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import AgentFailed, AgentLost, AgentStopped
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, heard, unchanged

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def offered(kernel: Kernel, **policy: object) -> Scene:
    """A session that waits for a worker."""
    scene = await Scene(kernel).opened(**policy)
    await scene.sent()
    return scene


async def test_accepting_gives_a_lease_and_a_bound_for_the_start(kernel: Kernel) -> None:
    """Section 4, accept_activity: worker, execution, lease, start deadline; the offer no longer waits."""
    scene = await offered(kernel)
    accepted = await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    assert (accepted.verdict, accepted.resume_token) == (Verdict.OK, "")
    view = await scene.view()
    assert (view.execution_id, view.worker_id, view.execution_status) == ("e1", "w1", "starting")
    assert (set(await scene.deadlines()), view.waiting_for) == ({"lease", "start"}, "start")


async def test_a_repeated_acceptance_gets_the_same_answer(kernel: Kernel) -> None:
    """F13: the execution id, made by the worker, tells a repeat from a second taker; also when it has booted since."""
    scene = await offered(kernel)
    for _ in range(2):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")).verdict is Verdict.OK
    await kernel.executions.boot(scene.sid, "e1", "resume-1")
    async with unchanged(kernel):
        again = await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    assert (again.verdict, again.resume_token) == (Verdict.OK, "resume-1")


@pytest.mark.parametrize("worker", ["w1", "w2"])
async def test_an_activity_has_one_taker(kernel: Kernel, worker: str) -> None:
    """A22, F13: a second execution is refused, on another worker as on the same."""
    scene = await offered(kernel)
    await scene.booted()
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", worker)).verdict is Verdict.TAKEN


async def test_an_offer_of_an_activity_that_is_over_is_superseded(kernel: Kernel) -> None:
    """A late arq job changes nothing, whatever the session does by then."""
    scene = await offered(kernel)
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, "other", "e1", "w1")).verdict is Verdict.SUPERSEDED
    await scene.booted()
    ownership = (await scene.claimed()).ownership
    assert ownership
    await scene.finished(ownership)
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.SUPERSEDED
        assert (await kernel.executions.accept(scene.sid, "", "e2", "w2")).verdict is Verdict.SUPERSEDED
        assert (await kernel.executions.accept("nobody", "a", "e1", "w1")).verdict is Verdict.NO_SESSION


async def test_a_live_execution_keeps_its_session_and_is_told_of_the_activity(kernel: Kernel) -> None:
    """Section 4: no second execution beside a live one; the hint to its worker is really published."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await scene.sent("again")
    control = kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far, unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.LIVE
        assert await so_far() == [(control, f"run s {scene.token}")]


async def test_an_execution_whose_lease_has_run_out_is_replaced_and_suspect(kernel: Kernel) -> None:
    """Section 6: nobody knows whether its agent has stopped, so it is remembered and never used again."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await scene.sent("again")
    await scene.swept()
    await scene.make_due("lease")
    accepted = await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")
    assert (accepted.verdict, accepted.resume_token) == (Verdict.OK, "resume-1")
    view = await scene.view()
    assert (view.execution_id, view.suspects) == ("e2", ("e1",))
    assert [event.execution_id for _, event in await scene.events() if isinstance(event, AgentLost)] == ["e1"]
    async with unchanged(kernel):
        assert not await kernel.executions.boot(scene.sid, "e1")
        assert (await scene.claimed()).verdict is Verdict.SUPERSEDED


async def test_a_suspect_never_takes_an_activity(kernel: Kernel) -> None:
    """A suspect is not live for placement, and its id is not accepted again."""
    scene = await Scene(kernel).opened()
    await scene.prompted(accept=False)
    assert await scene.expired("lease") == "OK"
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")).verdict is Verdict.SUPERSEDED
    assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w1")).verdict is Verdict.OK


async def test_an_execution_that_drives_can_not_be_released(kernel: Kernel) -> None:
    """Section 4, release: the current one only when it drives nothing; not while starting, open or between turns."""
    scene = await offered(kernel)
    await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    async with unchanged(kernel):
        assert not await kernel.executions.release(scene.sid, "e1")
    await kernel.executions.boot(scene.sid, "e1")
    scene.execution = "e1"
    ownership = (await scene.claimed()).ownership
    assert ownership
    await scene.sent("more")
    async with unchanged(kernel):
        assert not await kernel.executions.release(scene.sid, "e1")
    await scene.finished(ownership)
    async with unchanged(kernel):
        assert not await kernel.executions.release(scene.sid, "e1")


async def test_an_idle_execution_is_released_once_and_visibly(kernel: Kernel) -> None:
    """Its repeat, and a stranger's, find it gone and write nothing; the resume token stays for the next one."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    assert await kernel.executions.release(scene.sid, "e1", "idle")
    view = await scene.view()
    assert (view.execution_id, view.worker_id, view.execution_status, view.resume_token) == ("", "", "none", "resume-1")
    assert set(await scene.deadlines()) == {"retention"}
    stopped = [event for _, event in await scene.events() if isinstance(event, AgentStopped)]
    assert [(event.execution_id, event.reason) for event in stopped] == [("e1", "idle")]
    async with unchanged(kernel):
        assert await kernel.executions.release(scene.sid, "e1", "idle")
        assert await kernel.executions.release("nobody", "e1", "idle")


async def test_releasing_an_execution_that_an_activity_waits_for_offers_it_anew(kernel: Kernel) -> None:
    """A wake that was hinted to a worker on its way out is placed elsewhere, and not forgotten."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await scene.sent("again")
    assert await kernel.executions.release(scene.sid, "e1", "idle")
    offers = await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1)
    assert any(scene.token in offer for offer in offers)
    assert "placement" in await scene.deadlines()
    assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.OK


async def test_a_suspect_is_forgotten_when_its_worker_reports_it_gone(kernel: Kernel) -> None:
    """Section 6: remembered in the set until its worker releases it; the others stay."""
    scene = await Scene(kernel).opened()
    for execution in ("e1", "e2"):
        if not scene.token:
            await scene.sent()
        await scene.booted(execution)
        await scene.expired("lease")
    assert (await scene.view()).suspects == ("e1", "e2")
    assert await kernel.executions.release(scene.sid, "e1")
    assert ((await scene.view()).suspects, "suspect" in await scene.deadlines()) == (("e2",), True)
    assert await kernel.executions.release(scene.sid, "e2")
    assert ((await scene.view()).suspects, "suspect" in await scene.deadlines()) == ((), False)
    async with unchanged(kernel):
        assert await kernel.executions.release(scene.sid, "e2")


async def test_a_start_that_failed_parks_what_is_queued(kernel: Kernel) -> None:
    """Section 4, retire: mark raised, `error` logged, `agent.failed` told; a later wake runs all of it in order."""
    scene = await offered(kernel)
    await scene.sent("more")
    await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    end = await kernel.turns.retire(scene.sid, scene.token, "e1", error="no such program")
    assert end.verdict is Verdict.GONE
    view = await scene.view()
    assert (view.status, view.park_mark, view.execution_status, view.execution_id) == ("idle", 2, "failed", "")
    assert (await scene.log())[-2]["message"] == "no such program"
    failed = [event for _, event in await scene.events() if isinstance(event, AgentFailed)]
    assert [event.reason for event in failed] == ["no such program"]
    assert set(await scene.deadlines()) == {"retention"}
    await scene.sent("wake")
    await scene.booted("e2", "w2")
    assert [message.body for message in (await scene.claimed()).messages] == ["hello"]


async def test_a_worker_that_leaves_hands_a_waiting_activity_to_another(kernel: Kernel) -> None:
    """Section 9, drain: nothing is parked; the session goes idle and runs again under a new token, placed elsewhere."""
    scene = await offered(kernel)
    await scene.booted()
    end = await kernel.turns.retire(scene.sid, scene.token, "e1", next_token="next")
    assert (end.verdict, end.token) == (Verdict.RESTARTED, "next")
    view = await scene.view()
    assert (view.activity, view.execution_id, view.suspects, view.park_mark) == ("next", "", (), 0)
    assert (await scene.types())[-2:] == ["idle", "running"]
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.SUPERSEDED
    assert (await kernel.executions.accept(scene.sid, "next", "e2", "w2")).verdict is Verdict.OK


async def test_a_repeated_retirement_gets_the_first_answer(kernel: Kernel) -> None:
    """A repeat after a lost reply names the restarted activity again, so that its placement is offered."""
    scene = await offered(kernel)
    await scene.booted()
    first = await kernel.turns.retire(scene.sid, scene.token, "e1", next_token="next")
    await kernel.store.redis.delete(kernel.store.keys.queue)
    async with unchanged(kernel, {"arq:*", "*:doorbell"}):
        assert await kernel.turns.retire(scene.sid, scene.token, "e1", next_token="next") == first
    assert await kernel.store.redis.zcard(kernel.store.keys.queue) == 1
    await kernel.executions.accept(scene.sid, "next", "e2", "w2")
    async with unchanged(kernel):
        assert await kernel.turns.retire(scene.sid, scene.token, "e1", next_token="next") == first


async def test_only_the_driver_retires_and_only_with_nothing_open(kernel: Kernel) -> None:
    """Retire proves token and execution; with a prompt open it is finish that ends it."""
    scene = await offered(kernel)
    async with unchanged(kernel):
        assert (await kernel.turns.retire(scene.sid, scene.token, "e1")).verdict is Verdict.SUPERSEDED
    await scene.booted()
    async with unchanged(kernel):
        for token, execution in (("other", "e1"), (scene.token, "e2"), ("", "e1"), ("", "")):
            assert (await kernel.turns.retire(scene.sid, token, execution)).verdict is Verdict.SUPERSEDED
        assert (await kernel.turns.retire("nobody", "a", "e1")).verdict is Verdict.SUPERSEDED
    await scene.claimed()
    async with unchanged(kernel):
        assert (await kernel.turns.retire(scene.sid, scene.token, "e1")).verdict is Verdict.SUPERSEDED
