"""A worker, an agent and a replica in one, moved script by script."""

from __future__ import annotations

from coordinator.domain.events import AgentReady, decode
from coordinator.domain.records import Ownership
from coordinator.domain.verdicts import Verdict
from coordinator.services import Kernel
from coordinator.services.turns import Claim


class Hand:
    """Plays the other side for client tests."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._claims = 0

    async def claim(self, session_id: str) -> Claim:
        """Take what runs, as a worker that hosts the session does."""
        seen = await self.kernel.snapshots.read(session_id)
        execution_id = seen.execution_id or f"x-{session_id}"
        if not seen.execution_id:
            await self.kernel.executions.accept(session_id, seen.activity, execution_id, "w-hand")
            assert await self.kernel.executions.boot(session_id, execution_id, "")
        self._claims += 1
        return await self.kernel.turns.claim(session_id, seen.activity, execution_id, f"c-{self._claims}")

    async def begin(self, session_id: str) -> Ownership:
        """Claim a turn that is there, and let the agent accept it."""
        claim = await self.claim(session_id)
        assert claim.verdict is Verdict.OK
        assert claim.ownership is not None
        assert await self.kernel.turns.output(session_id, claim.ownership, 1, "")
        return claim.ownership

    async def end(self, session_id: str, ownership: Ownership, reason: str = "completed", **options: str) -> Verdict:
        """Report the turn's end."""
        token = (await self.kernel.snapshots.read(session_id)).activity
        text = options.pop("text", "")
        finish = await self.kernel.turns.finish(
            session_id, ownership, token, reason, number=2, text=text, error=options.pop("error", "")
        )
        return finish.verdict

    async def settle(self, session_id: str) -> None:
        """Settle what is unsettled."""
        keys = self.kernel.store.keys
        stream = keys.events(keys.partition_of(session_id))
        for entry_id, fields in await self.kernel.store.redis.xrange(stream):
            event = decode(fields)
            if isinstance(event, AgentReady) and event.session_id == session_id:
                await self.kernel.settlements.settle(event, entry_id)

    async def turn(self, session_id: str, text: str = "done") -> None:
        """A whole turn, settled."""
        await self.end(session_id, await self.begin(session_id), text=text)
        await self.settle(session_id)
