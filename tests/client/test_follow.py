"""Following a log: history then live, without a gap, from any entry on."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from coordinator import Coordinator, InvalidId, LogEntry, SessionUnknown, Settings
from coordinator.streams.log import LogReader
from tests.client.hand import Hand


async def _take(coord: Coordinator, count: int, after: str = "0") -> list[LogEntry]:
    found: list[LogEntry] = []
    async with asyncio.timeout(5), aclosing(coord.session("s").follow(after)) as entries:
        async for entry in entries:
            found.append(entry)
            if len(found) == count:
                break
    return found


async def _history(coord: Coordinator, after: str = "0") -> list[LogEntry]:
    return [entry async for entry in coord.session("s").history(after)]


async def test_history_comes_first_and_then_what_happens(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("work")
    following = asyncio.create_task(_take(coord, 11))
    await asyncio.sleep(0.05)
    await hand.turn("s", text="hello")
    found = await following
    assert [entry.type for entry in found] == [
        "session.opened", "inbox.inserted", "session.status", "agent.boot_ready", "turn.started", "inbox.claimed",
        "agent.running", "output", "turn.ended", "session.status", "turn.settled",
    ]  # fmt: skip
    assert found[7].fields["text"] == "hello"
    assert found == await _history(coord)
    assert coord.hints.subscriptions == 0


async def test_it_is_resumed_behind_any_entry(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("work")
    await hand.turn("s")
    whole = await _history(coord)
    for position, entry in enumerate(whole):
        assert await _history(coord, after=entry.id) == whole[position + 1 :]


async def test_a_follower_misses_nothing_while_others_write(coord: Coordinator) -> None:
    session = coord.session("s")
    await session.open()
    count = 300
    following = asyncio.create_task(_take(coord, count + 1))
    for number in range(count):
        await session.inject(f"note {number}", message_id=f"m-{number}")
    found = await following
    assert [entry.fields["message_id"] for entry in found[1:]] == [f"m-{number}" for number in range(count)]


async def test_an_unknown_session_and_a_senseless_id_are_refused(coord: Coordinator) -> None:
    with pytest.raises(SessionUnknown):
        await _take(coord, 1)
    await coord.session("s").open()
    for after in ("", "x", "12-", "-1", "1-2-3"):
        with pytest.raises(InvalidId):
            await _take(coord, 1, after=after)


async def test_a_follower_ends_when_the_session_is_removed(coord: Coordinator) -> None:
    session, store = coord.session("s"), coord.kernel.store
    await session.open()
    following = asyncio.create_task(_take(coord, 99))
    await asyncio.sleep(0.05)
    keys = store.keys.session("s")
    await store.redis.delete(keys["session"], keys["log"])
    await store.redis.publish(store.keys.hint("s"), "removed")
    assert [entry.type for entry in await following] == ["session.opened"]


async def _trim(coord: Coordinator, keep: int) -> str:
    log = coord.kernel.store.keys.session("s")["log"]
    await coord.kernel.store.redis.xtrim(log, maxlen=keep, approximate=False)
    return str((await coord.kernel.store.redis.xrange(log, count=1))[0][0])


async def test_trimmed_entries_show_as_one_entry_where_they_are_missed(coord: Coordinator) -> None:
    session = coord.session("s")
    await session.open()
    for number in range(10):
        await session.inject(f"note {number}")
    whole = await _history(coord)
    first = await _trim(coord, 4)
    found = await _history(coord)
    assert (found[0].type, found[0].fields, found[0].id) == ("log.trimmed", {"first": first}, first)
    assert found[1:] == whole[-4:]
    assert (await _history(coord, after=whole[2].id))[0].type == "log.trimmed"
    assert await _history(coord, after=whole[-4].id) == whole[-3:]
    assert await _history(coord, after=found[0].id) == whole[-3:]


async def test_a_reader_that_has_seen_what_was_trimmed_is_not_told_of_it(coord: Coordinator) -> None:
    session = coord.session("s")
    await session.open()
    for number in range(5):
        await session.inject(f"note {number}")
    reader = LogReader(coord.kernel.store, "s")
    assert len(await reader.read()) == 6
    await session.inject("one more")
    await _trim(coord, 1)
    assert [entry.type for entry in await reader.read()] == ["inbox.inserted"]


async def test_a_slow_reader_is_told_of_what_it_missed(client_settings: Settings) -> None:
    small = msgspec.structs.replace(client_settings, max_log=10)
    async with Coordinator.connect(small) as coord:
        session = coord.session("s")
        await session.open()
        reader = LogReader(coord.kernel.store, "s")
        assert len(await reader.read()) == 1
        for number in range(200):
            await session.inject(f"note {number}")
        store = coord.kernel.store
        kept = await store.redis.xlen(store.keys.session("s")["log"])
        assert 10 <= kept < 200
        found = await reader.read()
        assert found[0].type == "log.trimmed"
        while reader.more:
            found += await reader.read()
        assert [entry.type for entry in found].count("log.trimmed") == 1
        assert len(found) == kept + 1
