"""Sessions that are being reset, in each of its phases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.scripts.scene import Scene
from tests.scripts.states import brought, owned

if TYPE_CHECKING:
    from coordinator.domain.records import ResetStage
    from coordinator.services import Kernel

PHASES = ["open", "called", "starting"]
"""Its prompt unwinds; its worker has it; its worker will have it when the agent is up."""


async def begun(scene: Scene, reset_id: str = "r", entry_id: str = "") -> ResetStage:
    """A reset, begun under a guard that is given back."""
    guards, sid = scene.kernel.guards, scene.sid
    guard = await guards.acquire(sid, "resetter")
    try:
        return await scene.kernel.resets.begin(sid, reset_id, guard.number, entry_id=entry_id)
    finally:
        await guards.release(sid, "resetter", guard.number)


async def resetting(kernel: Kernel, phase: str, **policy: object) -> Scene:
    """A session under the marker of reset `r`; a message `queued` was in line before."""
    scene = await brought(kernel, {"open": "accepted", "called": "ready"}.get(phase, phase), **policy)
    assert await begun(scene) == "running"
    return scene


async def quiesced(kernel: Kernel, **policy: object) -> Scene:
    """The turn that was open has ended by its driver's word: the worker has the session, and a ready waits."""
    scene = await resetting(kernel, "open", **policy)
    await scene.finished(await owned(scene), "cancelled")
    return scene


async def ended(scene: Scene, *, committed: bool = True, called: bool = True, execution: str = "e1") -> bool:
    """The worker's report."""
    done = await scene.kernel.resets.end(
        scene.sid,
        execution,
        "r",
        committed=committed,
        resume_token="fresh" if committed else "",
        why="" if committed else "boom",
        called=called,
        next_token="after",
    )
    scene.token = (await scene.view()).activity or scene.token
    return done


async def outcome(scene: Scene) -> tuple[str, str]:
    """How reset `r` stands, and why."""
    return await scene.kernel.resets.state(scene.sid, "r")
