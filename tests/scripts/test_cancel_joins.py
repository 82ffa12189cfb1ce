"""Stops that meet a recorded operation: the table of section 6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import CancelConflict, SessionClosed
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import brought, owned, record

if TYPE_CHECKING:
    from coordinator.services import Kernel

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)
RECORDED = ["user", "parent", "silent", "system", "replace", "close"]
BECOMES = {
    "user": {"user": "user", "parent": "user", "silent": "user", "system": "system", "replace": "replace"},
    "parent": {"user": "user", "parent": "parent", "silent": "parent"},
    "silent": {"user": "user", "parent": "parent", "silent": "silent"},
    "system": {},
}
"""Kind of the later stop, to kind of the recorded operation, to what it is then; others are refused."""


async def stopping(kernel: Kernel, kind: Any) -> Scene:
    """A session whose open prompt is being stopped under the ticket `first`."""
    scene = await brought(kernel, "accepted")
    if kind == "replace":
        await kernel.stops.put_first(scene.sid, "instead", kind="replace", message_id="first")
    elif kind == "close":
        await kernel.sessions.close(scene.sid, "first")
    else:
        await kernel.stops.cancel(scene.sid, kind=kind, operation_id="first")
    return scene


@pytest.mark.parametrize("recorded", RECORDED)
@pytest.mark.parametrize("kind", ["user", "parent", "silent", "system"])
async def test_a_cancel_joins_or_is_refused(kernel: Kernel, kind: Any, recorded: str) -> None:
    """F25, D2: one ticket, the strongest kind, the first cause, the first deadline; a refusal writes nothing."""
    scene = await stopping(kernel, recorded)
    before, due = await scene.view(), (await scene.deadlines())["cancel"]
    wake = await scene.sent("in between")
    becomes = {**BECOMES[kind], **({"close": "close"} if kind != "system" else {})}.get(recorded)
    if becomes is None:
        async with unchanged(kernel):
            with pytest.raises(CancelConflict, match=recorded):
                await kernel.stops.cancel(scene.sid, kind=kind)
        return
    stop = await kernel.stops.cancel(scene.sid, kind=kind)
    assert (stop.ticket, stop.outcome) == ("first", None)
    view = await scene.view()
    assert (view.cancel_kind, (await record(scene))["cancel_cause"]) == (becomes, recorded)
    assert view.cancel_revision == before.cancel_revision + (becomes != recorded)
    assert (await scene.deadlines())["cancel"] == due
    parked = {entry.message_id: not entry.awake for entry in view.inbox.next_turn}
    assert parked[wake] == (kind in {"user", "parent"})


@pytest.mark.parametrize("recorded", RECORDED)
async def test_a_person_s_broad_stop_clears_whatever_is_recorded(kernel: Kernel, recorded: str) -> None:
    """Over an exclusive one too: the replacement itself is queued, and goes."""
    scene = await stopping(kernel, recorded)
    await kernel.stops.cancel(scene.sid, keep_inbox=False)
    assert await scene.pending() == []
    await kernel.stops.cancel(scene.sid)
    assert (await scene.types()).count("turn.cancelled_by_user") == 1
    assert (await scene.finished(await owned(scene), "cancelled")).verdict == "GONE"
    assert await kernel.stops.outcome(scene.sid, "first") == "cancelled"


@pytest.mark.parametrize("recorded", ["user", "parent", "silent", "system", "replace"])
async def test_a_close_overrides_any(kernel: Kernel, recorded: str) -> None:
    """F16: the operation becomes `close`, under the ticket and until the deadline that it has; then it is closed."""
    scene = await stopping(kernel, recorded)
    due = (await scene.deadlines())["cancel"]
    assert await kernel.sessions.close(scene.sid, "second") == "closing"
    view = await scene.view()
    assert (view.cancel_kind, (await scene.deadlines())["cancel"], await scene.pending()) == ("close", due, [])
    assert await scene.expired("cancel") == "OK"
    assert (await scene.view()).lifecycle == "closed"
    assert await kernel.stops.outcome(scene.sid, "first") == "escalated"


@pytest.mark.parametrize("recorded", RECORDED)
@pytest.mark.parametrize("kind", ["replace", "parent", "direct"])
async def test_what_is_put_first_meets_the_same_table(kernel: Kernel, kind: str, recorded: str) -> None:
    """Replace is exclusive, and so is what a direct prompt would wait for; a parent yields to a person."""
    scene = await stopping(kernel, recorded)
    if recorded == "close" or kind != "parent" or recorded in {"system", "replace"}:
        async with unchanged(kernel):
            with pytest.raises(SessionClosed if recorded == "close" else CancelConflict):
                await kernel.stops.put_first(scene.sid, "next", kind=kind)
        return
    before = await scene.view()
    receipt = await kernel.stops.put_first(scene.sid, "next", kind=kind)
    view = await scene.view()
    assert receipt.placement == "latched"
    if recorded == "user":
        assert await scene.pending() == ["queued", "next"]
        assert (view.cancel_revision, view.park_mark) == (before.cancel_revision, before.park_mark)
    else:
        assert await scene.pending() == ["next", "queued"]
        assert view.cancel_kind == "parent"
    assert [entry.awake for entry in view.inbox.next_turn if entry.body == "next"] == [True]
    assert (await scene.finished(await owned(scene), "cancelled")).verdict == "RESTARTED"
