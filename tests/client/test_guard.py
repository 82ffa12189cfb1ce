"""The guard: one holder, a fencing number, a bound on everything, and nothing left behind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coordinator import Coordinator, GuardBusy, GuardLost, Reentry, Session, SessionUnknown
from coordinator.domain.verdicts import Verdict
from tests.client.hand import Hand


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 4.0, "guard_ttl": 0.6, "guard_hold": 1.5, "handler_timeout": 1.0, "handler_tries": 1}


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    found = coord.session("s")
    await found.open()
    return found


async def test_every_hold_has_a_higher_number_and_is_given_back(session: Session) -> None:
    numbers = []
    for _ in range(3):
        async with session.guard() as guard:
            assert guard.held
            assert (await session.snapshot()).guard_number == guard.number
            numbers.append(guard.number)
    assert numbers == [1, 2, 3]
    assert (await session.snapshot()).guard_owner == ""


async def test_the_next_holder_is_woken_by_the_release_and_not_by_the_lease(
    coord: Coordinator, session: Session
) -> None:
    first = await coord.kernel.guards.acquire("s", "first")

    async def second() -> float:
        async with session.guard(timeout=5) as guard:
            assert guard.number == first.number + 1
            return time.monotonic()

    waiting = asyncio.create_task(second())
    await asyncio.sleep(0.2)
    released = time.monotonic()
    await coord.kernel.guards.release("s", "first", first.number)
    assert 0 < await waiting - released < 0.2


async def test_who_waits_too_long_is_told_who_holds_it(coord: Coordinator, session: Session) -> None:
    assert (await coord.kernel.guards.acquire("s", "somebody")).verdict is Verdict.OK
    with pytest.raises(GuardBusy, match="somebody") as caught:
        async with session.guard(timeout=0.1):
            pytest.fail("the guard was held")
    assert caught.value.owner == "somebody"
    assert 0 < caught.value.ms_left <= 600
    assert caught.value.retryable


async def test_a_dead_holders_guard_is_free_when_its_lease_has_run_out(coord: Coordinator, session: Session) -> None:
    await coord.kernel.guards.acquire("s", "dead")
    began = time.monotonic()
    async with session.guard(timeout=3) as guard:
        assert guard.number == 2
    assert 0.4 < time.monotonic() - began < 1.5


async def test_it_is_kept_alive_while_the_body_works_and_lost_after_the_longest_hold(session: Session) -> None:
    async def hold() -> None:
        async with session.guard() as guard:
            await asyncio.sleep(1.0)
            await guard.check()
            await asyncio.sleep(0.8)
            assert not guard.held
            assert (await session.snapshot()).guard_owner == ""
            await guard.check()

    with pytest.raises(GuardLost, match="no longer held"):
        await hold()


async def test_a_stolen_guard_is_lost_at_the_next_call_and_at_the_bodys_end(
    coord: Coordinator, session: Session
) -> None:
    store = coord.kernel.store

    async def hold() -> None:
        async with session.guard() as guard:
            await store.redis.delete(store.keys.session("s")["guard"])
            await coord.kernel.guards.acquire("s", "thief")
            with pytest.raises(GuardLost, match="take a new one"):
                await guard.check()
            assert not guard.held

    with pytest.raises(GuardLost):
        await hold()
    assert (await session.snapshot()).guard_owner == "thief"


async def test_the_bodys_own_error_is_never_hidden(coord: Coordinator, session: Session) -> None:
    store = coord.kernel.store

    async def hold() -> None:
        async with session.guard() as guard:
            await store.redis.delete(store.keys.session("s")["guard"])
            with pytest.raises(GuardLost):
                await guard.check()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await hold()


async def test_taking_it_again_inside_is_refused_at_once(coord: Coordinator, session: Session) -> None:
    other = coord.session("other")
    await other.open()
    async with session.guard():

        async def started_inside() -> None:
            async with session.guard(timeout=5):
                pytest.fail("it was held")

        for attempt in (started_inside(), asyncio.create_task(started_inside())):
            with pytest.raises(Reentry):
                await asyncio.wait_for(attempt, 0.5)
        async with other.guard():
            pass
    async with session.guard():
        pass


async def test_waiting_for_a_turns_end_under_the_guard_is_refused(session: Session) -> None:
    async with session.guard():
        receipt = await session.send("work")
        with pytest.raises(Reentry):
            await session.result(receipt.message_id)
        with pytest.raises(Reentry):
            await session.wait_idle()


async def test_a_cancelled_wait_leaves_nobody_behind_who_holds_it(coord: Coordinator, session: Session) -> None:
    store = coord.kernel.store
    for delay in (0, 0.0005, 0.001, 0.002, 0.004):

        async def hold() -> None:
            async with session.guard():
                await asyncio.sleep(10)

        task = asyncio.create_task(hold())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not await store.redis.exists(store.keys.session("s")["guard"])
    assert coord.hints.subscriptions == 0


async def test_an_unknown_session_has_no_guard(coord: Coordinator) -> None:
    with pytest.raises(SessionUnknown):
        async with coord.session("nobody").guard(timeout=1):
            pytest.fail("there is nothing to hold")


async def test_while_it_is_held_no_turn_opens_and_its_release_lets_the_driver_go_on(
    session: Session, hand: Hand
) -> None:
    async with session.guard():
        await session.send("work")
        claim = await hand.claim("s")
        assert claim.verdict is Verdict.GUARDED
    await hand.turn("s")
    await session.wait_idle(timeout=1)
