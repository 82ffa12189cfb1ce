"""Direct prompts: first in line for a bounded time, taken back or claimed, and never both (section 8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import (
    ConflictingRepeat,
    GuardLost,
    InboxFull,
    PredecessorPending,
    SessionClosed,
    SessionUnknown,
)
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import entered, of_type, on_workflow
from tests.scripts.scene import Scene, heard, unchanged
from tests.scripts.states import OPEN, WAITING, brought, owned, record

if TYPE_CHECKING:
    from coordinator.domain.records import Receipt
    from coordinator.services import Kernel


async def put(scene: Scene, *, wait: float = 30, message_id: str = "d", **options: Any) -> Receipt:
    """Direct prompt d, put in line."""
    receipt = await scene.kernel.stops.put_direct(scene.sid, "direct", wait=wait, message_id=message_id, **options)
    scene.token = (await scene.view()).activity or scene.token
    return receipt


async def withdrawn(scene: Scene, message_id: str = "d") -> Verdict:
    """The word of an attempt to take it back."""
    return (await scene.kernel.stops.withdraw(scene.sid, message_id)).verdict


async def overdue(scene: Scene) -> None:
    """Its wait is over."""
    await scene.kernel.store.redis.hset(scene.keys["session"], "direct_ms", "1")  # type: ignore[misc]


async def discarded(scene: Scene) -> list[tuple[str, str]]:
    """What was thrown away, and why."""
    return [(entry["message_id"], entry["why"]) for entry in await of_type(scene, "inbox.discarded")]


@pytest.mark.parametrize(
    ("state", "placement", "seconds"),
    [
        ("idle", "started", 30),
        ("maintenance", "latched", 30),
        *((state, "queued", 30) for state in WAITING if state != "unsettled"),
        ("unsettled", "latched", 10),
        *((state, "latched", 10) for state in OPEN),
        ("entering", "latched", 10),
    ],
)
async def test_it_waits_shortly_behind_what_is_owed_and_else_as_long_as_its_caller(
    kernel: Kernel, state: str, placement: str, seconds: int
) -> None:
    """Owed, unsettled, or a step that is being entered: ten seconds at most; it stops nothing."""
    scene = await on_workflow(kernel) if state == "entering" else await brought(kernel, state)
    before = await scene.pending()
    receipt = await put(scene)
    view = await scene.view()
    assert (receipt.placement, view.cancel_pending) == (placement, False)
    assert await scene.pending() == ["direct", *before]
    left = int((await record(scene))["direct_ms"]) - view.now_ms
    assert (seconds - 2) * 1000 < left <= seconds * 1000
    found = await kernel.stops.withdraw(scene.sid, "d")
    assert found.verdict is Verdict.NOT_DUE
    assert (seconds - 2) * 1000 < found.ms_left <= seconds * 1000


async def test_a_caller_with_less_patience_waits_less(kernel: Kernel) -> None:
    """The bound is an upper one."""
    scene = await brought(kernel, "accepted")
    await put(scene, wait=0.5)
    assert int((await record(scene))["direct_ms"]) - (await scene.view()).now_ms <= 500
    async with unchanged(kernel):
        assert await withdrawn(scene) is Verdict.NOT_DUE
    await asyncio.sleep(0.55)
    assert await withdrawn(scene) is Verdict.OK


@pytest.mark.parametrize("state", ["accepted", "unsettled", "ready"])
async def test_taken_back_it_leaves_no_trace_but_the_log(kernel: Kernel, state: str) -> None:
    """The gate is untouched; the caller learns what is owed, and a repeat the same."""
    scene = await brought(kernel, state)
    before = await scene.view()
    await put(scene)
    await overdue(scene)
    found = await kernel.stops.withdraw(scene.sid, "d")
    assert found.verdict is Verdict.OK
    assert (found.execution_id, found.generation) == (("e1", 1) if state == "accepted" else ("", 0))
    view = await scene.view()
    assert (view.open_turn, view.unsettled_turn, view.activity) == (
        before.open_turn, before.unsettled_turn, before.activity,
    )  # fmt: skip
    assert (await scene.pending(), await discarded(scene)) == (["queued"], [("d", "expired")])
    async with unchanged(kernel):
        assert await kernel.stops.withdraw(scene.sid, "d") == found
        assert await withdrawn(scene, "other") is Verdict.GONE


async def test_a_claim_that_came_first_wins(kernel: Kernel) -> None:
    """One of both: claimed, whatever its time says, it is not taken back, also after its turn."""
    scene = await brought(kernel, "ready")
    await put(scene)
    assert [message.kind for message in (await scene.claimed()).messages] == ["direct"]
    assert "direct_ms" not in await record(scene)
    for _ in range(2):
        async with unchanged(kernel):
            assert await withdrawn(scene) is Verdict.GONE
        if (await scene.view()).open_turn:
            await scene.finished(await owned(scene))


@pytest.mark.parametrize("others", [True, False])
async def test_a_claim_discards_one_whose_time_is_over(kernel: Kernel, others: bool) -> None:
    """Its caller was told so, or will be: GONE, with the discard in the log."""
    scene = await brought(kernel, "ready")
    if not others:
        await kernel.inbox.clear(scene.sid)
    await put(scene)
    await overdue(scene)
    claim = await scene.claimed()
    assert claim.verdict is (Verdict.OK if others else Verdict.EMPTY)
    assert [message.body for message in claim.messages] == (["queued"] if others else [])
    assert (await discarded(scene))[-1] == ("d", "expired")
    assert not {"direct", "direct_ms"} & (await record(scene)).keys()
    assert await withdrawn(scene) is Verdict.GONE


async def test_another_waits_for_it_only_as_long_as_it_has_time(kernel: Kernel) -> None:
    """A caller that died before it took its prompt back leaves the line to the next."""
    scene = await brought(kernel, "accepted")
    await put(scene)
    async with unchanged(kernel):
        with pytest.raises(PredecessorPending, match="'d'"):
            await put(scene, message_id="d2")
    await overdue(scene)
    assert (await put(scene, message_id="d2")).placement == "latched"
    assert (await discarded(scene), await scene.pending()) == ([("d", "expired")], ["direct", "queued"])
    assert await withdrawn(scene) is Verdict.GONE
    assert await withdrawn(scene, "d2") is Verdict.NOT_DUE


async def test_a_repeat_gets_the_first_answer_and_other_calls_write_nothing(kernel: Kernel) -> None:
    """Receipt, text, guard, room, session."""
    scene = await brought(kernel, "ready")
    first = await put(scene)
    async with unchanged(kernel):
        again = await put(scene)
        assert (again.duplicate, again.placement, again.sequence) == (True, first.placement, first.sequence)
        with pytest.raises(ConflictingRepeat):
            await kernel.stops.put_direct(scene.sid, "other", wait=30, message_id="d")
        with pytest.raises(GuardLost):
            await put(scene, message_id="d2", guard_number=7)
        with pytest.raises(SessionUnknown):
            await kernel.stops.put_direct("nobody", "text", wait=30)
    await scene.claimed()
    kernel.store._common["max_inbox"] = 0
    async with unchanged(kernel):
        with pytest.raises(InboxFull):
            await put(scene, message_id="d2")
    await kernel.sessions.close(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(SessionClosed):
            await put(scene, message_id="d2")


async def test_under_a_guard_its_claim_waits_once_its_time_is_over(kernel: Kernel) -> None:
    """The right to pass ends with the wait: its caller is about to take it back."""
    scene = await brought(kernel, "ready")
    guard = await kernel.guards.acquire(scene.sid, "holder")
    await put(scene, guard_number=guard.number)
    await overdue(scene)
    async with unchanged(kernel):
        assert (await scene.claimed()).verdict is Verdict.GUARDED
    await kernel.guards.release(scene.sid, "holder", guard.number)
    assert [message.body for message in (await scene.claimed()).messages] == ["queued"]


async def test_a_holder_s_does_not_pass_a_step_s_entry_but_its_prompt(kernel: Kernel) -> None:
    """Under the guard it goes before the step's prompt, which waits for the guard."""
    scene = await on_workflow(kernel)
    guard = await kernel.guards.acquire(scene.sid, "holder")
    await put(scene, guard_number=guard.number)
    await scene.booted()
    async with unchanged(kernel):
        assert (await scene.claimed()).verdict is Verdict.ENTERING
    assert await entered(scene, "plan it")
    assert await scene.pending() == ["plan it", "direct"]
    assert [message.body for message in (await scene.claimed()).messages] == ["direct"]


