"""A session on a workflow, brought to a named place in it by real scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.events import StepEntering
from coordinator.domain.records import SessionPolicy
from coordinator.domain.workflow import Step, Workflow
from tests.scripts.scene import Scene

if TYPE_CHECKING:
    from coordinator.domain.events import AgentReady
    from coordinator.services import Kernel
    from coordinator.services.settlements import Begun, Settled

FLOW = Workflow(
    name="flow",
    start="plan",
    steps=(
        Step(name="plan", on_turn_complete="next"),
        Step(name="build", on_turn_complete="next"),
        Step(name="review"),
    ),
)


async def on_workflow(kernel: Kernel, **policy: object) -> Scene:
    """A session that is idle, and enters the first step."""
    await kernel.workflows.publish([FLOW])
    scene = await Scene(kernel).opened(**policy)
    await kernel.sessions.open(scene.sid, SessionPolicy(**policy), workflow="flow")  # type: ignore[arg-type]
    return scene


async def entries(scene: Scene) -> list[tuple[str, StepEntering]]:
    """The announcements of entries on the event stream."""
    return [(entry, event) for entry, event in await scene.events() if isinstance(event, StepEntering)]


async def entered(scene: Scene, body: str = "", *, error: str = "") -> bool:
    """The newest entry's end, as a replica reports it."""
    await scene.delivered()
    event_id, event = (await entries(scene))[-1]
    ended = await scene.kernel.workflows.enter_end(scene.sid, event.entry_id, event_id, body=body, error=error)
    scene.token = (await scene.view()).activity or scene.token
    return ended


async def in_step(kernel: Kernel, **policy: object) -> Scene:
    """An idle session in the step `plan`."""
    scene = await on_workflow(kernel, **policy)
    assert await entered(scene)
    return scene


async def unsettled(kernel: Kernel, reason: str = "completed", **policy: object) -> tuple[Scene, str, AgentReady]:
    """A turn in the step `plan` that has ended, and its ready, delivered."""
    scene = await in_step(kernel, **policy)
    await scene.finished(await scene.prompted(), reason)
    await scene.delivered()
    return scene, *(await scene.readies())[-1]


async def begun(scene: Scene) -> tuple[int, Begun]:
    """The guard's number, and what the newest ready's turn may do, asked under it."""
    entry, event = (await scene.readies())[-1]
    guard = await scene.kernel.guards.acquire(scene.sid, "replica")
    return guard.number, await scene.kernel.settlements.begin(event, entry, guard.number)


async def settled(scene: Scene, step_to: str = "", *, seen: Begun | None = None, guard: int = 0) -> Settled:
    """The newest ready's turn, settled under the guard as a replica does."""
    entry, event = (await scene.readies())[-1]
    if seen is None:
        guard, seen = await begun(scene)
    return await scene.kernel.settlements.settle(event, entry, guard, seen=seen, step_to=step_to)


async def advanced(scene: Scene, step_to: str = "build") -> None:
    """The newest ready's turn leads to that step."""
    assert (await settled(scene, step_to)).detail == "advanced"


async def of_type(scene: Scene, *types: str) -> list[dict[str, str]]:
    """The log's entries of these types."""
    return [entry for entry in await scene.log() if entry["type"] in types]
