"""A Redis without room: what ends, settles and releases still works, what brings more in is refused whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import StoreMisconfigured
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.store.keys import GROUP
from tests.scripts.scene import Scene, unchanged
from tests.support.servers import KINDS

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from coordinator.services import Kernel

pytestmark = pytest.mark.parametrize("backend_kind", KINDS, indirect=True)


@pytest.fixture
async def full(backend: Redis) -> AsyncIterator[Full]:
    yield Full(backend)
    await backend.config_set("maxmemory", 0)


class Full:
    """Takes the room away."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def now(self) -> None:
        """From here on the server refuses whatever may need memory."""
        await self._redis.config_set("maxmemory-policy", "noeviction")
        await self._redis.config_set("maxmemory", 1)


async def test_a_send_is_refused_without_a_trace(kernel: Kernel, full: Full) -> None:
    """Section 4, rules: send does not carry allow-oom; nor does what begins a session or a turn."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    await full.now()
    async with unchanged(kernel):
        for refused in (
            kernel.inbox.send(scene.sid, "more"),
            kernel.sessions.open("t", SessionPolicy()),
            scene.claimed(),
        ):
            with pytest.raises(StoreMisconfigured, match="out of memory"):
                await refused


async def test_a_session_can_be_looked_at(kernel: Kernel, full: Full) -> None:
    """Whoever makes room has to see what is there."""
    scene = await Scene(kernel).opened()
    await scene.prompted("body")
    before = await scene.view()
    await full.now()
    view = await kernel.snapshots.read(scene.sid)
    assert (view.open_turn, view.inbox, view.policy) == (1, before.inbox, before.policy)
    assert await kernel.snapshots.is_idle(scene.sid) is False


async def test_an_open_turn_ends_is_settled_and_its_worker_goes(kernel: Kernel, full: Full) -> None:
    """Output, step apart, finish, renew, guards, handlers' failures, settle and release."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted(accept=False)
    await full.now()
    assert await kernel.turns.output(scene.sid, ownership, 1, "text")
    assert await scene.renewed(claim="c1") == "held"
    assert (await scene.finished(ownership, number=2, text="bye")).verdict is Verdict.GONE
    entry, event = (await scene.readies())[-1]
    guard = await kernel.guards.acquire(scene.sid, "r")
    assert await kernel.guards.extend(scene.sid, "r", guard.number)
    begun = await kernel.settlements.begin(event, entry, guard.number)
    assert (await kernel.settlements.failed(event, entry, guard.number, "boom", 5)).verdict is Verdict.FAILED
    assert (await kernel.settlements.settle(event, entry, guard.number, seen=begun)).verdict is Verdict.OK
    assert not await kernel.guards.release(scene.sid, "r", guard.number), "the settlement gave it back"
    assert await kernel.executions.release(scene.sid, "e1")


@pytest.mark.parametrize("kind", ["lease", "acceptance", "start", "placement", "settlement", "suspect", "retention"])
async def test_every_deadline_is_acted_on(kernel: Kernel, full: Full, kind: str) -> None:
    """Expire carries allow-oom: a full server must not keep dead work."""
    scene = await Scene(kernel).opened()
    if kind != "retention":
        await scene.sent()
    if kind == "start":
        await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    elif kind not in {"placement", "retention"}:
        await scene.booted()
        ownership = (await scene.claimed()).ownership
        assert ownership
        if kind == "suspect":
            await scene.finished(ownership, "interrupted")
        elif kind == "settlement":
            await scene.finished(ownership)
    partition = kernel.store.keys.partition_of(scene.sid)
    await kernel.deadlines.sweep(partition)
    await scene.make_due(kind)
    await full.now()
    (due,) = (await kernel.deadlines.sweep(partition)).due
    answer = await kernel.deadlines.expire(due.kind, due.session_id, due.score)
    assert answer.verdict in {Verdict.OK, Verdict.PLACE}


async def test_a_session_is_closed_and_a_driver_retires(kernel: Kernel, full: Full) -> None:
    """What frees memory comes first: the inbox of a closed session is gone, and the stream is trimmed."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    await full.now()
    assert (await kernel.turns.retire(scene.sid, scene.token, "e1")).verdict is Verdict.RESTARTED
    assert await kernel.sessions.close(scene.sid) == "closed"
    partition = kernel.store.keys.partition_of(scene.sid)
    assert (await kernel.store.call_partition("tidy", partition, group=GROUP, idle_ms=1, kept=1)).word is Verdict.OK