@pytest.mark.parametrize("holds", [True, False])
async def test_a_holder_s_passes_what_was_put_before_it_since(kernel: Kernel, holds: bool) -> None:
    """That would wait for the guard, and the guard for the prompt; nobody else's direct prompt passes anything."""
    scene = await brought(kernel, "ready")
    number = (await kernel.guards.acquire(scene.sid, "holder")).number if holds else 0
    await put(scene, guard_number=number)
    await kernel.stops.put_first(scene.sid, "instead", kind="replace")
    assert await scene.pending() == ["instead", "direct", "queued"]
    claim = await scene.claimed()
    assert [message.body for message in claim.messages] == ["direct" if holds else "instead"]
    assert await scene.pending() == (["instead", "queued"] if holds else ["direct", "queued"])
    moved = await of_type(scene, "inbox.moved")
    assert [entry["message_id"] for entry in moved] == (["d"] if holds else [])


async def test_a_holder_s_that_was_steered_passes_no_guard(kernel: Kernel) -> None:
    """It is in one list, once; the head of the line is somebody else's."""
    scene = await brought(kernel, "ready")
    guard = await kernel.guards.acquire(scene.sid, "holder")
    await put(scene, guard_number=guard.number)
    await kernel.inbox.steer(scene.sid, "d")
    async with unchanged(kernel):
        assert (await scene.claimed()).verdict is Verdict.GUARDED
    await kernel.guards.release(scene.sid, "holder", guard.number)
    assert [message.body for message in (await scene.claimed()).messages] == ["direct", "queued"]


