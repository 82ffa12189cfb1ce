"""Cancel: every kind in every state, and what it leaves behind (section 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import ConflictingRepeat, GuardLost, SessionUnknown, TurnChanged
from coordinator.domain.records import Ownership
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import OFFERS, heard, unchanged
from tests.scripts.states import OPEN, WAITING, brought, owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)
KINDS = ["user", "parent", "silent", "system"]
PARKING = ["user", "parent"]


@pytest.mark.parametrize("kind", PARKING)
@pytest.mark.parametrize("state", WAITING)
async def test_a_stop_that_finds_nothing_open_ends_the_activity_at_once(kernel: Kernel, state: str, kind: Any) -> None:
    """F1: no operation, nothing armed for later; the queue is parked, the driver superseded, its execution kept."""
    scene = await brought(kernel, state)
    execution = (await scene.view()).execution_id
    stop = await kernel.stops.cancel(scene.sid, kind=kind, operation_id="o")
    assert (stop.ticket, stop.outcome) == ("o", "cancelled")
    view = await scene.view()
    assert (view.status, view.activity, view.cancel_pending, view.execution_id) == ("idle", "", False, execution)
    assert [entry.awake for entry in view.inbox.next_turn] == [False]
    assert not set(await scene.deadlines()) & {"cancel", "placement"}
    assert (await scene.types())[-1] == "idle"
    async with unchanged(kernel):
        assert (await scene.claimed("late")).verdict is Verdict.SUPERSEDED
        assert (await kernel.executions.accept(scene.sid, scene.token, "e9", "w9")).verdict is Verdict.SUPERSEDED
        assert await kernel.stops.outcome(scene.sid, "o") == "cancelled"
    by_user = [entry["turn"] for entry in await scene.log() if entry["type"] == "turn.cancelled_by_user"]
    assert by_user == (["1"] if kind == "user" and state == "unsettled" else [])


@pytest.mark.parametrize("kind", ["silent", "system"])
@pytest.mark.parametrize("state", ["idle", "closed", "maintenance", *WAITING])
async def test_a_kind_that_does_not_park_changes_nothing_where_nothing_is_open(
    kernel: Kernel, state: str, kind: Any
) -> None:
    """F2: `idle`, and only the receipt is written."""
    scene = await brought(kernel, state)
    async with unchanged(kernel, ("*:receipt:*",)):
        assert (await kernel.stops.cancel(scene.sid, kind=kind)).outcome == "idle"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", ["idle", "closed"])
async def test_a_keep_inbox_cancel_of_an_idle_session_is_a_no_op(kernel: Kernel, state: str, kind: Any) -> None:
    """F1: what is queued stays as awake as it was, and a later wake runs."""
    scene = await brought(kernel, state)
    async with unchanged(kernel, ("*:receipt:*",)):
        assert (await kernel.stops.cancel(scene.sid, kind=kind)).outcome == "idle"


@pytest.mark.parametrize("state", ["idle", "maintenance", *WAITING, *OPEN])
async def test_a_broad_one_discards_what_is_queued_once_each_steers_first(kernel: Kernel, state: str) -> None:
    """Both lists, one entry a message; what is open goes on until its agent ends it."""
    scene = await brought(kernel, state)
    queued = [entry.message_id for entry in (await scene.view()).inbox.next_turn]
    quiet = await scene.sent("quiet", wake=False)
    steer = await scene.sent("steer", list="next-step", wake=False)
    await kernel.stops.cancel(scene.sid, keep_inbox=False)
    discarded = [(e["message_id"], e["why"]) for e in await scene.log() if e["type"] == "inbox.discarded"]
    assert discarded == [(one, "cancelled") for one in (steer, *queued, quiet)]
    view = await scene.view()
    assert ((await scene.pending()), view.cancel_pending) == ([], state in {"maintenance", *OPEN})
    assert await kernel.store.redis.zcard(scene.keys["awake"]) == 0
    assert "inbox_bytes" not in await record(scene)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("state", OPEN)
async def test_what_is_open_gets_an_operation_with_a_deadline_and_its_worker_is_told(
    kernel: Kernel, state: str, kind: Any
) -> None:
    """The hint names generation, token and cause; the record, the snapshot and the heartbeat say the same."""
    scene = await brought(kernel, state)
    async with heard(kernel, kernel.store.keys.control("w1"), kernel.store.keys.hint(scene.sid)) as so_far:
        stop = await kernel.stops.cancel(scene.sid, kind=kind, operation_id="o")
        hints = dict(await so_far())
    assert hints[kernel.store.keys.control("w1")] == f"abort {scene.sid} 1 {scene.token} {kind}"
    assert (stop.ticket, stop.outcome, kernel.store.keys.hint(scene.sid) in hints) == ("o", None, True)
    view = await scene.view()
    assert (view.cancel_pending, view.cancel_kind, view.cancel_revision, view.open_turn) == (True, kind, 1, 1)
    assert [entry.awake for entry in view.inbox.next_turn] == [kind not in PARKING]
    assert "cancel" in await scene.deadlines()
    assert await scene.renewed(claim="c1") == "abort"
    entry = next(e for e in await scene.log() if e["type"] == "cancel.requested")
    assert (entry["operation_id"], entry["kind"], entry["turn"], entry["generation"]) == ("o", kind, "1", "1")
    assert (await scene.claimed("c1")).abort == kind
    assert await kernel.turns.step(scene.sid, await owned(scene), 1) == ()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("cancelled", "cancelled"), ("completed", "completed"), ("error", "completed"), ("interrupted", "escalated")],
)
async def test_the_end_of_the_prompt_ends_the_operation_and_follows_the_cancel_s_row(
    kernel: Kernel, kind: Any, reason: str, outcome: str
) -> None:
    """F4, F8: the turn keeps the agent's reason; nothing goes back; only what is awake restarts."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid, kind=kind, operation_id="o")
    end = await scene.finished(await owned(scene), reason, error="boom")
    assert end.verdict is (Verdict.GONE if kind in PARKING else Verdict.RESTARTED)
    assert (await scene.types()).count("turn.cancelled_by_user") == (kind == "user")
    assert await kernel.stops.outcome(scene.sid, "o") == outcome
    view = await scene.view()
    assert (view.cancel_pending, view.cancel_kind, view.cancel_revision) == (False, "", 2)
    assert view.last_reason == ("escalated" if outcome == "escalated" else reason)
    assert "cancel" not in await scene.deadlines()
    assert (await scene.readies())[-1][1].cancel_kind == kind
    async with unchanged(kernel, OFFERS):
        assert (await scene.finished(Ownership("e1", 1, "c1"), reason)).verdict is end.verdict


