"""Handlers that fail: counted in the record, and given up after enough tries, so that the session goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import AgentLost
from coordinator.domain.verdicts import Verdict
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
        assert (control, f"run s {scene.token}") in await so_far()
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
    async with unchanged(kernel):
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
    await scene.sent("wake")
    assert [message.body for message in (await scene.claimed()).messages] == ["queued" if queued else "wake"]


@pytest.mark.parametrize("boots", [True, False])
async def test_an_execution_that_was_starting_for_what_is_parked_takes_the_next_wake(
    kernel: Kernel, boots: bool
) -> None:
    """It counts as live, and its start stays bounded: up, it drives the wake; not up in time, the wake is placed."""
    scene, entry, event = await ended(kernel, on_handler_failure="park")
    await scene.expired("lease")
    await scene.sent("parked")
    await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")
    for _ in range(TRIES):
        await failed(scene, event, entry)
    view = await scene.view()
    assert (view.status, view.execution_status, "start" in await scene.deadlines()) == ("idle", "starting", True)
    await scene.sent("wake")
    assert (await kernel.executions.accept(scene.sid, scene.token, "e3", "w3")).verdict is Verdict.LIVE
    if boots:
        scene.execution = "e2"
        assert await kernel.executions.boot(scene.sid, "e2")
        assert (await scene.claimed("next")).verdict is Verdict.OK
    else:
        assert await scene.expired("start") == "OK"
        assert any(scene.token in offer for offer in await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1))
        assert (await kernel.executions.accept(scene.sid, scene.token, "e3", "w3")).verdict is Verdict.OK
        lost = [event.reason for _, event in await scene.events() if isinstance(event, AgentLost)]
        assert lost == ["lease expired", "did not start in time"]


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
