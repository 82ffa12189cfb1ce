"""What becomes of a turn whose worker or agent is gone: its messages, its execution, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import AgentLost
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import COUNTED, Scene, bodies, unchanged

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel

LOSSES = ["lease", "acceptance"]


async def batch(kernel: Kernel, *, accept: bool, **policy: object) -> tuple[Scene, Ownership]:
    """An open turn of an inject, a steer and a prompt; a steer joined it later, and more waits."""
    scene = await Scene(kernel).opened(**policy)
    await scene.sent("inject", list="next-step", wake=False)
    ownership = await scene.prompted("prompt", accept=accept)
    await scene.sent("steer", list="next-step")
    await kernel.turns.step(scene.sid, ownership, 1)
    await scene.sent("later steer", list="next-step")
    await scene.sent("queued")
    return scene, ownership


@pytest.mark.parametrize("by", LOSSES)
async def test_a_turn_that_no_agent_took_gives_its_whole_batch_back_in_order(kernel: Kernel, by: str) -> None:
    """Section 9, invariant 9: to the head of its lists, order kept, attempt + 1; waking ones awake, others not."""
    scene, _ = await batch(kernel, accept=False)
    assert await scene.expired(by) == "OK"
    inbox = (await scene.view()).inbox
    assert bodies(inbox.next_step) == ["inject", "steer", "later steer"]
    assert bodies(inbox.next_turn) == ["prompt", "queued"]
    assert [entry.attempt for entry in (*inbox.next_step, *inbox.next_turn)] == [1, 1, 0, 1, 0]
    assert [entry.awake for entry in (*inbox.next_step, *inbox.next_turn)] == [False, True, True, True, True]
    assert inbox.in_flight == ()
    returned = [entry["message_id"] for entry in await scene.log() if entry["type"] == "inbox.returned"]
    assert len(returned) == 3


@pytest.mark.parametrize("by", LOSSES)
async def test_a_lost_turn_ends_in_one_ready_and_the_session_runs_again_elsewhere(kernel: Kernel, by: str) -> None:
    """Section 5.4, row 3: idle and running are both logged, under a new token, without the old execution."""
    scene, _ = await batch(kernel, accept=False)
    old = scene.token
    await scene.expired(by)
    view = await scene.view()
    assert (view.status, view.activity, view.execution_id) == ("running", f"{old}+", "")
    assert (view.suspects, view.last_reason, view.unsettled_turn) == (("e1",), "lost", 1)
    assert set(await scene.deadlines()) == {"placement", "suspect", "settlement"}
    assert [event.reason for _, event in await scene.readies()] == ["lost"]
    assert (await scene.types())[-4:] == ["turn.ended", "error", "idle", "running"]
    assert [event.execution_id for _, event in await scene.events() if isinstance(event, AgentLost)] == ["e1"]
    assert any(scene.token in offer for offer in await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1))
    await scene.settled()
    await scene.booted("e2", "w2")
    claim = await scene.claimed()
    assert [message.body for message in claim.messages] == ["inject", "steer", "later steer", "prompt"]
    assert (claim.turn, claim.attempt) == (2, 2)


@pytest.mark.parametrize("by", LOSSES)
async def test_the_third_loss_of_an_untaken_turn_parks_what_is_queued(kernel: Kernel, by: str) -> None:
    """Section 9: the third time parked with an `error`; the next wake runs it once more, in order."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.prompted("poison", accept=False)
    await scene.sent("queued")
    for attempt in (2, 3):
        await scene.expired(by)
        await scene.booted(f"e{attempt}")
        assert (await scene.claimed()).attempt == attempt
    await scene.expired(by)
    view = await scene.view()
    assert (view.status, view.park_mark) == ("idle", 2)
    assert [(entry.body, entry.attempt, entry.awake) for entry in view.inbox.next_turn] == [
        ("poison", 3, False), ("queued", 0, False),
    ]  # fmt: skip
    errors = [entry["where"] for entry in await scene.log() if entry["type"] == "error"]
    assert errors == ["execution"] * 2 + ["dispatch", "execution"]
    await scene.sent("wake")
    await scene.booted("e4")
    assert [message.body for message in (await scene.claimed()).messages] == ["poison"]


async def test_an_accepted_turn_is_lost_with_its_messages(kernel: Kernel) -> None:
    """Policy lost_turns fail: the agent may have acted, so its messages are consumed; the queue goes on, unparked."""
    scene, _ = await batch(kernel, accept=True)
    await scene.expired("lease")
    view = await scene.view()
    assert (await scene.pending(), view.inbox.in_flight) == (["later steer", "queued"], ())
    assert (view.status, view.last_reason, view.park_mark) == ("running", "lost", 0)
    assert await kernel.store.redis.hlen(scene.keys["messages"]) == 2  # type: ignore[misc]


async def test_an_accepted_turn_with_nothing_behind_it_leaves_the_session_idle(kernel: Kernel) -> None:
    """Wake-latch E81: the run failed, and who waits for idle is told so."""
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await scene.expired("lease")
    assert (await scene.types())[-3:] == ["turn.ended", "error", "idle"]
    assert set(await scene.deadlines()) == {"settlement", "suspect", "retention"}


