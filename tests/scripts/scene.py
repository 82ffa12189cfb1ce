"""A session brought to a named state by real scripts, for the tests of single scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.events import AgentReady, decode
from coordinator.domain.records import Ownership, SessionPolicy
from coordinator.store.keys import GROUP

if TYPE_CHECKING:
    from coordinator.domain.events import Event
    from coordinator.domain.records import Snapshot
    from coordinator.services import Kernel
    from coordinator.services.turns import Claim, Finish


class Scene:
    """One session, one worker, one execution, driven by hand."""

    def __init__(self, kernel: Kernel, session_id: str = "s") -> None:
        self.kernel = kernel
        self.sid = session_id
        self.keys = kernel.store.keys.session(session_id)
        self.token = ""
        self.execution = ""
        self._claims = 0

    async def opened(self, **policy: object) -> Scene:
        """An idle session with a group on its event stream."""
        redis = self.kernel.store.redis
        if not await redis.exists(self.keys["events"]):
            await redis.xgroup_create(self.keys["events"], GROUP, "0", mkstream=True)
        await self.kernel.sessions.open(self.sid, SessionPolicy(**policy))  # type: ignore[arg-type]
        return self

    async def sent(self, body: str = "hello", **options: object) -> str:
        """One message more; its id."""
        receipt = await self.kernel.inbox.send(self.sid, body, **options)  # type: ignore[arg-type]
        if receipt.placement == "started":
            self.token = (await self.view()).activity
        return receipt.message_id

    async def booted(self, execution: str = "e1", worker: str = "w1") -> Scene:
        """The activity accepted by a worker, its execution up."""
        self.execution = execution
        await self.kernel.executions.accept(self.sid, self.token, execution, worker)
        await self.kernel.executions.boot(self.sid, execution, "resume-1")
        return self

    async def claimed(self, claim_id: str = "") -> Claim:
        """The next turn, claimed by the driver."""
        self._claims += 1
        return await self.kernel.turns.claim(
            self.sid, self.token, self.execution, claim_id or f"c{self._claims}", next_token=f"{self.token}+"
        )

    async def prompted(self, body: str = "hello", *, accept: bool = True) -> Ownership:
        """A turn that is open, and taken by its agent."""
        await self.sent(body)
        if not self.execution:
            await self.booted()
        claim = await self.claimed()
        assert claim.ownership is not None, claim
        if accept:
            assert await self.kernel.turns.output(self.sid, claim.ownership, 1, "")
        return claim.ownership

    async def finished(self, ownership: Ownership, reason: str = "completed", **options: object) -> Finish:
        """The open prompt, ended by its driver."""
        return await self.kernel.turns.finish(
            self.sid,
            ownership,
            self.token,
            reason,
            next_token=f"{self.token}+",
            **options,  # type: ignore[arg-type]
        )

    async def view(self) -> Snapshot:
        """The session now."""
        return await self.kernel.snapshots.read(self.sid)

    async def log(self) -> list[dict[str, str]]:
        """The log's entries, without their times."""
        entries = await self.kernel.store.redis.xrange(self.keys["log"])
        return [{name: text for name, text in fields.items() if name != "at_ms"} for _, fields in entries]

    async def types(self) -> list[str]:
        """The log in short: `session.status` with its status, other entries by type."""
        return [entry["status"] if entry["type"] == "session.status" else entry["type"] for entry in await self.log()]

    async def events(self) -> list[tuple[str, Event]]:
        """What is on the event stream of the session's partition."""
        return [(entry, decode(fields)) for entry, fields in await self.kernel.store.redis.xrange(self.keys["events"])]

    async def readies(self) -> list[tuple[str, AgentReady]]:
        """The readies among the events."""
        return [(entry, event) for entry, event in await self.events() if isinstance(event, AgentReady)]

    async def settled(self) -> None:
        """The newest ready, settled."""
        entry, event = (await self.readies())[-1]
        await self.kernel.settlements.settle(event, entry)

    async def make_due(self, kind: str) -> str:
        """A deadline that is over now, and its score."""
        member = f"{kind}:{self.sid}"
        assert await self.kernel.store.redis.zscore(self.keys["deadlines"], member) is not None, f"no {kind} deadline"
        await self.kernel.store.redis.zadd(self.keys["deadlines"], {member: 1})
        return "1"

    async def expired(self, kind: str) -> str:
        """A deadline ended as a sweeper would; the answer's word."""
        score = await self.make_due(kind)
        answer = await self.kernel.deadlines.expire(kind, self.sid, score, next_token=f"{self.token}+")
        if answer.placed:
            self.token = answer.placed
        return answer.verdict.value


def ownership_of(event: AgentReady) -> Ownership:
    """The triple that a ready names."""
    return Ownership(event.execution_id, event.generation, event.claim_id)
