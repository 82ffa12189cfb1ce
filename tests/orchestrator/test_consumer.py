"""Reading in bad weather: lost groups, lost connections, lost replies, entries that nobody can read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from coordinator.client import Coordinator
from coordinator.orchestrator import Orchestrator
from coordinator.settings import Settings
from coordinator.store.embedded import EmbeddedServer
from coordinator.store.keys import GROUP
from tests.orchestrator.conftest import Replica, all_handled, counters, eventually, pending, settled, stop
from tests.orchestrator.player import Player
from tests.support.proxy import FaultProxy

Make = Callable[[str], Player]


async def test_a_deleted_stream_is_read_again_from_its_start(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """The blocked read ends with UNBLOCKED, the next one with NOGROUP."""
    await replica()
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    await coord.kernel.store.redis.delete(coord.kernel.store.keys.session("s")["events"])
    await session.turn()
    await settled(coord, "s", 2)


async def test_a_destroyed_group_is_made_again_at_the_start_and_old_entries_are_stale(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    await replica()
    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    await coord.kernel.store.redis.xgroup_destroy(coord.kernel.store.keys.session("s")["events"], GROUP)
    await session.turn()
    await settled(coord, "s", 2)
    assert await session.outcomes() == ["stayed", "stayed"]
    assert [entry["why"] for entry in await session.log("ready.stale")] == ["generation"]


async def test_an_emptied_server_does_not_make_it_spin(coord: Coordinator, replica: Replica) -> None:
    redis = coord.kernel.store.redis
    await replica()
    await redis.flushall()
    await redis.config_resetstat()
    streams = [coord.kernel.store.keys.events(partition) for partition in range(coord.settings.partitions)]

    async def made_and_looked_through() -> bool:
        stats = await redis.info("commandstats")
        looks = stats.get("cmdstat_xpending", {}).get("calls", 0)
        return looks >= len(streams) and bool(await redis.exists(*streams) == len(streams))

    await eventually(made_and_looked_through)
    stats = await redis.info("commandstats")
    assert stats["cmdstat_xpending"]["calls"] + stats.get("cmdstat_xreadgroup", {}).get("calls", 0) < 60


async def test_a_restarted_server_is_read_on(settings: Settings, server: EmbeddedServer) -> None:
    """Down for a moment, then loading: the replica lives through it and goes on."""
    async with Coordinator.connect(settings) as coord:
        session = Player(coord.kernel, "s")
        await session.open()
        reading = asyncio.Event()
        task = asyncio.create_task(Orchestrator(coord).run(reading.set, handle_signals=False))
        await reading.wait()
        await session.turn()
        await settled(coord, "s", 1)
        await asyncio.to_thread(server.restart)
        await session.turn()
        await settled(coord, "s", 2)
        assert not task.done()
        await stop(task)


@pytest.mark.parametrize("fault", ["cut", "refuse", "black_hole"])
async def test_a_broken_line_is_waited_out(
    settings: Settings, proxy: FaultProxy, coord: Coordinator, fault: str
) -> None:
    """Only the replica is behind the broken line."""
    session = Player(coord.kernel, "s")
    await session.open()
    async with Coordinator.connect(msgspec.structs.replace(settings, redis_url=proxy.url)) as behind:
        reading = asyncio.Event()
        task = asyncio.create_task(Orchestrator(behind).run(reading.set, handle_signals=False))
        await reading.wait()
        getattr(proxy, fault)()
        await session.turn()
        if fault != "cut":
            assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 1
        proxy.heal()
        await settled(coord, "s", 1, timeout=30)
        assert not task.done()
        await stop(task)


async def test_entries_whose_delivery_was_lost_are_read_from_the_pending_list(
    settings: Settings, proxy: FaultProxy, coord: Coordinator
) -> None:
    """Redis delivered them and the reply was lost; they are pending for a consumer that does not know it."""
    session = Player(coord.kernel, "s")
    await session.open()
    async with Coordinator.connect(msgspec.structs.replace(settings, redis_url=proxy.url)) as behind:
        reading = asyncio.Event()
        task = asyncio.create_task(Orchestrator(behind).run(reading.set, handle_signals=False))
        await reading.wait()
        await session.turn()
        await settled(coord, "s", 1)
        proxy.black_hole(requests=False)
        await session.turn()

        async def delivered() -> bool:
            return len(await pending(coord.kernel, "s")) == 1

        await eventually(delivered)
        assert (await coord.kernel.snapshots.read("s")).unsettled_turn == 2
        proxy.cut()
        proxy.heal()
        await settled(coord, "s", 2)
        await stop(task)


async def test_a_reader_whose_line_breaks_again_and_again_has_not_died_of_what_it_holds(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """What it reads again counts as no delivery: those tell whether an entry kills its readers."""
    await replica()
    session = player("s")
    await session.open()
    claim = await session.begin()
    # Somebody holds the guard, so that the entry is in hand all the time.
    number = (await coord.kernel.guards.acquire("s", "person")).number
    await session.finish(claim)
    redis = coord.kernel.store.redis

    async def held() -> bool:
        return len(await pending(coord.kernel, "s")) == 1

    await eventually(held)
    for _ in range(4):
        known = {one["id"] for one in await redis.client_list() if one["cmd"] == "xreadgroup"}

        async def reads_anew(known: set[str] = known) -> bool:
            readers = {one["id"] for one in await redis.client_list() if one["cmd"] == "xreadgroup"}
            return bool(readers - known)

        for client in known:
            await redis.client_kill_filter(_id=client)
        await eventually(reads_anew)
    assert [one["times_delivered"] for one in await pending(coord.kernel, "s")] == [1]
    await coord.kernel.guards.release("s", "person", number)
    await settled(coord, "s", 1)


NO_ENTRY = {
    "type": "step.entering", "session_id": "s", "execution_id": "", "worker_id": "", "reason": "", "at_ms": "1",
    "workflow": "flow", "step": "fresh", "entry_id": "",
}  # fmt: skip
NO_SESSION = {
    "type": "question.asked", "session_id": "no session", "execution_id": "", "worker_id": "", "reason": "",
    "at_ms": "1", "question_id": "q", "turn": "1", "text": "how?",
}  # fmt: skip


@pytest.mark.parametrize(
    "fields",
    [{"type": "agent.ready", "session_id": "s"}, {"garbage": "1"}, {"type": "agent.new"}, NO_ENTRY, NO_SESSION],
)
async def test_an_unreadable_entry_is_acknowledged_and_counted(
    coord: Coordinator, player: Make, replica: Replica, fields: dict[Any, Any]
) -> None:
    session = player("s")
    await session.open()
    await coord.kernel.store.redis.xadd(coord.kernel.store.keys.session("s")["events"], fields)
    await replica()
    await session.turn()
    await settled(coord, "s", 1)
    assert (await counters(coord.kernel, "s"))["malformed"] == "1"
    await eventually(lambda: all_handled(coord, "s"))


async def test_an_unreadable_ready_is_settled_by_the_record_of_its_session(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    session = player("s")
    await session.open()
    await session.turn()
    redis, keys = coord.kernel.store.redis, coord.kernel.store.keys.session("s")
    entry_id = await redis.xadd(keys["events"], {"type": "agent.ready", "session_id": "s", "turn": "one"})
    await redis.hset(keys["session"], "last_entry", entry_id)  # type: ignore[misc]
    (first, _), *_ = [entry for entry in await redis.xrange(keys["events"]) if entry[1]["type"] == "agent.ready"]
    await redis.xdel(keys["events"], first)
    await replica()
    await settled(coord, "s", 1)
    await eventually(lambda: all_handled(coord, "s"))
    assert (await counters(coord.kernel, "s"))["malformed"] == "1"


async def test_trimmed_pending_entries_are_dropped_and_counted(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """A dead replica's entries whose data is gone jam nothing."""
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.session("s")["events"]
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    for _ in range(3):
        await redis.xadd(events, {"type": "agent.ready", "session_id": "s"})
    await redis.xreadgroup(GROUP, "dead:1:x", {events: ">"})
    await redis.xtrim(events, maxlen=0, approximate=False)
    await replica()

    async def counted() -> bool:
        return (await counters(coord.kernel, "s")).get("malformed") == "3" and not await pending(coord.kernel, "s")

    session = player("s")
    await session.open()
    await session.turn()
    await settled(coord, "s", 1)
    await eventually(counted)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"settlement": 1.0, "handler_timeout": 0.5}
