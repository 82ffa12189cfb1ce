"""Handlers that fail: counted in the record, and given up after enough tries, so that the session goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import begun, entered, in_step, unsettled
from tests.scripts.scene import Scene, heard, unchanged

if TYPE_CHECKING:
    from coordinator.domain.events import AgentReady
    from coordinator.services import Kernel
    from coordinator.services.settlements import Settled

TRIES = 3


async def ended(kernel: Kernel, *, queued: bool = False, **policy: object) -> tuple[Scene, str, AgentReady]:
    """A turn whose ready is pending for a replica; `queued` says that a driver waits with another message."""
    scene = await Scene(kernel).opened(**policy)
    ownership = await scene.prompted()
    if queued:
        await scene.sent("queued")
    await scene.finished(ownership)
    await scene.delivered()
    entry, event = (await scene.readies())[-1]
    return scene, entry, event


async def failed(scene: Scene, event: AgentReady, entry: str) -> Settled:
    """One try under a guard of its own."""
    kernel = scene.kernel
    guard = await kernel.guards.acquire(scene.sid, "r")
    answer = await kernel.settlements.failed(event, entry, guard.number, "boom", TRIES)
    await kernel.guards.release(scene.sid, "r", guard.number)
    return answer


async def test_failures_are_counted_until_the_entry_is_given_up(kernel: Kernel) -> None:
    """Section 7: bounded tries, an `error` each; then the dead stream and the settlement are one script."""
    scene, entry, event = await ended(kernel)
    for number in (1, 2):
        answer = await failed(scene, event, entry)
        assert (answer.verdict, answer.detail) == (Verdict.FAILED, str(number))
        assert (await scene.view()).handler_failures == number
        assert entry in await scene.delivered()
    answer = await failed(scene, event, entry)
    assert (answer.verdict, answer.detail) == (Verdict.DEAD, "3")
    assert entry not in await scene.delivered()
    view = await scene.view()
    assert (view.unsettled_turn, view.handler_failures) == (0, 0)
    assert (await scene.log())[-1]["outcome"] == "failed"
    assert [entry["message"] for entry in await scene.log() if entry["type"] == "error"] == ["boom"] * TRIES
    ((_, dead),) = await kernel.store.redis.xrange(scene.keys["dead"])
    assert (dead["entry_id"], dead["error"], dead["failures"], dead["claim_id"]) == (entry, "boom", "3", "c1")
    assert "settlement" not in await scene.deadlines()


@pytest.mark.parametrize("tries", [1, TRIES])
async def test_a_failure_repeated_after_a_lost_reply_is_counted_once(kernel: Kernel, tries: int) -> None:
    """One try has one guard number, which tells the repeat; it gets the first answer, given up or not."""
    scene, entry, event = await ended(kernel)
    guard = await kernel.guards.acquire(scene.sid, "r")
    first = await kernel.settlements.failed(event, entry, guard.number, "boom", tries)
    assert first.verdict is (Verdict.DEAD if tries == 1 else Verdict.FAILED)
    async with unchanged(kernel):
        assert await kernel.settlements.failed(event, entry, guard.number, "boom", tries) == first


@pytest.mark.parametrize("state", ["settled", "gone"])
async def test_a_failure_of_a_turn_that_was_settled_meanwhile_counts_for_nothing(kernel: Kernel, state: str) -> None:
    """Nothing is written; the next look at the entry acknowledges it."""
    scene, entry, event = await ended(kernel)
    if state == "settled":
        await kernel.settlements.settle(event, "0-1")
    else:
        for _ in range(2):
            await scene.expired("retention")
    async with unchanged(kernel):
        answer = await kernel.settlements.failed(event, entry, 1, "boom", TRIES)
    assert answer.verdict is (Verdict.STALE if state == "settled" else Verdict.NO_SESSION)


async def test_under_continue_the_queue_goes_on_after_a_dead_letter(kernel: Kernel) -> None:
    """Policy on_handler_failure continue: the waiting driver is told, and claims."""
    scene, entry, event = await ended(kernel, queued=True)
    await failed(scene, event, entry)
    await failed(scene, event, entry)
    control = kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        await failed(scene, event, entry)
        assert await so_far() == [(control, f"run s {scene.token}")]
    assert [message.body for message in (await scene.claimed()).messages] == ["queued"]


@pytest.mark.parametrize("queued", [True, False])
async def test_under_park_the_queue_waits_for_the_next_wake(kernel: Kernel, *, queued: bool) -> None:
    """Policy on_handler_failure park: a driver that waited for the settlement does not run what is parked."""
    scene, entry, event = await ended(kernel, queued=queued, on_handler_failure="park")
    for _ in range(TRIES):
        await failed(scene, event, entry)
    view = await scene.view()
    assert (view.status, view.park_mark, view.execution_status) == ("idle", 1 + queued, "ready")
    assert set(await scene.deadlines()) == {"lease", "retention"}
    assert (await scene.types()).count("idle") == 1
    async with unchanged(kernel):
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
    await scene.sent("wake")
    assert [message.body for message in (await scene.claimed()).messages] == ["queued" if queued else "wake"]


async def test_an_execution_that_was_starting_for_what_is_parked_takes_the_next_wake(kernel: Kernel) -> None:
    """One that is starting counts as live: its start stays bounded, the wake is hinted to its worker and not placed."""
    scene, entry, event = await ended(kernel, on_handler_failure="park")
    await scene.expired("lease")
    await scene.sent("parked")
    await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")
    for _ in range(TRIES):
        await failed(scene, event, entry)
    view = await scene.view()
    assert (view.status, view.execution_status, "start" in await scene.deadlines()) == ("idle", "starting", True)
    offers = await kernel.store.redis.zcard(kernel.store.keys.queue)
    control = kernel.store.keys.control("w2")
    async with heard(kernel, control) as so_far:
        await scene.sent("wake")
        assert await so_far() == [(control, f"run s {scene.token}")]
    assert await kernel.store.redis.zcard(kernel.store.keys.queue) == offers
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e3", "w3")).verdict is Verdict.LIVE
    await kernel.executions.boot(scene.sid, "e2")
    scene.execution = "e2"
    assert [message.body for message in (await scene.claimed()).messages] == ["parked"]


async def test_a_later_turn_has_all_its_tries(kernel: Kernel) -> None:
    """The count is the unsettled turn's."""
    scene, entry, event = await ended(kernel, queued=True)
    await failed(scene, event, entry)
    await kernel.settlements.settle(event, entry)
    ownership = (await scene.claimed()).ownership
    assert ownership
    await scene.finished(ownership)
    assert (await scene.view()).handler_failures == 0
    entry, event = (await scene.readies())[-1]
    assert (await failed(scene, event, entry)).detail == "1"


