"""Entering a step of a workflow: decided in one script, ended once, and in nobody's way for ever (section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import InvalidId, UsageError, WorkflowUnknown
from coordinator.domain.events import StepEntered
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step, Workflow
from tests.scripts.flow import FLOW, entered, entries, in_step, of_type, on_workflow
from tests.scripts.resetting import begun
from tests.scripts.scene import OFFERS, Scene, heard, unchanged
from tests.scripts.states import brought, owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def prompted_entry(kernel: Kernel) -> Scene:
    """A step is being entered, and a message waits for its end with a driver that is up."""
    scene = await on_workflow(kernel)
    await scene.sent("queued")
    await scene.booted()
    return scene


async def test_a_session_that_is_opened_on_a_workflow_enters_its_first_step(kernel: Kernel) -> None:
    """Step, entry, mark, deadline and event in one script; opened again it stays where it is."""
    scene = await on_workflow(kernel)
    view = await scene.view()
    ((_, event),) = await entries(scene)
    assert (view.workflow, view.step, view.entering, view.waiting_for) == ("flow", "plan", event.entry_id, "entry")
    assert (event.workflow, event.step, view.step_entry, view.sequence) == ("flow", "plan", event.entry_id, 1)
    assert 59_000 < (await scene.deadlines())["entry"] - view.now_ms <= 60_000
    assert not await kernel.snapshots.is_idle(scene.sid)
    async with unchanged(kernel):
        assert not await kernel.sessions.open(scene.sid, SessionPolicy(), workflow="flow")
        assert not await kernel.sessions.open(scene.sid, SessionPolicy())


async def test_what_a_workflow_refuses_writes_nothing(kernel: Kernel) -> None:
    """One that nobody published, another one, a policy without settlement; made or changed."""
    await kernel.workflows.publish([Workflow(name="other", start="a", steps=(Step(name="a"),))])
    scene = await on_workflow(kernel)
    async with unchanged(kernel):
        for sid in (scene.sid, "t"):
            with pytest.raises(WorkflowUnknown):
                await kernel.sessions.open(sid, SessionPolicy(), workflow="nobody-s")
            with pytest.raises(UsageError, match="flow"):
                await kernel.sessions.open(sid, SessionPolicy(settlement="none"), workflow="flow")
        with pytest.raises(UsageError, match="flow"):
            await kernel.sessions.open(scene.sid, SessionPolicy(), workflow="other")
        with pytest.raises(UsageError, match="flow"):
            await kernel.sessions.open(scene.sid, SessionPolicy(settlement="none"))


async def test_a_session_with_a_past_may_be_put_on_one(kernel: Kernel) -> None:
    """The turn that is open then began in no step, and is evaluated in none."""
    await kernel.workflows.publish([FLOW])
    scene = await brought(kernel, "accepted")
    assert not await kernel.sessions.open(scene.sid, SessionPolicy(), workflow="flow")
    assert await entered(scene)
    await scene.finished(await owned(scene))
    await scene.settled()
    assert [entry["outcome"] for entry in await of_type(scene, "turn.settled")] == ["stayed"]


async def test_claims_wait_for_the_entry_and_its_prompt_goes_before_what_waited(kernel: Kernel) -> None:
    """ENTERING, nothing written; the driver that waits is told; the order of the others is kept."""
    scene = await prompted_entry(kernel)
    await scene.sent("second")
    async with unchanged(kernel):
        assert (await scene.claimed()).verdict is Verdict.ENTERING
    token = scene.token
    async with heard(kernel, kernel.store.keys.control("w1")) as so_far:
        assert await entered(scene, "plan it")
        assert (scene.token, (await scene.view()).activity) == (token, token)
        assert [text for _, text in await so_far()] == [f"run s {scene.token}"]
    assert await scene.pending() == ["plan it", "queued", "second"]
    ((message,),) = [(await scene.claimed()).messages]
    entry_id = (await scene.view()).step_entry
    assert (message.message_id, message.kind, message.body) == (f"entry-{entry_id}", "entry", "plan it")


async def test_the_end_of_an_entry_starts_an_idle_session_only_with_a_prompt(kernel: Kernel) -> None:
    """Acknowledged, logged, announced for hooks; the mark and its deadline are gone; bytes are counted."""
    for body in ("plan it", ""):
        scene = await on_workflow(kernel)
        entry_id = (await scene.view()).entering
        assert await entered(scene, body)
        view = await scene.view()
        assert (view.status, view.entering, view.step_failed) == ("running" if body else "idle", "", False)
        assert await of_type(scene, "step.entered") == [{"type": "step.entered", "step": "plan", "entry_id": entry_id}]
        assert [event.key for _, event in await scene.events() if isinstance(event, StepEntered)] == [entry_id]
        assert "entry" not in await scene.deadlines()
        assert not {event_id for event_id, _ in await entries(scene)} & set(await scene.delivered())
        assert (await record(scene)).get("inbox_bytes", "0") == str(len(body))
        if body:
            await kernel.inbox.remove(scene.sid, f"entry-{entry_id}")
            assert (await record(scene))["inbox_bytes"] == "0"
        await kernel.store.redis.flushall()


@pytest.mark.parametrize("error", ["", "boom"])
async def test_an_entry_ends_once(kernel: Kernel, error: str) -> None:
    """The repeat of the call that ended it gets its answer; others are only acknowledged."""
    scene = await prompted_entry(kernel)
    assert await entered(scene, "plan it", error=error)
    event_id, event = (await entries(scene))[-1]
    async with unchanged(kernel, OFFERS):
        assert await kernel.workflows.enter_end(scene.sid, event.entry_id, event_id, body="plan it", error=error)
        assert not await kernel.workflows.enter_end(scene.sid, event.entry_id, "0-1", body="again")
        assert not await kernel.workflows.enter_end(scene.sid, "n-other", "0-2", error="late")
        assert not await kernel.workflows.enter_end(scene.sid, "", "0-3", body="of no entry")
    assert not await kernel.workflows.enter_end("nobody", event.entry_id, "0-1")
    assert not await kernel.store.redis.exists(kernel.store.keys.session("nobody")["session"])


@pytest.mark.parametrize("where", ["pending", "in flight"])
async def test_a_message_that_has_the_id_of_a_step_s_prompt_is_not_lost(kernel: Kernel, where: str) -> None:
    """Clients are refused such ids, and what uses the scripts without them fails the entry, and nothing else."""
    scene = await on_workflow(kernel)
    prompt_id = f"entry-{(await scene.view()).entering}"
    with pytest.raises(InvalidId, match="entry-…"):
        await kernel.inbox.send(scene.sid, "mine", message_id=prompt_id)
    for name in ("messages", "message_info"):
        value = "mine" if name == "messages" else "1 1 next-turn send 0 0 - someone"
        await kernel.store.redis.hset(scene.keys[name], prompt_id, value)  # type: ignore[misc]
    await kernel.store.redis.rpush(scene.keys["next_turn" if where == "pending" else "in_flight"], prompt_id)  # type: ignore[misc]
    assert await entered(scene, "plan it")
    assert (await scene.view()).step_failed
    assert await kernel.store.redis.hget(scene.keys["messages"], prompt_id) == "mine"  # type: ignore[misc]
    assert await scene.pending() == (["mine"] if where == "pending" else [])


async def test_another_announcement_of_an_entry_that_has_ended_is_acknowledged(kernel: Kernel) -> None:
    """Two replicas may have one each."""
    scene = await on_workflow(kernel)
    assert await scene.expired("entry") == "OK"
    await scene.delivered()
    (first, event), (second, _) = await entries(scene)
    assert await kernel.workflows.enter_end(scene.sid, event.entry_id, first)
    assert second in await scene.delivered()
    assert not await kernel.workflows.enter_end(scene.sid, event.entry_id, second, body="again")
    assert second not in await scene.delivered()
    assert await scene.pending() == []


@pytest.mark.parametrize("how", ["reported", "expired"])
@pytest.mark.parametrize("state", ["idle", "waiting", "open"])
async def test_an_entry_that_fails_parks_and_the_step_keeps_its_new_name(kernel: Kernel, state: str, how: str) -> None:
    """Visible: an error, a mark, and the record; an activity with nothing open ends, an open turn goes on."""
    if state == "open":
        scene = await in_step(kernel)
        await scene.prompted()
        await scene.sent("queued")
        assert await kernel.workflows.move(scene.sid, "build") == "applied"
    else:
        scene = await (prompted_entry if state == "waiting" else on_workflow)(kernel)
    step, entry_id = (await scene.view()).step, (await scene.view()).entering
    async with heard(kernel, kernel.store.keys.control("w1")) as so_far:
        if how == "reported":
            assert await entered(scene, error="boom")
        else:
            assert [await scene.expired("entry") for _ in range(3)] == ["OK"] * 3
        assert [text for _, text in await so_far()] == (["run s "] if state == "waiting" else [])
    view = await scene.view()
    assert (view.step, view.step_entry, view.entering, view.step_failed) == (step, entry_id, "", True)
    assert (view.status, view.park_mark) == ("running" if state == "open" else "idle", view.sequence)
    error = (await of_type(scene, "error"))[-1]
    why = "boom" if how == "reported" else "not entered in time"
    assert (error["where"], error["message"], error["entry_id"]) == ("entry", why, entry_id)
    assert "entry" not in await scene.deadlines()
    assert not any(entry.awake for entry in view.inbox.next_turn)
    if state == "open":
        assert (await scene.finished(await owned(scene))).verdict is Verdict.GO_ON


@pytest.mark.parametrize("owner", ["job", "reset"])
async def test_an_entry_that_fails_ends_no_job_and_no_reset(kernel: Kernel, owner: str) -> None:
    """They have the session; what is queued is parked."""
    scene = await prompted_entry(kernel)
    if owner == "reset":
        assert await begun(scene) == "running"
    else:
        await kernel.stops.cancel(scene.sid, keep_inbox=False)
        await kernel.maintenance.begin(scene.sid, "r", "compact")
    assert await entered(scene, error="boom")
    view = await scene.view()
    assert (view.phase, view.activity, view.step_failed) == ("maintenance", "r", True)
    assert view.park_mark == view.sequence


async def test_an_entry_that_nobody_ends_is_announced_twice_more_and_has_then_failed(kernel: Kernel) -> None:
    """Each time with a deadline of its own; a late end after that has no effect."""
    scene = await on_workflow(kernel)
    for announced in (2, 3, 3):
        deadline = (await scene.deadlines())["entry"]
        assert deadline > (await scene.view()).now_ms
        assert await scene.expired("entry") == "OK"
        assert len(await entries(scene)) == announced
        async with unchanged(kernel):
            assert (await kernel.deadlines.expire("entry", scene.sid, "1")).verdict is Verdict.NOT_DUE
    assert (await scene.view()).step_failed
    assert not await entered(scene, "late")
    assert await scene.pending() == []


async def test_a_deadline_without_an_entry_is_only_taken_away(kernel: Kernel) -> None:
    """GONE."""
    scene = await in_step(kernel)
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"entry:s": 1})
    async with unchanged(kernel, {"*:deadlines"}):
        assert (await kernel.deadlines.expire("entry", scene.sid, "1")).verdict is Verdict.GONE
    assert "entry" not in await scene.deadlines()


async def test_a_new_entry_starts_with_nothing_of_the_one_before(kernel: Kernel) -> None:
    """Tries, failure, signal and a dropped prompt are of one entry."""
    scene = await on_workflow(kernel)
    await kernel.workflows.signal(scene.sid)
    await kernel.stops.cancel(scene.sid, keep_inbox=False)
    await scene.expired("entry")
    assert await entered(scene, error="boom")
    assert await kernel.workflows.move(scene.sid, "plan") == "applied"
    assert (
        not {"entry_tries", "entry_dropped", "entry_after", "step_failed", "signalled"} & (await record(scene)).keys()
    )
    assert await entered(scene, "plan it")
    assert await scene.pending() == ["plan it"]


@pytest.mark.parametrize("how", ["close", "retention"])
async def test_the_end_of_the_session_fails_its_entry(kernel: Kernel, how: str) -> None:
    """Nothing is entered any more, and nothing is left that would become due."""
    scene = await on_workflow(kernel)
    if how == "close":
        assert await kernel.sessions.close(scene.sid) == "closed"
    else:
        assert await scene.expired("retention") == "OK"
    view = await scene.view()
    assert (view.lifecycle, view.entering, view.step_failed) == ("closed", "", True)
    assert (await of_type(scene, "error"))[-1]["message"] == "the session is closed"
    assert set(await scene.deadlines()) == {"retention"}
    assert not await entered(scene, "late")
    assert await scene.pending() == []