async def test_expectations_that_are_not_current_change_nothing(kernel: Kernel) -> None:
    """Section 6: the turn or generation that is open, or ended and unsettled; after that nothing is."""
    scene = await brought(kernel, "accepted")
    for wrong in ({"expected_turn": 2}, {"expected_generation": 2}, {"expected_turn": 1, "expected_generation": 7}):
        async with unchanged(kernel):
            with pytest.raises(TurnChanged):
                await kernel.stops.cancel(scene.sid, **wrong)  # type: ignore[arg-type]
    await scene.finished(await owned(scene))
    assert (await kernel.stops.cancel(scene.sid, expected_turn=1, expected_generation=1)).outcome == "cancelled"
    await scene.settled()
    async with unchanged(kernel):
        with pytest.raises(TurnChanged):
            await kernel.stops.cancel(scene.sid, expected_generation=1)


async def test_a_repeat_gets_the_first_answer_and_stops_nothing_more(kernel: Kernel) -> None:
    """F11: the ticket lives as a receipt, not as long as the operation; other options under the same id are refused."""
    scene = await brought(kernel, "accepted")
    first = await kernel.stops.cancel(scene.sid, operation_id="o")
    await scene.finished(await owned(scene), "cancelled")
    await scene.sent("after")
    async with unchanged(kernel):
        assert await kernel.stops.cancel(scene.sid, operation_id="o") == first
        with pytest.raises(ConflictingRepeat):
            await kernel.stops.cancel(scene.sid, operation_id="o", keep_inbox=False)
        with pytest.raises(SessionUnknown):
            await kernel.stops.cancel("nobody")
        with pytest.raises(GuardLost):
            await kernel.stops.cancel(scene.sid, guard_number=7)
