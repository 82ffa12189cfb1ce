"""Traces of the model check that concern steps, moves and questions, named by the number of the fault they began as."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import StepEntering
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step, Workflow
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import brought, owned

if TYPE_CHECKING:
    from coordinator.services import Kernel

FLOW = Workflow(name="flow", start="plan", steps=(Step(name="plan"), Step(name="do"), Step(name="done")))


async def entered(scene: Scene, body: str = "", error: str = "") -> None:
    """The entry that is under way, ended as a replica does."""
    entry = (await scene.view()).entering
    told = [one for one, event in await scene.events() if isinstance(event, StepEntering)][-1]
    assert await scene.kernel.workflows.enter_end(scene.sid, entry, told, body=body, error=error)


async def at_work(kernel: Kernel, state: str = "accepted") -> Scene:
    """A session in that state, whose open or last turn belongs to step `plan`."""
    await kernel.workflows.publish([FLOW])
    scene = await Scene(kernel).opened()
    await kernel.sessions.open(scene.sid, SessionPolicy(), workflow="flow")
    await entered(scene)
    return await brought(kernel, state)


async def test_f24_a_step_left_but_never_entered(kernel: Kernel) -> None:
    """The replica dies behind its settlement: the step's entry is there with it, and any other one carries it out."""
    scene = await at_work(kernel)
    await scene.finished(await owned(scene))
    number = (await kernel.guards.acquire(scene.sid, "replica")).number
    entry, event = (await scene.readies())[-1]
    seen = await kernel.settlements.begin(event, entry, number)
    settled = await kernel.settlements.settle(event, entry, number, seen=seen, step_to="do")
    view = await scene.view()
    assert (settled.detail, view.step, bool(view.entering)) == ("advanced", "do", True)
    assert "entry" in await scene.deadlines()
    async with unchanged(kernel):
        assert (await scene.claimed("c")).verdict is Verdict.ENTERING
    assert await scene.expired("entry") == "OK"
    told = [one.entry_id for _, one in await scene.events() if isinstance(one, StepEntering)]
    assert told[-2:] == [view.entering] * 2
    await entered(scene, "do it")
    assert await scene.pending() == ["do it", "queued"]


async def test_f24_nobody_enters_it(kernel: Kernel) -> None:
    """Each of its deadlines announces it again; the third ends it, visibly."""
    scene = await at_work(kernel, "idle")
    await kernel.workflows.move(scene.sid, "do")
    for _ in range(3):
        assert (await scene.view()).entering
        assert await scene.expired("entry") == "OK"
    view = await scene.view()
    assert (view.entering, view.step_failed, view.step) == ("", True, "do")
    assert "entry" not in await scene.deadlines()


@pytest.mark.parametrize("kind", ["user", "close"])
async def test_f16_a_closing_session_evaluates_nothing(kernel: Kernel, kind: str) -> None:
    """Also one that a person had stopped before."""
    scene = await at_work(kernel)
    if kind == "user":
        await kernel.stops.cancel(scene.sid)
    await kernel.sessions.close(scene.sid)
    await scene.finished(await owned(scene), "cancelled")
    entry, event = (await scene.readies())[-1]
    assert (await kernel.settlements.settle(event, entry)).detail == "none"
    assert ((await scene.view()).step, (await scene.view()).entering) == ("plan", "")


@pytest.mark.parametrize("end", ["lease", "interrupted", "error"])
async def test_f19_a_lost_turn_never_settles(kernel: Kernel, end: str) -> None:
    """A pending move is applied whatever the reason, and nothing is evaluated."""
    scene = await at_work(kernel)
    assert await kernel.workflows.move(scene.sid, "done", deferred=True) == "pending"
    if end == "lease":
        await scene.expired("lease")
    else:
        await scene.finished(await owned(scene), end)
    await scene.settled()
    view = await scene.view()
    assert (view.step, view.pending_move, bool(view.entering), view.unsettled_turn) == ("done", "", True, 0)


async def test_f19_but_one_whose_messages_went_back_leaves_the_move_to_their_next_turn(kernel: Kernel) -> None:
    """That turn is the same work."""
    scene = await at_work(kernel, "unaccepted")
    await kernel.workflows.move(scene.sid, "done", deferred=True)
    await scene.expired("acceptance")
    await scene.settled()
    assert ((await scene.view()).step, (await scene.view()).pending_move) == ("plan", "done")
    await scene.booted("e2")
    claim = await scene.claimed("again")
    assert claim.ownership
    await scene.finished(claim.ownership)
    await scene.settled()
    assert ((await scene.view()).step, (await scene.view()).pending_move) == ("done", "")


async def test_f20_an_empty_turn_evaluates_nothing(kernel: Kernel) -> None:
    """It leaves no ready, and an earlier turn's question stays open."""
    scene = await at_work(kernel)
    await kernel.questions.ask(scene.sid, await owned(scene), "q", "which?")
    await kernel.inbox.clear(scene.sid)
    await scene.finished(await owned(scene))
    await scene.settled()
    await scene.sent("gone")
    await kernel.inbox.clear(scene.sid)
    assert (await scene.claimed("empty")).verdict is Verdict.EMPTY
    assert (len(await scene.readies()), (await scene.view()).question) == (1, "q")


@pytest.mark.parametrize("call", ["move", "answer", "enter_end"])
async def test_f11_operation_ids_are_forgotten_when_the_operation_is_settled(kernel: Kernel, call: str) -> None:
    """A packet that comes a second time has no second effect, whatever has happened between."""
    scene = await at_work(kernel)
    await kernel.questions.ask(scene.sid, await owned(scene), "q", "which?")
    await scene.finished(await owned(scene))
    await scene.settled()
    entry = (await scene.view()).step_entry
    told = [one for one, event in await scene.events() if isinstance(event, StepEntering)][-1]

    async def made() -> None:
        if call == "move":
            await kernel.workflows.move(scene.sid, "do", operation_id="o")
        elif call == "answer":
            await kernel.questions.answer(scene.sid, "q", "this one", message_id="o")
        else:
            await kernel.workflows.enter_end(scene.sid, entry, told, body="plan it")

    await made()
    await kernel.workflows.move(scene.sid, "done", operation_id="other")
    if (await scene.view()).entering:
        await entered(scene)
    async with unchanged(kernel):
        await made()
    assert (await scene.view()).step == "done"


async def test_f13_two_answers_that_come_at_once(kernel: Kernel) -> None:
    """The first wins; a lost reply of it may be asked for again."""
    scene = await at_work(kernel)
    await kernel.questions.ask(scene.sid, await owned(scene), "q", "which?")
    first = await kernel.questions.answer(scene.sid, "q", "this one", message_id="a1")
    async with unchanged(kernel):
        again = await kernel.questions.answer(scene.sid, "q", "this one", message_id="a1")
    assert (first.placement, again.placement, again.duplicate) == ("delivered", "delivered", True)
    assert (await kernel.questions.ask(scene.sid, await owned(scene), "q", "which?")).answer == "this one"


async def test_f11_a_question_is_asked_once(kernel: Kernel) -> None:
    """A late packet of it, when its turn has another one behind it, asks nothing again: nobody would wait for it."""
    scene = await at_work(kernel)
    owner = await owned(scene)
    for question in ("q1", "q2"):
        await kernel.questions.ask(scene.sid, owner, question, "which?")
        await kernel.questions.answer(scene.sid, question, "this one")
    async with unchanged(kernel):
        assert (await kernel.questions.ask(scene.sid, owner, "q1", "which?")).verdict is Verdict.GONE
