"""Sessions in every state in which a stop may find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.records import Ownership
from tests.scripts.scene import Scene

if TYPE_CHECKING:
    from coordinator.services import Kernel

WAITING = ["reserved", "starting", "ready", "guarded", "unsettled"]
"""An activity has nothing open: it waits for placement, start, its driver, the guard, or the settlement."""
OPEN = ["unaccepted", "accepted"]


async def brought(kernel: Kernel, state: str, **policy: object) -> Scene:
    """A session in that state; where it runs, a message `queued` is in line."""
    scene = await Scene(kernel).opened(**policy)
    sid = scene.sid
    if state in {"idle", "closed"}:
        if state == "closed":
            await kernel.sessions.close(sid)
    elif state == "maintenance":
        await kernel.maintenance.begin(sid, "job", "compact")
        await scene.sent("queued")
    elif state == "unsettled":
        ownership = await scene.prompted("first")
        await scene.sent("queued")
        await scene.finished(ownership)
    elif state in WAITING:
        await scene.sent("queued")
        if state == "starting":
            scene.execution = "e1"
            await kernel.executions.accept(sid, scene.token, "e1", "w1")
        elif state != "reserved":
            await scene.booted()
        if state == "guarded":
            await kernel.guards.acquire(sid, "somebody")
    else:
        await scene.prompted("first", accept=state != "unaccepted")
        await scene.sent("queued")
        if state == "closing":
            await kernel.sessions.close(sid, "close")
    return scene


async def owned(scene: Scene) -> Ownership:
    """The triple of the open prompt, from its record."""
    found = await scene.kernel.store.fields(scene.keys["session"], "open_execution", "open_generation", "open_claim")
    execution, generation, claim = found
    return Ownership(execution or "", int(generation or 0), claim or "")


async def record(scene: Scene) -> dict[str, str]:
    """The record as it is."""
    return dict(await scene.kernel.store.redis.hgetall(scene.keys["session"]))  # type: ignore[misc]
