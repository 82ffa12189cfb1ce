"""A worker in the test's own process, over a real server, with agents that a test steers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from coordinator.client import Coordinator
from coordinator.domain.records import LogEntry, SessionPolicy
from coordinator.services import Kernel
from coordinator.settings import Settings
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd
from workers.process import Stop, run_worker

BOUND = 10.0
SELF_SETTLED = SessionPolicy(settlement="none")


class Rig:
    """One deployment with one worker."""

    def __init__(self, coord: Coordinator) -> None:
        self.coord = coord
        self.kernel: Kernel = coord.kernel
        self.stop = Stop()
        self.task: asyncio.Task[None] | None = None

    async def start(self, agent: object, **options: Any) -> None:
        """Run a worker until `ended`, and wait until it is ready."""
        ready = asyncio.Event()
        self.stop = Stop()
        self.task = asyncio.create_task(
            run_worker(
                self.coord.settings,
                agent,
                ready=lambda _: ready.set(),
                stop=self.stop,
                handle_signals=False,
                **options,
            )
        )
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self.task, waiting}, timeout=BOUND, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.task.done():
            self.task.result()
        assert ready.is_set()

    async def end(self, *, kill: bool = False) -> None:
        """Drain the worker, or cut it off."""
        if self.task is None:
            return
        if kill:
            self.task.cancel()
        else:
            self.stop.ask()
        await asyncio.wait({self.task}, timeout=BOUND)
        assert self.task.done()
        if not self.task.cancelled():
            self.task.result()
        self.task = None

    async def send(self, session_id: str, body: str, policy: SessionPolicy = SELF_SETTLED, **options: Any) -> str:
        """Open the session if need be, and send; gives the message id."""
        await self.kernel.sessions.open(session_id, policy)
        return (await self.kernel.inbox.send(session_id, body, **options)).message_id

    async def log(self, session_id: str, *kinds: str) -> list[LogEntry]:
        """The session's log so far, of some types or all."""
        entries = [entry async for entry in self.coord.session(session_id).history()]
        return [entry for entry in entries if not kinds or entry.type in kinds]

    async def until(self, session_id: str, kind: str, count: int = 1) -> list[LogEntry]:
        """Follow the log until `count` entries of a type are there; gives those."""
        found: list[LogEntry] = []
        async with asyncio.timeout(BOUND):
            async for entry in self.coord.session(session_id).follow():
                if entry.type == kind:
                    found.append(entry)
                    if len(found) == count:
                        break
        return found

    async def ends(self, session_id: str, count: int = 1) -> list[str]:
        """The reasons of the first `count` turns, once they have ended."""
        return [entry.fields["reason"] for entry in await self.until(session_id, "turn.ended", count)]

    async def said(self, session_id: str) -> str:
        """Everything that the session's agents have said."""
        return "".join(entry.fields["text"] for entry in await self.log(session_id, "output"))


@asynccontextmanager
async def rig(settings: Settings, agent: object | None = None, **options: Any) -> AsyncIterator[Rig]:
    """A connected rig; its worker is started if there is an agent for it, and ended at the end."""
    async with Coordinator.connect(settings) as coord:
        found = Rig(coord)
        try:
            if agent is not None:
                await found.start(agent, **options)
            yield found
        finally:
            if found.task is not None:
                found.stop.hurried.set()
                found.stop.asked.set()
                await asyncio.wait({found.task}, timeout=BOUND)


async def until(claim: Callable[[], Awaitable[bool] | bool], bound: float = BOUND) -> None:
    """Look again and again, briefly apart, until a claim about the outside holds."""
    async with asyncio.timeout(bound):
        while True:
            held = claim()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.01)


def replaced(settings: Settings, **changes: Any) -> Settings:
    """The settings, with some changed."""
    return msgspec.structs.replace(settings, **changes)


async def expire(kernel: Kernel, kind: str, session_id: str) -> None:
    """Let a session's deadline be over, as a sweeper finds it when nobody has moved it for too long."""
    store = kernel.store
    partition = store.keys.partition_of(session_id)
    deadlines = store.keys.partition(partition)["deadlines"]
    # A sweep that finds the last one long ago gives grace: this one makes the next count.
    await kernel.deadlines.sweep(partition)
    async with asyncio.timeout(BOUND):
        while True:
            assert await store.redis.zscore(deadlines, f"{kind}:{session_id}") is not None
            await store.redis.zadd(deadlines, {f"{kind}:{session_id}": 1})
            expired = await kernel.deadlines.expire(kind, session_id, "1")
            if expired.verdict == "OK":
                return


async def asked(deployment: Rig, count: int = 1) -> str:
    """The id of the newest question of session s, once there are so many."""
    return (await deployment.until("s", "question.asked", count))[-1].fields["question_id"]


class Puppet:
    """An agent whose parts a test replaces; counts its calls."""

    def __init__(self) -> None:
        self.prompts: list[Prompt] = []
        self.turns: list[Turn] = []
        self.started: list[Execution] = []
        self.resets = 0
        self.stopped = 0
        self.on_start: Callable[[Execution], Awaitable[None]] | None = None
        self.on_prompt: Callable[[Prompt, Turn], Awaitable[TurnEnd]] | None = None
        self.on_reset: Callable[[], Awaitable[None]] | None = None

    async def start(self, execution: Execution) -> None:
        self.started.append(execution)
        if self.on_start is not None:
            await self.on_start(execution)

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        self.prompts.append(prompt)
        self.turns.append(turn)
        if self.on_prompt is not None:
            return await self.on_prompt(prompt, turn)
        await turn.emit(f"did {prompt.text}")
        return TurnEnd(prompt.ownership)

    async def reset(self) -> None:
        self.resets += 1
        if self.on_reset is not None:
            await self.on_reset()

    async def stop(self) -> None:
        self.stopped += 1


def stubborn(ends: asyncio.Event) -> Puppet:
    """An agent that swallows every cancellation until `ends`."""
    puppet = Puppet()

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = prompt
    return puppet


async def hold(prompt: Prompt, turn: Turn) -> TurnEnd:
    """An agent that works until it is told to stop, and stops."""
    await turn.accepted()
    await turn.cancelled.wait()
    return TurnEnd(prompt.ownership, "cancelled")
