"""The chapters of the story in which its context is reset, it is prompted, asks, and walks a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinator.domain.records import SessionPolicy
from tests.scripts.flow import FLOW, begun, entered, entries
from tests.scripts.flow import settled as settled_in_step

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel
    from tests.scripts.scene import Scene


class Flowing:
    """Told by `Story`, whose fields these are."""

    kernel: Kernel
    scene: Scene
    seen: list[Any]

    async def ended(self, kind: str) -> None:
        raise NotImplementedError

    async def settled(self) -> None:
        raise NotImplementedError

    async def _prompted(self, claim_id: str) -> Ownership:
        raise NotImplementedError

    async def _reset(self, reset_id: str) -> None:
        guard = await self.kernel.guards.acquire(self.scene.sid, "resetter")
        self.seen.append(await self.kernel.resets.begin(self.scene.sid, reset_id, guard.number))
        await self.kernel.guards.release(self.scene.sid, "resetter", guard.number)

    async def resets(self) -> None:
        """Beside a suspect; with nobody to call; of an open turn; of an agent that could not, or never answers."""
        scene, resets, sid = self.scene, self.kernel.resets, self.scene.sid
        await scene.sent("quiet", wake=False)
        await self._reset("r-suspect")
        await self.ended("suspect")
        await scene.sent("wake")
        await self._reset("r-nobody")
        scene.token = (await scene.view()).activity
        await scene.booted("r1")
        ownership = await self._prompted("r-1")
        await self._reset("r-open")
        await scene.sent("later")
        self.seen.append(await scene.finished(ownership, "cancelled"))
        self.seen.append(await resets.end(sid, "r1", "r-open", committed=True, resume_token="fresh"))
        scene.token = (await scene.view()).activity
        await self.settled()
        await scene.finished(await self._prompted("r-2"), "cancelled")
        await self.settled()
        await self._reset("r-not-called")
        self.seen.append(await resets.end(sid, "r1", "r-not-called", committed=False, why="no", called=False))
        await self._reset("r-called")
        self.seen.append(await resets.end(sid, "r1", "r-called", committed=False, why="boom"))
        await self.kernel.executions.release(sid, "r1")
        await scene.sent("once more")
        await scene.booted("r2")
        await self._reset("r-late")
        await self.ended("reset")
        self.seen += [await resets.state(sid, one) for one in ("r-suspect", "r-open", "r-called", "r-late")]
        await self.kernel.executions.release(sid, "r2")
        await self.kernel.inbox.clear(sid, "o-clear-all")

    async def directs(self) -> None:
        """One is taken back in time, the next is claimed before."""
        scene, stops, sid = self.scene, self.kernel.stops, self.scene.sid
        self.seen.append((await stops.put_direct(sid, "too late", wait=0, message_id="d-1")).placement)
        self.seen.append(await stops.withdraw(sid, "d-1"))
        self.seen.append((await stops.put_direct(sid, "in time", wait=30, message_id="d-2")).placement)
        self.seen.append((await stops.withdraw(sid, "d-2")).verdict)
        scene.token = (await scene.view()).activity
        await scene.booted("d1")
        ownership = await self._prompted("d-1")
        self.seen.append(await stops.withdraw(sid, "d-2"))
        self.seen.append(await scene.finished(ownership, "cancelled"))
        await self.settled()

    async def questions(self) -> None:
        """Answered to the agent; left and expired; expired after its turn; answered after its turn."""
        scene, questions, sid = self.scene, self.kernel.questions, self.scene.sid
        await scene.sent("ask me")
        ownership = await self._prompted("q-1")
        self.seen += [await questions.ask(sid, ownership, "q1", "how?") for _ in range(2)]
        self.seen.append((await questions.answer(sid, "q1", "so", message_id="m-so")).placement)
        self.seen += [await questions.ask(sid, ownership, one, "and?") for one in ("q1", "q2", "q3")]
        await questions.leave(sid, "q2")
        await self.ended("question")
        self.seen.append(await questions.ask(sid, ownership, "q2", "and?"))
        self.seen.append(await scene.finished(ownership, "cancelled"))
        await self.settled()
        for question in ("q4", "q5"):
            await scene.sent("ask again")
            ownership = await self._prompted(f"of {question}")
            self.seen.append(await questions.ask(sid, ownership, question, "really?"))
            self.seen.append(await scene.finished(ownership, "completed"))
            await self.settled()
            if question == "q4":
                await self.ended("question")
                await self.settled()
        self.seen.append((await questions.answer(sid, "q5", "yes", message_id="m-yes")).placement)
        await scene.finished(await self._prompted("q-answer"), "completed")
        await self.settled()
        self.seen.append(await self.kernel.executions.release(sid, "d1"))

    async def steps(self) -> None:
        """Entered with a prompt, advanced by a signalled turn, moved at once and later, entered too late and not."""
        scene, workflows, sid = self.scene, self.kernel.workflows, self.scene.sid
        await workflows.publish([FLOW])
        await self.kernel.sessions.open(sid, SessionPolicy(), workflow="flow")
        self.seen.append(await entered(scene, "plan it"))
        await scene.booted("f1")
        ownership = await self._prompted("f-1")
        await workflows.signal(sid)
        self.seen.append(await scene.finished(ownership))
        await self.settled()
        guard, seen = await begun(scene)
        self.seen += [seen, await settled_in_step(scene, "build", seen=seen, guard=guard)]
        self.seen.append(await workflows.move(sid, "review", operation_id="o-pending"))
        self.seen.append(await entered(scene, "build it"))
        await self.ended("entry")
        self.seen.append(await entered(scene, error="boom"))
        self.seen.append(await workflows.move(sid, "plan", operation_id="o-applied"))
        self.seen.append(await entered(scene, "plan again"))
        await scene.finished(await self._prompted("f-2"))
        self.seen.append(await settled_in_step(scene))
        event_id = (await scene.delivered())[-1]
        for _ in range(2):
            await self.kernel.settlements.give_up(sid, event_id, "step.entered", "key", "boom")
        self.seen.append(len(await entries(scene)))