async def test_a_driver_that_waits_hears_of_it(kernel: Kernel) -> None:
    """It may wait for the guard, whose holder's prompt it may claim."""
    scene = await brought(kernel, "guarded")
    token, control = scene.token, kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        await put(scene, guard_number=1)
        assert await so_far() == [(control, f"run s {token}")]


async def test_another_s_direct_prompt_passes_no_guard(kernel: Kernel) -> None:
    """Only the number counts, also when the head is nobody's."""
    scene = await brought(kernel, "ready")
    await put(scene)
    await kernel.guards.acquire(scene.sid, "holder")
    async with unchanged(kernel):
        assert (await scene.claimed()).verdict is Verdict.GUARDED


@pytest.mark.parametrize("stop", ["user", "parent", "interrupt"])
@pytest.mark.parametrize("returned", [True, False])
async def test_a_stop_that_parks_discards_it_also_back_in_line(kernel: Kernel, returned: bool, stop: Any) -> None:
    """Its caller waits for it, and would not know that it was parked."""
    scene = await brought(kernel, "ready")
    await put(scene)
    if returned:
        await scene.claimed()
        await scene.finished(await owned(scene), "error", undelivered=True)
        assert (await scene.pending())[0] == "direct"
    if stop == "interrupt":
        await kernel.stops.put_first(scene.sid, "next", kind="parent")
    else:
        await kernel.stops.cancel(scene.sid, kind=stop)
    assert await discarded(scene) == [("d", "cancelled")]
    assert await withdrawn(scene) is Verdict.GONE


@pytest.mark.parametrize("kind", ["replace", "parent"])
async def test_one_that_somebody_chose_to_be_first_is_taken_back_no_more(kernel: Kernel, kind: str) -> None:
    """The replacement was accepted: its deadline was the first caller's. Another direct prompt may wait."""
    scene = await brought(kernel, "accepted")
    await put(scene)
    await overdue(scene)
    receipt = await kernel.stops.put_first(scene.sid, kind=kind, chosen=["d"])
    assert receipt.placement == "latched"
    assert await withdrawn(scene) is Verdict.GONE
    assert (await put(scene, message_id="d2")).placement == "latched"
    await kernel.inbox.remove(scene.sid, "d2")
    await scene.finished(await owned(scene), "cancelled")
    scene.token = (await scene.view()).activity
    await scene.settled()
    assert [message.message_id for message in (await scene.claimed()).messages] == ["d"]


@pytest.mark.parametrize("stop", ["silent", "replace"])
async def test_one_that_does_not_park_leaves_it(kernel: Kernel, stop: str) -> None:
    """It waits on, behind a replacement if there is one."""
    scene = await brought(kernel, "accepted")
    await put(scene)
    if stop == "silent":
        await kernel.stops.cancel(scene.sid, kind="silent")
    else:
        await kernel.stops.put_first(scene.sid, "next", kind="replace")
    assert ("direct" in await scene.pending(), await discarded(scene)) == (True, [])
