"""Jobs that claim the idle session: alone, under a lease, told of a stop, and found out when they lost it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator import Coordinator, Reentry, Session, SessionBusy, Superseded, UsageError
from coordinator.domain.verdicts import Verdict
from tests.client.hand import Hand


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.5, "maintenance_lease": 0.6}


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    found = coord.session("s")
    await found.open()
    return found


async def expire(coord: Coordinator, kind: str) -> None:
    """End the session's deadline of this kind, as a replica does once it is due."""
    store = coord.kernel.store
    for _ in range(50):  # The job's own extension may come between the two.
        await store.redis.zadd(store.keys.session("s")["deadlines"], {f"{kind}:s": 1})
        if (await coord.kernel.deadlines.expire(kind, "s", "1")).verdict is Verdict.OK:
            return
    pytest.fail(f"{kind} was never due")


async def test_messages_queue_while_the_job_works_and_run_afterwards(session: Session, hand: Hand) -> None:
    async with session.maintain("compaction") as job:
        seen = await session.snapshot()
        assert (seen.status, seen.phase, seen.maintenance) == ("idle", "maintenance", "compaction")
        assert (await session.send("work")).placement == "latched"
        with pytest.raises(SessionBusy):
            await hand.kernel.maintenance.begin("s", "j-other", "other")
        assert not job.cancelled.is_set()
    assert (await session.snapshot()).status == "running"
    await hand.turn("s")
    await session.wait_idle(timeout=1)


async def test_a_session_that_is_not_idle_is_not_taken(session: Session) -> None:
    await session.send("work")
    with pytest.raises(SessionBusy, match="running"):
        async with session.maintain("job"):
            pytest.fail("it was taken")


async def test_it_is_kept_for_longer_than_its_lease(session: Session, coord: Coordinator) -> None:
    async with session.maintain("job") as job:
        await asyncio.sleep(0.9)
        partition = coord.kernel.store.keys.partition_of("s")
        assert not [one for one in (await coord.kernel.deadlines.sweep(partition)).due if one.kind == "maintenance"]
        assert not job.cancelled.is_set()


async def test_a_stop_tells_the_job_and_ends_with_it(session: Session) -> None:
    async with session.maintain("job") as job:
        ticket = await session.cancel()
        assert ticket.known is None
        await asyncio.wait_for(job.cancelled.wait(), 0.15)
        assert job.cancel_cause == "user"
    assert await ticket.outcome(timeout=1) == "cancelled"
    assert (await session.snapshot()).status == "idle"


async def test_a_job_that_lost_the_session_hears_of_it_and_fails(session: Session, coord: Coordinator) -> None:
    async def work() -> None:
        async with session.maintain("job") as job:
            await expire(coord, "maintenance")
            await asyncio.wait_for(job.cancelled.wait(), 1)
            assert job.cancel_cause == "superseded"

    with pytest.raises(Superseded, match="job"):
        await work()
    assert (await session.snapshot()).phase == "idle"


async def test_a_job_that_ignores_a_stop_is_ended_by_its_deadline(session: Session, coord: Coordinator) -> None:
    async def work() -> None:
        async with session.maintain("job") as job:
            ticket = await session.cancel()
            await expire(coord, "cancel")
            assert await ticket.outcome(timeout=1) == "escalated"
            await asyncio.wait_for(job.cancelled.wait(), 1)

    with pytest.raises(Superseded):
        await work()


async def test_the_bodys_own_error_comes_through_and_the_session_is_free(session: Session) -> None:
    with pytest.raises(ZeroDivisionError):
        async with session.maintain("job"):
            raise ZeroDivisionError
    assert (await session.snapshot()).phase == "idle"


async def test_waiting_for_its_own_end_is_refused_inside(session: Session) -> None:
    async with session.maintain("job"):
        for call in (session.wait_idle(timeout=1), session.maintain("again").__aenter__()):
            with pytest.raises(Reentry, match="maintenance"):
                await call
        async with session.guard():
            pass
    async with session.maintain("again"):
        pass


@pytest.mark.parametrize("name", ["", "x" * 65, "two\nlines"])
async def test_a_name_is_short_and_printable(session: Session, name: str) -> None:
    with pytest.raises(UsageError):
        session.maintain(name)


async def test_a_cancelled_job_leaves_nobody_behind(session: Session, coord: Coordinator) -> None:
    for delay in (0, 0.0005, 0.001, 0.002, 0.01):

        async def work() -> None:
            async with session.maintain("job"):
                await asyncio.sleep(10)

        task = asyncio.create_task(work())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await session.snapshot()).phase == "idle"
    assert coord.hints.subscriptions == 0
