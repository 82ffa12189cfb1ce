"""A session's whole life, in which every script has its part, and the keyspace without times and stream ids."""

from __future__ import annotations

import secrets
from itertools import count
from typing import TYPE_CHECKING, Any

from coordinator.store.keys import GROUP
from tests.scripts.scene import Scene
from tests.scripts.story_flow import Flowing
from tests.scripts.story_stops import Stopping
from tests.support.keyspace import dump

if TYPE_CHECKING:
    import pytest

    from coordinator.services import Kernel
    from tests.support.keyspace import Key


def number_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids that the services make are counted, so that two lives have the same."""
    ids = count(1)
    monkeypatch.setattr(secrets, "token_hex", lambda _: str(next(ids)))


async def timeless(kernel: Kernel) -> dict[str, Any]:
    """The coordinator's keys; times are left out, and ids of entries are places in the event stream."""
    state = await dump(kernel.store.redis, ignoring={"arq:*", "*:doorbell"})
    events = [entry for name, key in state.items() if name.endswith(":events") for entry, _ in key.value["entries"]]
    places = {entry: f"entry {place}" for place, entry in enumerate(events)}
    return {name: _timeless(key, places, scored=name.endswith(":awake")) for name, key in state.items()}


def _timeless(key: Key, places: dict[str, str], *, scored: bool) -> Any:
    if key.type == "hash":
        return _fields(key.value, places)
    if key.type == "zset":
        return [pair if scored else pair[0] for pair in sorted(key.value)]
    if key.type == "stream":
        groups = [(name, places.get(last, ""), pending) for name, last, pending in key.value["groups"]]
        return [_fields(fields, places) for _, fields in key.value["entries"]], groups
    return key.value


def _fields(fields: dict[str, str], places: dict[str, str]) -> dict[str, str]:
    return {name: places.get(text, text) for name, text in fields.items() if not name.endswith("_ms")}


class Story(Stopping, Flowing):
    """Tells the life of session s; `seen` are the answers and, after every chapter, the keyspace."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.scene = Scene(kernel)
        self.seen: list[Any] = []

    async def tell(self) -> list[Any]:
        """All chapters."""
        await self.scene.opened()
        chapters = [self.a_turn, self.a_refusal, self.handlers, self.losses, self.edits, self.stops, self.maintenance]
        chapters += [self.a_leave, self.resets, self.directs, self.questions, self.steps, self.an_end]
        for chapter in chapters:
            await chapter()
            self.seen.append(await timeless(self.kernel))
        return self.seen

    async def ended(self, kind: str) -> None:
        """A deadline, over. Its repeat is not due; what follows is in the record."""
        await self.scene.expired(kind)
        self.scene.token = (await self.scene.view()).activity

    async def a_turn(self) -> None:
        """Placed at the second offer, claimed, said, steered, finished with more to do, and settled."""
        scene, turns = self.scene, self.kernel.turns
        await scene.sent("first")
        await self.ended("placement")
        await scene.booted()
        claim = await scene.claimed("c1")
        assert claim.ownership
        self.seen += [claim, await scene.renewed(token="")]
        self.seen.append(await turns.output(scene.sid, claim.ownership, 1, "hello"))
        await scene.sent("steer", list="next-step")
        self.seen += [await turns.step(scene.sid, claim.ownership, 1), await scene.renewed(claim="c1")]
        await scene.sent("second")
        self.seen.append(await scene.finished(claim.ownership, number=2, text="bye"))
        self.seen.append(await scene.claimed("c2"))
        await self.settled()

    async def settled(self) -> None:
        """The newest ready, delivered and settled."""
        await self.scene.delivered()
        entry, event = (await self.scene.readies())[-1]
        self.seen.append(await self.kernel.settlements.settle(event, entry))

    async def a_refusal(self) -> None:
        """An agent that never takes its prompt; the message comes back and is taken by another."""
        scene = self.scene
        self.seen.append(await scene.claimed("c2"))
        await self.ended("acceptance")
        self.seen.append(await self.kernel.executions.release(scene.sid, "e1"))
        await self.settled()
        await scene.booted("e2")
        claim = await scene.claimed("c3")
        assert claim.ownership
        self.seen += [claim, await scene.finished(claim.ownership, "error", number=1, text="no", error="boom")]

    async def handlers(self) -> None:
        """Handlers fail once, and then settle under a guard that is extended and given back."""
        guards, settlements, sid = self.kernel.guards, self.kernel.settlements, self.scene.sid
        await self.scene.delivered()
        entry, event = (await self.scene.readies())[-1]
        for fails in (True, False):
            guard = await guards.acquire(sid, "r")
            begun = await settlements.begin(event, entry, guard.number)
            self.seen += [guard, begun]
            self.seen.append(await guards.extend(sid, "r", guard.number))
            if fails:
                self.seen.append(await settlements.failed(event, entry, guard.number, "boom", 5))
            else:
                self.seen.append(await settlements.settle(event, entry, guard.number, seen=begun))
            await guards.release(sid, "r", guard.number)

    async def losses(self) -> None:
        """A worker dies with an open prompt, the next one does not start; the dead are forgotten."""
        scene = self.scene
        await scene.sent("third")
        self.seen.append(await scene.claimed("c4"))
        await self.ended("lease")
        scene.execution = "e3"
        self.seen.append(await self.kernel.executions.accept(scene.sid, scene.token, "e3", "w3"))
        await self.ended("start")
        await self.ended("suspect")
        await self.settled()

    async def a_leave(self) -> None:
        """A worker leaves between turns, another goes on; a ready that was lost is written again."""
        scene = self.scene
        await scene.sent("fourth")
        await scene.booted("e4")
        end = await self.kernel.turns.retire(scene.sid, scene.token, "e4", next_token="after")
        scene.token = end.token
        await scene.booted("e5")
        for claim_id in ("c5", "c6"):
            claim = await scene.claimed(claim_id)
            assert claim.ownership
            self.seen += [end, claim, await scene.finished(claim.ownership, number=1, text="done")]
            await self.kernel.store.redis.xdel(scene.keys["events"], (await scene.readies())[-1][0])
            await self.ended("settlement")
            await self.settled()
        self.seen.append(await self.kernel.executions.release(scene.sid, "e5"))

    async def an_end(self) -> None:
        """Closed with something queued; the partition is swept and tidied; the session is removed."""
        scene, store = self.scene, self.kernel.store
        partition = store.keys.partition_of(scene.sid)
        await scene.sent("quiet", wake=False)
        self.seen.append(await self.kernel.sessions.close(scene.sid))
        self.seen.append((await self.kernel.deadlines.sweep(partition)).due)
        self.seen.append(await store.call_partition("tidy", partition, group=GROUP, idle_ms=60_000, kept=1000))
        self.seen.append(await timeless(self.kernel))
        await scene.make_due("retention")
        await self.kernel.deadlines.expire("retention", scene.sid, "1")
