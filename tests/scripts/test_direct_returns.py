"""Direct prompts that no agent got: back in line they have no deadline, and parked they keep nobody out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import PredecessorPending
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import owned, record
from tests.scripts.test_direct import discarded, overdue, put, withdrawn

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def returned(kernel: Kernel, times: int = 1) -> Scene:
    """Direct prompt d, claimed and given back in line so often."""
    scene = await Scene(kernel).opened(settlement="none")
    await put(scene)
    await scene.booted()
    for _ in range(times):
        assert (await scene.claimed()).verdict is Verdict.OK
        await scene.finished(await owned(scene), "error", undelivered=True)
        scene.token = (await scene.view()).activity
    return scene


async def test_after_a_failed_dispatch_it_is_first_in_line_without_a_deadline(kernel: Kernel) -> None:
    """A caller that asks by then may still have it back; nobody else takes it away, and no other goes before."""
    scene = await returned(kernel)
    assert (await scene.pending(), (await scene.view()).status) == (["direct"], "running")
    assert "direct_ms" not in await record(scene)
    async with unchanged(kernel):
        with pytest.raises(PredecessorPending, match="'d'"):
            await put(scene, message_id="d2")
    assert [(one.body, one.attempt) for one in (await scene.claimed()).messages] == [("direct", 1)]
    assert await discarded(scene) == []


async def test_its_caller_may_take_it_back(kernel: Kernel) -> None:
    """In line is in line: nothing was dispatched."""
    scene = await returned(kernel)
    assert await withdrawn(scene) is Verdict.OK
    assert (await scene.claimed()).verdict is Verdict.EMPTY


async def test_parked_after_three_tries_it_keeps_no_other_out(kernel: Kernel) -> None:
    """Nothing wakes an idle session but a message: a direct prompt must be able to. The first one stays in line."""
    scene = await returned(kernel, times=3)
    assert ((await scene.view()).status, await scene.pending()) == ("idle", ["direct"])
    assert (await put(scene, message_id="d2")).placement == "started"
    assert [entry.message_id for entry in (await scene.view()).inbox.next_turn] == ["d2", "d"]
    assert await discarded(scene) == []
    async with unchanged(kernel):
        assert await withdrawn(scene) is Verdict.GONE


async def test_parked_its_caller_may_take_it_back(kernel: Kernel) -> None:
    """Else it would run at the next wake, long after."""
    scene = await returned(kernel, times=3)
    assert await withdrawn(scene) is Verdict.OK
    assert await scene.pending() == []


async def test_one_that_was_never_claimed_is_parked_by_a_failed_start_until_its_time_is_over(kernel: Kernel) -> None:
    """It has its deadline still, so it keeps others out no longer than that."""
    scene = await Scene(kernel).opened()
    await put(scene)
    await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    await scene.expired("start")
    assert ((await scene.view()).status, await scene.pending()) == ("idle", ["direct"])
    with pytest.raises(PredecessorPending):
        await put(scene, message_id="d2")
    await overdue(scene)
    await put(scene, message_id="d2")
    assert await discarded(scene) == [("d", "expired")]


async def test_one_that_was_steered_has_no_deadline_left_when_it_comes_back(kernel: Kernel) -> None:
    """Taken at a step's boundary it is the turn's, like any other: a later claim must not discard it."""
    scene = await Scene(kernel).opened(settlement="none", lost_turns="retry")
    ownership = await scene.prompted("first")
    await put(scene)
    await kernel.inbox.steer(scene.sid, "d")
    assert await kernel.turns.step(scene.sid, ownership, 1)
    assert "direct_ms" not in await record(scene)
    await scene.expired("lease")
    assert await scene.pending() == ["direct", "first"]


async def test_the_id_of_one_that_was_taken_back_may_come_again_when_its_receipt_is_gone(kernel: Kernel) -> None:
    """It is another message then, and claimed is claimed."""
    scene = await Scene(kernel).opened()
    await put(scene)
    await overdue(scene)
    assert await withdrawn(scene) is Verdict.OK
    await kernel.store.redis.delete(kernel.store.keys.receipt(scene.sid, "d"))
    await put(scene)
    await scene.booted()
    await scene.claimed()
    assert await withdrawn(scene) is Verdict.GONE
