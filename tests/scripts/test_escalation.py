"""A stop that nobody acknowledges: how it ends, what its execution is then, and what the late completion can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import COUNTED, OFFERS, Scene, heard, unchanged
from tests.scripts.states import OPEN, brought, owned

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel

WAYS = ["deadline", "worker"]


async def escalated(
    kernel: Kernel, way: str, *, kind: Any = "silent", state: str = "accepted"
) -> tuple[Scene, Ownership]:
    """A stop of that kind that ended by its deadline, or by the word of the worker that owns the prompt."""
    scene = await brought(kernel, state)
    ownership = await owned(scene)
    await kernel.stops.cancel(scene.sid, kind=kind, operation_id="o")
    if way == "deadline":
        assert await scene.expired("cancel") == "OK"
    else:
        assert await kernel.stops.escalate(scene.sid, ownership, "it can't acknowledge")
    return scene, ownership


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", OPEN)
async def test_the_prompt_ends_as_escalated_and_its_execution_is_suspect(kernel: Kernel, state: str, way: str) -> None:
    """Used up, one ready, the operation settled, the worker told to drop it; what is awake gets another execution."""
    async with heard(kernel, kernel.store.keys.control("w1")) as so_far:
        scene, _ = await escalated(kernel, way, state=state)
        assert (await so_far())[-1][1] == f"drop {scene.sid} e1"
    view = await scene.view()
    assert (view.last_reason, view.suspects, view.execution_id, view.status) == ("escalated", ("e1",), "", "running")
    assert (view.cancel_pending, await kernel.stops.outcome(scene.sid, "o")) == (False, "escalated")
    assert [entry["type"] for entry in await scene.log()][-5:] == [
        "turn.ended", "cancel.settled", "error", "session.status", "session.status",
    ]  # fmt: skip
    assert not set(await scene.deadlines()) & {"cancel", "acceptance", "lease"}
    ready = (await scene.readies())[-1][1]
    assert (ready.reason, ready.cancel_kind, ready.turn) == ("escalated", "silent", 1)
    assert await scene.pending() == ["queued"]
    await scene.settled()
    scene.token = view.activity
    assert (await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")).verdict is Verdict.SUPERSEDED
    await scene.booted("e2", "w1")
    assert (await scene.claimed()).turn == 2


@pytest.mark.parametrize("kind", ["user", "parent", "close"])
async def test_after_a_parking_one_nothing_restarts(kernel: Kernel, kind: str) -> None:
    """The cancel's row: idle, or closed."""
    scene = await brought(kernel, "closing" if kind == "close" else "accepted")
    if kind != "close":
        await kernel.stops.cancel(scene.sid, kind=kind)  # type: ignore[arg-type]
    assert await scene.expired("cancel") == "OK"
    view = await scene.view()
    assert (view.status, view.lifecycle) == ("idle", "closed" if kind == "close" else "open")


@pytest.mark.parametrize("way", WAYS)
async def test_the_completion_that_comes_later_is_stale(kernel: Kernel, way: str) -> None:
    """The tombstone: counted and logged, while the next turn is waited for and while it runs."""
    scene, ownership = await escalated(kernel, way)
    for _ in range(2):
        async with unchanged(kernel, COUNTED):
            assert (await scene.finished(ownership, number=5, text="late")).verdict is Verdict.STALE
            assert not await kernel.turns.output(scene.sid, ownership, 5, "late")
            assert await kernel.turns.step(scene.sid, ownership, 1) is None
        await scene.settled()
        scene.token, scene.execution = (await scene.view()).activity, ""
        await scene.booted("e2", "w2")
        await scene.claimed("next")
    assert [e["why"] for e in await scene.log() if e["type"] == "ready.stale"] == ["settled", "execution"]


async def test_the_worker_s_word_may_be_repeated_and_needs_its_prompt_and_an_operation(kernel: Kernel) -> None:
    """A repeat gets the first answer; without an operation, or for another prompt, nothing happens."""
    scene = await brought(kernel, "accepted")
    ownership = await owned(scene)
    async with unchanged(kernel):
        assert not await kernel.stops.escalate(scene.sid, ownership, "no operation")
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        assert not await kernel.stops.escalate(scene.sid, type(ownership)("e1", 1, "another"), "another's")
    assert await kernel.stops.escalate(scene.sid, ownership, "it can't")
    async with unchanged(kernel, OFFERS):
        assert await kernel.stops.escalate(scene.sid, ownership, "it can't")


async def test_a_deadline_that_is_not_this_one_ends_nothing(kernel: Kernel) -> None:
    """Compare and set: the score that was read, and an operation that is still there."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        assert (await kernel.deadlines.expire("cancel", scene.sid, "1")).verdict is Verdict.NOT_DUE
        assert (
            await kernel.deadlines.expire("cancel", scene.sid, str((await scene.deadlines())["cancel"]))
        ).verdict is Verdict.NOT_DUE
    await scene.finished(await owned(scene), "cancelled")
    await kernel.store.redis.zadd(scene.keys["deadlines"], {f"cancel:{scene.sid}": 1})
    assert (await kernel.deadlines.expire("cancel", scene.sid, "1")).verdict is Verdict.GONE
    assert "cancel" not in await scene.deadlines()


@pytest.mark.parametrize("way", ["lease", "acceptance", "drain"])
async def test_other_ends_under_an_operation_escalate_it_and_use_the_batch_up(kernel: Kernel, way: str) -> None:
    """F8, F22, section 9: put back, the batch would land before a replacement, or undo the stop."""
    scene = await brought(kernel, "unaccepted", lost_turns="retry")
    await kernel.stops.put_first(scene.sid, "instead", kind="replace", message_id="o")
    if way == "drain":
        assert (await scene.finished(await owned(scene), "interrupted")).verdict is Verdict.RESTARTED
    else:
        assert await scene.expired(way) == "OK"
    view = await scene.view()
    assert (view.last_reason, view.suspects, view.status) == ("escalated", ("e1",), "running")
    assert (await scene.pending(), await kernel.stops.outcome(scene.sid, "o")) == (["instead", "queued"], "escalated")
    assert "inbox.returned" not in await scene.types()


async def test_a_suspect_that_is_named_stays_and_one_that_was_ended_is_forgotten(kernel: Kernel) -> None:
    """D1: until its worker reports it gone; what it renews meanwhile is superseded."""
    scene, _ = await escalated(kernel, "deadline", kind="user")
    scene.execution = "e1"
    assert await scene.renewed(claim="c1") == "superseded"
    assert (await scene.view()).suspects == ("e1",)
    assert await kernel.executions.release(scene.sid, "e1")
    assert (await scene.view()).suspects == ()


@pytest.mark.parametrize("undelivered", [True, False])
async def test_a_failed_dispatch_under_an_operation_is_used_up_too(kernel: Kernel, undelivered: bool) -> None:
    """Section 8: the batch goes back with no operation recorded only; the turn keeps its reason."""
    scene = await brought(kernel, "unaccepted")
    await kernel.stops.cancel(scene.sid, kind="silent", operation_id="o")
    await scene.finished(await owned(scene), "error", undelivered=undelivered)
    assert (await scene.view()).last_reason == "error"
    assert (await scene.pending(), await kernel.stops.outcome(scene.sid, "o")) == (["queued"], "completed")