async def test_under_retry_an_accepted_turn_runs_again_up_to_its_bound(kernel: Kernel) -> None:
    """Policy lost_turns retry: the attempt is shown, and after `retries` attempts the turn fails."""
    scene = await Scene(kernel).opened(settlement="none", lost_turns="retry", retries=2)
    await scene.prompted("work")
    await scene.expired("lease")
    await scene.booted("e2")
    claim = await scene.claimed()
    assert ([message.attempt for message in claim.messages], claim.attempt) == ([1], 2)
    assert claim.ownership
    await kernel.turns.output(scene.sid, claim.ownership, 1, "again")
    await scene.expired("lease")
    view = await scene.view()
    assert (view.status, await scene.pending(), view.inbox.in_flight) == ("idle", [], ())
    ends = [entry["attempt"] for entry in await scene.log() if entry["type"] == "turn.ended"]
    assert ends == ["1", "2"]


async def test_an_interrupted_turn_is_treated_like_a_lost_one(kernel: Kernel) -> None:
    """Section 9: SIGTERM and SIGKILL are the same for the message; the driver is told what follows."""
    scene, ownership = await batch(kernel, accept=False)
    end = await scene.finished(ownership, "interrupted")
    assert (end.verdict, end.token) == (Verdict.RESTARTED, f"{scene.token}+")
    view = await scene.view()
    assert (view.last_reason, view.suspects, view.execution_id) == ("interrupted", ("e1",), "")
    assert await scene.pending() == ["inject", "steer", "later steer", "prompt", "queued"]


async def test_a_driver_that_was_given_up_can_write_nothing_more(kernel: Kernel) -> None:
    """L8, L9a, L9b, B-late: after the loss, its frames and its real completion change only a counter and the log."""
    scene, ownership = await batch(kernel, accept=True)
    await scene.expired("lease")
    async with unchanged(kernel):
        assert not await kernel.turns.output(scene.sid, ownership, 2, "late")
        assert await kernel.turns.step(scene.sid, ownership, 2) is None
        assert (await scene.claimed("c1")).verdict is Verdict.FINISHED
        assert (await scene.claimed("c9")).verdict is Verdict.SUPERSEDED
    async with unchanged(kernel, COUNTED):
        assert (await scene.finished(ownership, number=3, text="late")).verdict is Verdict.STALE
    assert len(await scene.readies()) == 1


async def test_an_accepted_prompt_no_longer_waits_for_its_acceptance(kernel: Kernel) -> None:
    """The first output takes the deadline away, and a sweeper that read it before does nothing."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted(accept=False)
    score = str((await scene.deadlines())["acceptance"])
    await kernel.turns.output(scene.sid, ownership, 1, "")
    assert "acceptance" not in await scene.deadlines()
    async with unchanged(kernel):
        assert (await kernel.deadlines.expire("acceptance", scene.sid, score)).verdict is Verdict.NOT_DUE


async def test_the_lease_of_an_idle_execution_ends_without_a_turn(kernel: Kernel) -> None:
    """Nothing was driven: the execution is suspect, the session stays idle and nothing is published but that."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.settled()
    assert await scene.expired("lease") == "OK"
    view = await scene.view()
    assert (view.status, view.execution_id, view.suspects, view.turn) == ("idle", "", ("e1",), 1)
    assert set(await scene.deadlines()) == {"suspect", "retention"}
    assert len(await scene.readies()) == 1
    assert (await kernel.inbox.send(scene.sid, "again")).placement == "started"


async def test_an_activity_hinted_to_a_dead_worker_is_placed_elsewhere(kernel: Kernel) -> None:
    """Affinity: the wake went to the live execution as a hint; its lease ends, the same activity is offered."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.settled()
    await scene.sent("again")
    token = scene.token
    assert await scene.expired("lease") == "OK"
    view = await scene.view()
    assert (view.status, view.activity, view.waiting_for) == ("running", token, "placement")
    assert any(token in offer for offer in await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1))
    assert (await scene.types())[-2:] == ["running", "error"]
    await scene.booted("e2", "w2")
    assert [message.body for message in (await scene.claimed()).messages] == ["again"]


@pytest.mark.parametrize("state", ["starting", "ready", "between turns"])
async def test_a_worker_lost_with_nothing_open_restarts_the_activity(kernel: Kernel, state: str) -> None:
    """F7: a driver that dies before its claim leaves its messages awake, so the session runs again."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    if state == "starting":
        await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    else:
        await scene.booted()
    if state == "between turns":
        ownership = (await scene.claimed()).ownership
        assert ownership
        await scene.sent("next")
        await scene.finished(ownership)
    old = scene.token
    assert await scene.expired("lease") == "OK"
    view = await scene.view()
    assert (view.status, view.activity, view.park_mark) == ("running", f"{old}+", 0)
    assert (await scene.types())[-2:] == ["idle", "running"]
    await scene.settled() if state == "between turns" else None
    await scene.booted("e2", "w2")
    assert (await scene.claimed()).verdict is Verdict.OK


async def test_the_third_worker_lost_while_it_starts_an_agent_parks_the_session(kernel: Kernel) -> None:
    """An agent whose start kills its worker must not go through all workers; one that is up begins anew."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    for attempt in (1, 2):
        await kernel.executions.accept(scene.sid, scene.token, f"e{attempt}", "w1")
        assert await scene.expired("lease") == "OK"
        assert (await scene.view()).status == "running"
    await kernel.executions.accept(scene.sid, scene.token, "e3", "w1")
    assert await scene.expired("lease") == "OK"
    view = await scene.view()
    assert (view.status, view.park_mark, bodies(view.inbox.next_turn)) == ("idle", 1, ["hello"])
    assert [entry["where"] for entry in await scene.log() if entry["type"] == "error"][-2:] == ["start", "execution"]
    await scene.sent("wake")
    await scene.booted("e4")
    await scene.expired("lease")
    await kernel.executions.accept(scene.sid, scene.token, "e5", "w1")
    assert await scene.expired("lease") == "OK"
    assert (await scene.view()).status == "running"