@pytest.mark.parametrize("policy", ["park", "continue"])
async def test_a_hook_s_event_that_settles_nothing_is_given_up_visibly_and_once(kernel: Kernel, policy: str) -> None:
    """Dead stream, log, counter; what is queued is parked by policy, and the turn is not settled by it."""
    scene, entry, _ = await ended(kernel, queued=True, on_handler_failure=policy)
    before = await scene.view()
    await kernel.settlements.give_up(scene.sid, entry, "step.entered", "n-1", "boom")
    view = await scene.view()
    assert entry not in await scene.delivered()
    ((_, dead),) = await kernel.store.redis.xrange(scene.keys["dead"])
    assert (dead["type"], dead["session_id"], dead["key"], dead["entry_id"], dead["error"]) == (
        "step.entered", "s", "n-1", entry, "boom",
    )  # fmt: skip
    assert (view.unsettled_turn, view.status) == (before.unsettled_turn, "idle" if policy == "park" else "running")
    assert view.park_mark == (view.sequence if policy == "park" else 0)
    assert (await scene.log())[-2 if policy == "park" else -1]["event"] == "step.entered"
    async with unchanged(kernel):
        await kernel.settlements.give_up(scene.sid, entry, "step.entered", "n-1", "boom")


async def test_an_event_of_a_session_that_is_gone_is_given_up_too(kernel: Kernel) -> None:
    """No record is made of it."""
    scene, entry, _ = await ended(kernel)
    await kernel.store.redis.delete(scene.keys["session"], scene.keys["log"])
    await kernel.settlements.give_up(scene.sid, entry, "agent.lost", "", "boom")
    assert await kernel.store.redis.xlen(scene.keys["dead"]) == 1
    assert not await kernel.store.redis.exists(scene.keys["session"], scene.keys["log"])


@pytest.mark.parametrize("deferred", [False, True])
async def test_a_move_that_came_while_handlers_ran_is_made_when_they_are_given_up(
    kernel: Kernel, deferred: bool
) -> None:
    """Section 7: applied whatever the reason. No later turn may come whose settlement would do it."""
    scene, entry, event = await unsettled(kernel)
    guard, _ = await begun(scene)
    assert await kernel.workflows.move(scene.sid, "review", deferred=deferred) == "pending"
    first = await kernel.settlements.failed(event, entry, guard, "boom", 1)
    assert first.verdict is Verdict.DEAD
    view = await scene.view()
    assert (view.last_outcome, view.pending_move, view.step, view.entering) == ("failed", "", "review", view.step_entry)
    assert view.entering
    async with unchanged(kernel):
        assert await kernel.settlements.failed(event, entry, guard, "boom", 1) == first
    assert await entered(scene, "review it")
    assert await scene.pending() == ["review it"]


@pytest.mark.parametrize("why", ["closing", "came back"])
async def test_a_move_waits_on_where_its_turn_s_settlement_would_not_make_it(kernel: Kernel, why: str) -> None:
    """A closing session goes nowhere; a message that went back in line is settled again."""
    scene = await in_step(kernel)
    ownership = await scene.prompted(accept=False)
    await kernel.workflows.move(scene.sid, "review", deferred=True)
    await scene.finished(ownership, "error" if why == "came back" else "completed", undelivered=why == "came back")
    await scene.delivered()
    entry, event = (await scene.readies())[-1]
    guard = (await kernel.guards.acquire(scene.sid, "r")).number
    if why == "closing":
        await kernel.sessions.close(scene.sid)
    assert (await kernel.settlements.failed(event, entry, guard, "boom", 1)).verdict is Verdict.DEAD
    assert ((await scene.view()).pending_move, (await scene.view()).step) == ("review", "plan")
