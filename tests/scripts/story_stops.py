"""The chapters of the story in which it is edited, stopped, replaced, and taken by maintenance jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel
    from tests.scripts.scene import Scene


class Stopping:
    """Told by `Story`, whose fields these are."""

    kernel: Kernel
    scene: Scene
    seen: list[Any]

    async def ended(self, kind: str) -> None:
        raise NotImplementedError

    async def settled(self) -> None:
        raise NotImplementedError

    async def edits(self) -> None:
        """Two quiet messages are changed in every way, and cleared."""
        inbox, sid = self.kernel.inbox, self.scene.sid
        one, two, three = [await self.scene.sent(text, wake=False) for text in ("one", "two", "three")]
        await inbox.replace(sid, one, "uno", "o-replace")
        await inbox.move(sid, three, one, "o-move")
        await inbox.steer(sid, two, "o-steer")
        await inbox.remove(sid, three, "o-remove")
        self.seen.append((await self.scene.view()).inbox)
        await inbox.clear(sid, "o-clear")

    async def _prompted(self, claim_id: str) -> Ownership:
        self.scene.token = (await self.scene.view()).activity
        claim = await self.scene.claimed(claim_id)
        assert claim.ownership, claim
        await self.kernel.turns.output(self.scene.sid, claim.ownership, 1, "")
        self.seen.append(claim)
        return claim.ownership

    async def stops(self) -> None:
        """Acknowledged; replaced, and ended by its own worker; not acknowledged in time; with nothing open."""
        scene, stops, sid = self.scene, self.kernel.stops, self.scene.sid
        await scene.sent("stop me")
        await scene.booted("s1")
        ownership = await self._prompted("s-1")
        self.seen += [await stops.cancel(sid, operation_id="o-1"), await stops.cancel(sid, kind="silent")]
        self.seen += [await scene.finished(ownership, "cancelled"), await stops.outcome(sid, "o-1")]
        await self.settled()
        await scene.sent("replace me")
        ownership = await self._prompted("s-2")
        await stops.put_first(sid, "instead", kind="replace", message_id="m-instead")
        self.seen.append(await stops.escalate(sid, ownership, "it can't"))
        await self.settled()
        scene.token = (await scene.view()).activity
        await scene.booted("s2")
        await self._prompted("s-3")
        self.seen.append(await stops.cancel(sid, kind="system", operation_id="o-2"))
        await self.ended("cancel")
        self.seen.append(await stops.outcome(sid, "o-2"))
        await self.settled()
        await scene.sent("never begun")
        self.seen.append(await stops.cancel(sid, operation_id="o-3"))

    async def maintenance(self) -> None:
        """A job that ends, and one that is told to stop and does not."""
        maintenance, sid = self.kernel.maintenance, self.scene.sid
        await maintenance.begin(sid, "j1", "compact")
        self.seen += [await maintenance.extend(sid, "j1"), await maintenance.end(sid, "j1")]
        await maintenance.begin(sid, "j2", "compact")
        self.seen.append(await self.kernel.stops.cancel(sid, kind="parent", operation_id="o-4"))
        self.seen.append(await maintenance.extend(sid, "j2"))
        await self.ended("maintenance")
        self.seen.append(await self.kernel.stops.outcome(sid, "o-4"))
