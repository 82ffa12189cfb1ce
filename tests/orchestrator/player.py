"""Plays the worker's part with the kernel's own scripts, so that turns end without a worker process."""

from __future__ import annotations

from typing import Any

import msgspec

from coordinator.domain.events import AgentReady, decode
from coordinator.domain.ids import new_id
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.services import Kernel
from coordinator.services.turns import Claim, Finish


class Player(msgspec.Struct):
    """One session and the execution that serves it."""

    kernel: Kernel
    session_id: str
    token: str = ""
    execution_id: str = ""

    async def open(self, policy: SessionPolicy | None = None, *, workflow: str | None = None) -> None:
        await self.kernel.sessions.open(self.session_id, policy or SessionPolicy(), workflow=workflow)

    async def send(self, text: str) -> None:
        await self.kernel.inbox.send(self.session_id, text)

    async def start(self) -> None:
        """Accept the activity under a new execution, and boot it."""
        self.token = (await self.kernel.snapshots.read(self.session_id)).activity
        self.execution_id = new_id("x")
        accepted = await self.kernel.executions.accept(self.session_id, self.token, self.execution_id, "w1")
        assert accepted.verdict is Verdict.OK
        assert await self.kernel.executions.boot(self.session_id, self.execution_id)

    async def claim(self) -> Claim:
        seen = await self.kernel.snapshots.read(self.session_id)
        self.token = seen.activity
        return await self.kernel.turns.claim(
            self.session_id, self.token, self.execution_id, new_id("c"), floor=seen.generation
        )

    async def finish(self, claim: Claim, reason: str = "completed", text: str = "done") -> Finish:
        assert claim.ownership is not None
        assert await self.kernel.turns.output(self.session_id, claim.ownership, 1, "")
        return await self.kernel.turns.finish(self.session_id, claim.ownership, self.token, reason, number=2, text=text)

    async def stopped(self, claim: Claim, reason: str = "cancelled") -> Finish:
        """End a turn that was stopped before it said anything."""
        assert claim.ownership is not None
        return await self.kernel.turns.finish(self.session_id, claim.ownership, self.token, reason, number=1, text="")

    async def begin(self, text: str = "work") -> Claim:
        """Send, and open the turn."""
        await self.send(text)
        if not self.execution_id:
            await self.start()
        claim = await self.claim()
        assert claim.verdict is Verdict.OK, claim
        return claim

    async def turn(self, text: str = "work", reason: str = "completed") -> Claim:
        """One whole turn, up to its `agent.ready`."""
        claim = await self.begin(text)
        await self.finish(claim, reason)
        return claim

    async def log(self, *types: str) -> list[dict[str, str]]:
        """The session's log entries of these types."""
        store = self.kernel.store
        entries = await store.redis.xrange(store.keys.session(self.session_id)["log"])
        return [fields for _, fields in entries if fields["type"] in types]

    async def outcomes(self) -> list[str]:
        """How its turns were settled, in order."""
        return [entry["outcome"] for entry in await self.log("turn.settled")]

    async def steps(self) -> list[str]:
        """The steps that it has entered, in order."""
        return [entry["step"] for entry in await self.log("step.entered")]

    async def events(self, *types: str) -> list[tuple[str, dict[str, str]]]:
        """This session's entries of these types on its partition's stream."""
        store = self.kernel.store
        entries = await store.redis.xrange(store.keys.session(self.session_id)["events"])
        return [
            (entry_id, fields)
            for entry_id, fields in entries
            if fields.get("session_id") == self.session_id and fields.get("type") in types
        ]

    async def again(self, *entries: tuple[str, dict[Any, Any]]) -> None:
        """Add these entries to the stream once more."""
        store = self.kernel.store
        for _, fields in entries:
            await store.redis.xadd(store.keys.session(self.session_id)["events"], fields)

    async def readies(self) -> list[tuple[str, AgentReady]]:
        """This session's `agent.ready` entries on its partition's stream."""
        store = self.kernel.store
        entries = await store.redis.xrange(store.keys.session(self.session_id)["events"])
        found = []
        for entry_id, fields in entries:
            if fields.get("session_id") == self.session_id and fields.get("type") == "agent.ready":
                event = decode(fields)
                assert isinstance(event, AgentReady)
                found.append((entry_id, event))
        return found
