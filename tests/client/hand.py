"""A worker, an agent and a replica in one, moved script by script."""

from __future__ import annotations

from coordinator.domain.events import AgentReady, Event, StepEntering, decode
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
        return await self.kernel.turns.claim(
            session_id, seen.activity, execution_id, f"c-{self._claims}", floor=seen.generation
        )

    async def claim_anew(self, session_id: str, token: str) -> Claim:
        """Take an activity with a new execution."""
        self._claims += 1
        execution_id = f"x-{session_id}-{self._claims}"
        await self.kernel.executions.accept(session_id, token, execution_id, "w-hand")
        assert await self.kernel.executions.boot(session_id, execution_id, "")
        return await self.kernel.turns.claim(session_id, token, execution_id, f"c-{self._claims}")

    async def begin(self, session_id: str) -> Ownership:
        """Claim a turn that is there, and let the agent accept it."""
        claim = await self.claim(session_id)
        assert claim.verdict is Verdict.OK, claim.verdict
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
        for entry_id, event in await self.events(session_id):
            if isinstance(event, AgentReady):
                await self.kernel.settlements.settle(event, entry_id)

    async def events(self, session_id: str) -> list[tuple[str, Event]]:
        """What the stream has of a session."""
        keys = self.kernel.store.keys
        found = await self.kernel.store.redis.xrange(keys.events(keys.partition_of(session_id)))
        events = [(entry_id, decode(fields)) for entry_id, fields in found]
        return [(entry_id, event) for entry_id, event in events if event.session_id == session_id]

    async def enter(self, session_id: str, body: str = "", error: str = "") -> None:
        """Carry out the entry of the step that is being entered."""
        entering = (await self.kernel.snapshots.read(session_id)).entering
        for event_id, event in await self.events(session_id):
            if isinstance(event, StepEntering) and event.entry_id == entering:
                assert await self.kernel.workflows.enter_end(session_id, entering, event_id, body=body, error=error)
                return
        raise AssertionError(f"{session_id} enters nothing")

    async def turn(self, session_id: str, text: str = "done") -> None:
        """A whole turn, settled."""
        await self.end(session_id, await self.begin(session_id), text=text)
        await self.settle(session_id)
