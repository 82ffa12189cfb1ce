"""Sends aimed at the moment in which a driver ends: a host driven by hand, two senders a session, and a split exit."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from redis.asyncio.client import PubSub

from coordinator.domain.ids import new_id
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.services import Kernel
from coordinator.store.scripts import load, root
from coordinator.store.store import Store

WORKER: Final = "w1"
_MARKER: Final = "marker"
_GIVE_UP: Final = """-- What a split exit does second: the activity is given up, whatever has come since the look.
--
-- ARGV  token  id  the activity
-- Replies
--   OK
-- @include lib/activity
if text('activity') == token then
  go_idle()
end
return done('OK')
"""


def split_exit(store: Store, folder: Path) -> None:
    """Make the exit two scripts: `finish` only looks at the inbox, and `give_up` gives the activity up later."""
    copy_tree(root(), folder)
    exit_lua = folder / "lib" / "exit.lua"
    looks, cuts = re.subn(r"\n  go_idle\(\)\n  if natural", "\n  if natural", exit_lua.read_text())
    assert cuts == 1, "lib/exit.lua has changed: make the split anew"
    exit_lua.write_text(looks)
    (folder / "give_up.lua").write_text(_GIVE_UP)
    store._scripts["finish"] = load("finish", folder)
    store._scripts["give_up"] = load("give_up", folder)


def copy_tree(source: Traversable, target: Path) -> None:
    """Copy the scripts, to be changed there."""
    target.mkdir(exist_ok=True)
    for entry in source.iterdir():
        if entry.is_dir():
            copy_tree(entry, target / entry.name)
        else:
            (target / entry.name).write_bytes(entry.read_bytes())


class Lane:
    """One session with its live execution, and what was sent to it and claimed from it."""

    def __init__(self, kernel: Kernel, session_id: str, *, split: bool) -> None:
        self.session_id = session_id
        self.sent: list[str] = []
        self.claimed: list[str] = []
        self.ending = asyncio.Event()
        self.idle = asyncio.Event()
        self.idle.set()
        self._kernel = kernel
        self._split = split
        self._execution = f"x-{session_id}"
        self._floor = 0
        self._tokens: list[str] = []
        self._drives: asyncio.Task[None] | None = None
        self._mix = random.Random(session_id)  # noqa: S311 - spreads moments, keeps no secret

    async def live(self) -> None:
        """Open it, and bring its execution up by a first turn."""
        kernel = self._kernel
        await kernel.sessions.open(self.session_id, SessionPolicy(settlement="none"))
        await self.send(kernel)
        token = (await kernel.snapshots.read(self.session_id)).activity
        await kernel.executions.accept(self.session_id, token, self._execution, WORKER)
        await kernel.executions.boot(self.session_id, self._execution)
        self.run(token)
        await self.idle.wait()

    async def send(self, kernel: Kernel) -> None:
        """Send one message more."""
        receipt = await kernel.inbox.send(self.session_id, "work")
        self.sent.append(receipt.message_id)

    def run(self, token: str) -> None:
        """Take a hint, as a worker does: a driver that is at work goes on with the newer activity after its own."""
        self._tokens.append(token)
        self.idle.clear()
        if self._drives is None or self._drives.done():
            self._drives = asyncio.create_task(self._drive())

    async def join(self) -> None:
        """Wait until its driver has ended; what it failed with is raised."""
        if self._drives is not None:
            await self._drives

    async def _drive(self) -> None:
        while self._tokens:
            await self._activity(self._tokens.pop(0))
        self.idle.set()

    async def _activity(self, token: str) -> None:
        turns = self._kernel.turns
        verdict = Verdict.GO_ON
        while verdict is Verdict.GO_ON:
            claim = await turns.claim(self.session_id, token, self._execution, new_id("c"), floor=self._floor)
            if claim.verdict is Verdict.SUPERSEDED:
                return
            assert claim.ownership is not None, claim
            self._floor = claim.ownership.generation
            self.claimed += [message.message_id for message in claim.messages]
            self.ending.set()
            await self._moment()
            verdict = (await turns.finish(self.session_id, claim.ownership, token, "completed")).verdict
        if self._split:
            await self._moment()
            await self._kernel.store.call("give_up", self.session_id, token=token)

    async def _moment(self) -> None:
        await some_moments(self._mix)


class Host:
    """Every lane of one worker, woken by its control channel."""

    def __init__(self, kernel: Kernel, pubsub: PubSub) -> None:
        self._kernel = kernel
        self._pubsub = pubsub
        self._markers: dict[str, asyncio.Event] = {}
        self.lanes: dict[str, Lane] = {}

    async def settled(self, lane: Lane) -> None:
        """Wait until the lane's driver has ended and no hint for it is on its way: hints come in order."""
        while True:
            await lane.idle.wait()
            name = new_id("marker")
            arrived = self._markers[name] = asyncio.Event()
            await self._kernel.store.redis.publish(self._kernel.store.keys.control(WORKER), f"{_MARKER} {name}")
            await arrived.wait()
            if lane.idle.is_set():
                return

    async def listen(self) -> None:
        """Pass hints on until cancelled."""
        async for message in self._pubsub.listen():
            if message["type"] == "message":
                word, *rest = message["data"].split(" ")
                if word == _MARKER:
                    self._markers.pop(rest[0]).set()
                elif rest[0] in self.lanes:
                    self.lanes[rest[0]].run(rest[1])


@asynccontextmanager
async def hosting(kernel: Kernel, sessions: int, *, split: bool) -> AsyncIterator[Host]:
    """A host with live executions of so many sessions."""
    pubsub = kernel.store.redis.pubsub()
    await pubsub.subscribe(kernel.store.keys.control(WORKER))
    host = Host(kernel, pubsub)
    lanes = [Lane(kernel, f"s{number}", split=split) for number in range(sessions)]
    await asyncio.gather(*(lane.live() for lane in lanes))
    host.lanes = {lane.session_id: lane for lane in lanes}
    listening = asyncio.create_task(host.listen())
    try:
        yield host
    finally:
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await pubsub.aclose()


async def bursts(host: Host, lane: Lane, senders: tuple[Kernel, Kernel], rounds: int, seed: str) -> int:
    """Send bursts from two sides, each at the moment in which the driver ends its turn; count those left stranded."""
    mix, stranded = random.Random(seed), 0  # noqa: S311 - the same
    for _ in range(rounds):
        lane.ending.clear()
        await lane.send(senders[0])
        await lane.ending.wait()
        async with asyncio.TaskGroup() as group:
            for sender in senders:
                group.create_task(_burst(lane, sender, mix))
        await host.settled(lane)
        await lane.join()
        stranded += len(lane.claimed) < len(lane.sent)
    return stranded


async def _burst(lane: Lane, sender: Kernel, mix: random.Random) -> None:
    for _ in range(2):
        await some_moments(mix)
        await lane.send(sender)


async def some_moments(mix: random.Random) -> None:
    """Let the others go first, or not: what happens side by side falls into every order."""
    for _ in range(mix.choice((0, 1, 2, 4, 8, 16))):
        await asyncio.sleep(0)
