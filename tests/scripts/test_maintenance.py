"""Maintenance jobs: one owner of the idle session, under a lease, and what a stop does to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import SessionBusy, SessionClosed, SessionUnknown, Superseded
from tests.scripts.scene import unchanged
from tests.scripts.states import OPEN, WAITING, brought

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def test_a_job_shows_as_idle_and_what_wakes_it_meanwhile_runs_at_its_end(kernel: Kernel) -> None:
    """Section 5.4: one `running`, no `idle` before it; the send is latched."""
    scene = await brought(kernel, "idle")
    await kernel.maintenance.begin(scene.sid, "job", "compact")
    assert (await kernel.inbox.send(scene.sid, "wake")).placement == "latched"
    assert ((await scene.view()).status, (await scene.view()).phase) == ("idle", "maintenance")
    assert await kernel.maintenance.end(scene.sid, "job")
    assert (await scene.types())[-1] == "running"
    assert "idle" not in await scene.types()
    async with unchanged(kernel, ("arq:*", "*:doorbell")):
        assert await kernel.maintenance.end(scene.sid, "job")


async def test_the_end_of_a_job_releases_nothing_that_was_parked(kernel: Kernel) -> None:
    """F3: neither its end nor its lost lease touches the mark."""
    scene = await brought(kernel, "ready")
    await kernel.stops.cancel(scene.sid)
    for number, over in enumerate((False, True)):
        await kernel.maintenance.begin(scene.sid, f"job-{number}", "compact")
        if over:
            assert await scene.expired("maintenance") == "OK"
        else:
            await kernel.maintenance.end(scene.sid, f"job-{number}")
        view = await scene.view()
        assert (view.phase, [entry.awake for entry in view.inbox.next_turn]) == ("idle", [False])
    assert set(await scene.deadlines()) == {"lease", "retention"}


@pytest.mark.parametrize("state", ["closed", "closing", "maintenance", *WAITING, *OPEN])
async def test_only_an_idle_session_is_taken(kernel: Kernel, state: str) -> None:
    """SessionBusy or SessionClosed, and nothing is written; the job's own repeat is no second one."""
    scene = await brought(kernel, state)
    async with unchanged(kernel):
        with pytest.raises(SessionClosed if state.startswith("clos") else SessionBusy):
            await kernel.maintenance.begin(scene.sid, "another", "compact")
        with pytest.raises(SessionUnknown):
            await kernel.maintenance.begin("nobody", "another", "compact")
        if state == "maintenance":
            await kernel.maintenance.begin(scene.sid, "job", "compact")


async def test_a_late_repeat_does_not_begin_a_job_again(kernel: Kernel) -> None:
    """F11: nobody is behind it; the caller is told that it is over. Nor can one that is over go on."""
    scene = await brought(kernel, "maintenance")
    await kernel.maintenance.end(scene.sid, "job")
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(Superseded):
            await kernel.maintenance.begin(scene.sid, "job", "compact")
        assert await kernel.maintenance.extend(scene.sid, "job") is None
        assert not await kernel.maintenance.end(scene.sid, "another")


@pytest.mark.parametrize("kind", ["user", "parent", "close"])
@pytest.mark.parametrize(
    ("end", "outcome"), [("end", "cancelled"), ("maintenance", "escalated"), ("cancel", "escalated")]
)
async def test_a_stop_of_a_job_is_an_operation_that_ends_with_it(
    kernel: Kernel, kind: Any, end: str, outcome: str
) -> None:
    """F5: whatever ends the job ends the operation; what was queued is parked, or the session closed."""
    scene = await brought(kernel, "maintenance")
    if kind == "close":
        assert await kernel.sessions.close(scene.sid, "o") == "closing"
    else:
        stop = await kernel.stops.cancel(scene.sid, kind=kind, operation_id="o")
        assert (stop.ticket, stop.outcome) == ("o", None)
    assert await kernel.maintenance.extend(scene.sid, "job") == kind
    entry = (await scene.log())[-1]
    assert (entry["type"], entry["turn"]) == ("cancel.requested", "")
    if end == "end":
        assert await kernel.maintenance.end(scene.sid, "job")
    else:
        assert await scene.expired(end) == "OK"
    view = await scene.view()
    assert (view.cancel_pending, await kernel.stops.outcome(scene.sid, "o")) == (False, outcome)
    assert (view.status, view.lifecycle) == ("idle", "closed" if kind == "close" else "open")
    assert not set(await scene.deadlines()) & {"cancel", "maintenance"}
    assert "turn.cancelled_by_user" not in await scene.types()
