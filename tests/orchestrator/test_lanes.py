"""Entries in hand: order within a session, none between sessions, and no limit that one session can use up."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.streams import lanes as module
from coordinator.streams.group import Entry
from coordinator.streams.lanes import Lanes


def entry(session_id: str, number: int) -> Entry:
    return Entry(0, f"{number}-0", {"session_id": session_id})


async def test_entries_of_one_session_are_handled_in_order() -> None:
    seen: list[tuple[str, int]] = []
    done = asyncio.Event()

    async def handle(entry: Entry, tries: int) -> float | None:
        seen.append((entry.id, tries))
        if len(seen) == 5:
            done.set()
        return 0.001 if tries < 2 and entry.id == "1-0" else None

    lanes = Lanes(handle, slots=4)
    for number in (1, 2, 3):
        lanes.add(entry("s", number))
    await asyncio.wait_for(done.wait(), 5)
    assert seen == [("1-0", 0), ("1-0", 1), ("1-0", 2), ("2-0", 0), ("3-0", 0)]
    await lanes.close(1)


async def test_what_waits_takes_no_slot() -> None:
    done = asyncio.Event()

    async def handle(entry: Entry, tries: int) -> float | None:
        if entry.fields["session_id"] == "free":
            done.set()
            return None
        return 60.0

    lanes = Lanes(handle, slots=1)
    for number in range(50):
        lanes.add(entry(f"waiting-{number}", number))
    lanes.add(entry("free", 99))
    await asyncio.wait_for(done.wait(), 5)
    await asyncio.wait_for(lanes.close(1), 1)


async def test_an_entry_is_taken_in_hand_once_until_it_is_done() -> None:
    go_on = asyncio.Event()
    seen: list[str] = []

    async def handle(entry: Entry, tries: int) -> float | None:
        seen.append(entry.id)
        await go_on.wait()
        return None

    lanes = Lanes(handle, slots=4)
    lanes.add(entry("s", 1))
    lanes.add(entry("s", 1))
    await asyncio.sleep(0)
    assert lanes.held(0) == {0: ["1-0"]}
    assert lanes.held(60) == {}
    go_on.set()
    await lanes.close(1)
    assert seen == ["1-0"]


async def test_a_failure_is_tried_again_and_never_dropped() -> None:
    done = asyncio.Event()
    failures = 0

    async def handle(entry: Entry, tries: int) -> float | None:
        nonlocal failures
        failures += 1
        if failures < 3:
            raise ConnectionError("no answer")
        done.set()
        return None

    lanes = Lanes(handle, slots=1)
    lanes.add(entry("s", 1))
    await asyncio.wait_for(done.wait(), 5)
    await lanes.close(1)


async def test_reading_stops_while_there_is_too_much_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_IN_HAND", 2)
    go_on = asyncio.Event()

    async def handle(entry: Entry, tries: int) -> float | None:
        await go_on.wait()
        return None

    lanes = Lanes(handle, slots=4)
    lanes.add(entry("a", 1))
    assert lanes.has_room
    lanes.add(entry("b", 2))
    assert not lanes.has_room
    go_on.set()
    await asyncio.wait_for(lanes.room(), 5)
    await lanes.close(1)


async def test_closing_cancels_what_does_not_end_in_time() -> None:
    begun = asyncio.Event()
    cancelled = asyncio.Event()

    async def handle(entry: Entry, tries: int) -> float | None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return None

    lanes = Lanes(handle, slots=4)
    lanes.add(entry("s", 1))
    await begun.wait()
    await asyncio.wait_for(lanes.close(0.01), 5)
    assert cancelled.is_set()
