"""One subscriber connection serves all waiters, survives its loss, and leaks nothing."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from coordinator import Coordinator, Settings, StoreUnavailable
from coordinator.store.embedded import EmbeddedServer
from tests.client.hand import Hand
from tests.support.proxy import FaultProxy


async def _subscribers(coord: Coordinator, session_id: str) -> int:
    store = coord.kernel.store
    return int((await store.redis.pubsub_numsub(store.keys.hint(session_id)))[0][1])


async def _until(condition: Any, bound: float = 3.0) -> None:
    async with asyncio.timeout(bound):
        while not await condition():  # noqa: ASYNC110 - the server tells nobody who subscribes
            await asyncio.sleep(0.01)


async def test_a_hint_wakes_a_waiter_long_before_the_heartbeat(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("work")
    waiting = asyncio.create_task(session.wait_idle(timeout=3))

    async def subscribed() -> bool:
        return await _subscribers(coord, "s") == 1

    await _until(subscribed)
    await hand.turn("s")
    settled = time.monotonic()
    await waiting
    assert time.monotonic() - settled < 0.2


async def test_waiters_of_one_session_share_a_subscription_and_the_last_one_gives_it_up(coord: Coordinator) -> None:
    await coord.session("s").open()
    with coord.hints.waiter("s") as first, coord.hints.waiter("s") as second, coord.hints.waiter("t"):
        assert coord.hints.subscriptions == 2

        async def one_each() -> bool:
            return [await _subscribers(coord, name) for name in "st"] == [1, 1]

        await _until(one_each)
        await first.changed(0.5)
        await second.changed(0.5)
        await coord.session("s").inject("a change")
        began = time.monotonic()
        await asyncio.gather(first.changed(3), second.changed(3))
        assert time.monotonic() - began < 1

    async def none_left() -> bool:
        return [await _subscribers(coord, name) for name in "st"] == [0, 0]

    await _until(none_left)
    assert coord.hints.subscriptions == 0


async def test_a_subscription_that_comes_late_makes_its_waiter_look_again(coord: Coordinator) -> None:
    with coord.hints.waiter("s") as waiter:
        began = time.monotonic()
        await waiter.changed()
        assert time.monotonic() - began < 1


async def test_a_heartbeat_wakes_a_waiter_when_no_hint_comes(client_settings: Settings) -> None:
    fast = msgspec.structs.replace(client_settings, heartbeat=0.1)
    async with Coordinator.connect(fast) as coord:
        with coord.hints.waiter("s") as waiter:
            await waiter.changed(1)
            began = time.monotonic()
            await waiter.changed()
            assert 0.05 < time.monotonic() - began < 0.5


async def test_a_lost_connection_is_made_again_and_waits_go_on(
    proxy: FaultProxy, client_settings: Settings, hand: Hand
) -> None:
    through = msgspec.structs.replace(client_settings, redis_url=proxy.url)
    async with Coordinator.connect(through) as coord:
        session = coord.session("s")
        await session.open()
        await session.send("work")
        waiting = asyncio.create_task(session.wait_idle(timeout=8))

        async def subscribed() -> bool:
            # Counted over a connection that is not cut.
            store = hand.kernel.store
            return bool((await store.redis.pubsub_numsub(store.keys.hint("s")))[0][1] == 1)

        await _until(subscribed)
        proxy.cut()
        await asyncio.sleep(0.05)
        await _until(subscribed)
        ownership = await hand.begin("s")
        await hand.end("s", ownership)
        await hand.settle("s")
        await asyncio.wait_for(waiting, 3)


async def test_a_wait_with_a_timeout_outlasts_a_restart_of_redis(
    coord: Coordinator, server: EmbeddedServer, hand: Hand
) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("work")
    waiting = asyncio.create_task(session.wait_idle(timeout=15))
    await asyncio.sleep(0.1)
    await asyncio.to_thread(server.kill)
    with pytest.raises(StoreUnavailable):
        await session.snapshot()
    await asyncio.to_thread(server.start)
    await hand.turn("s")
    await asyncio.wait_for(waiting, 8)


async def test_waits_end_at_their_bound_however_often_they_are_cut_off(coord: Coordinator) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("never taken")

    async def wait(bound: float) -> None:
        with pytest.raises(TimeoutError):
            await session.wait_idle(timeout=bound)

    async with asyncio.timeout(10):
        for round_ in range(20):
            await asyncio.gather(*(wait(0.001 * number + 0.0003 * round_) for number in range(10)))
    assert coord.hints.subscriptions == 0
