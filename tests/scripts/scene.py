"""A session brought to a named state by real scripts, for the tests of single scripts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from coordinator.domain.events import AgentReady, decode
from coordinator.domain.records import Ownership, SessionPolicy
from coordinator.services.executions import Held
from coordinator.store.keys import GROUP
from tests.support.keyspace import difference, dump

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from coordinator.domain.events import Event
    from coordinator.domain.records import InboxEntry, Snapshot
    from coordinator.services import Kernel
    from coordinator.services.turns import Claim, Finish

COUNTED = ("*:counters", "*:log")
"""What a stale event may change."""


OFFERS = ("arq:*", "*:doorbell")
"""Where placements are offered; an offer may be made twice."""


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
        seen = await self.kernel.store.redis.hget(self.keys["session"], "generation")  # type: ignore[misc]
        return await self.kernel.turns.claim(
            self.sid,
            self.token,
            self.execution,
            claim_id or f"c{self._claims}",
            floor=int(seen or 0),
            next_token=f"{self.token}+",
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

    async def renewed(self, *, token: str | None = None, claim: str = "", worker: str = "w1") -> str:
        """One heartbeat of the worker for this execution, naming what it drives; the answer's word."""
        token = self.token if token is None else token
        held = Held(self.sid, self.execution, token, claim)
        return (await self.kernel.executions.renew(worker, [held]))[self.sid].word

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

    async def delivered(self) -> list[str]:
        """Entries of the event stream that are pending for a replica, after it has read all there is."""
        redis = self.kernel.store.redis
        await redis.xreadgroup(GROUP, "replica", {self.keys["events"]: ">"})
        pending = await redis.xpending_range(self.keys["events"], GROUP, "-", "+", 100)
        return [entry["message_id"] for entry in pending]

    async def deadlines(self) -> dict[str, int]:
        """The session's deadlines: kind to server milliseconds."""
        return {one.kind: one.at_ms for one in (await self.view()).deadlines}

    async def pending(self) -> list[str]:
        """The bodies that wait in both lists, next-step first."""
        inbox = (await self.view()).inbox
        return bodies((*inbox.next_step, *inbox.next_turn))

    async def settled(self) -> None:
        """The newest ready, settled."""
        entry, event = (await self.readies())[-1]
        await self.kernel.settlements.settle(event, entry)

    async def swept(self, *, ms_ago: int = 0) -> None:
        """The partition was swept, so that what is over now is not over because of an outage."""
        await self.kernel.deadlines.sweep(self.kernel.store.keys.partition_of(self.sid))
        if ms_ago:
            await self.kernel.store.redis.hincrby(self.keys["counters"], "swept_ms", -ms_ago)  # type: ignore[misc]

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


def bodies(entries: tuple[InboxEntry, ...]) -> list[str]:
    """What the messages say."""
    return [entry.body for entry in entries]


@asynccontextmanager
async def unchanged(kernel: Kernel, ignoring: Collection[str] = ()) -> AsyncIterator[None]:
    """What happens inside leaves the whole keyspace as it was, but for names that fit a pattern of `ignoring`."""
    before = await dump(kernel.store.redis, ignoring)
    yield
    changed = difference(before, await dump(kernel.store.redis, ignoring))
    assert not changed, changed


@asynccontextmanager
async def heard(kernel: Kernel, *channels: str) -> AsyncIterator[Callable[[], Awaitable[list[tuple[str, str]]]]]:
    """Gives a call that answers what was published on the channels so far: channel and text."""
    async with kernel.store.redis.pubsub(ignore_subscribe_messages=True) as subscriber:
        await subscriber.subscribe(*channels, "end")

        async def so_far() -> list[tuple[str, str]]:
            found: list[tuple[str, str]] = []
            await kernel.store.redis.publish("end", "")
            while not found or found[-1][0] != "end":
                message = await subscriber.get_message(timeout=5)
                if message is not None:
                    found.append((message["channel"], message["data"]))
            return found[:-1]

        yield so_far


def ownership_of(event: AgentReady) -> Ownership:
    """The triple that a ready names."""
    return Ownership(event.execution_id, event.generation, event.claim_id)
