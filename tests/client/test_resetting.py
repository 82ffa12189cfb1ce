"""A reset as its caller sees it: begun under the guard, waited for without it, ended by data whatever dies."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coordinator import (
    CancelConflict,
    Coordinator,
    GuardBusy,
    Reentry,
    ResetFailed,
    ResetInProgress,
    Session,
    SessionBusy,
    SessionClosed,
    SessionUnknown,
)
from coordinator.services.reentry import inside
from tests.client.hand import Hand


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 4.0}


@pytest.fixture
async def session(everywhere: Coordinator) -> Session:
    found = everywhere.session("s")
    await found.open()
    return found


@pytest.fixture
def hand(everywhere: Coordinator) -> Hand:
    return Hand(everywhere.kernel)


async def types(session: Session) -> list[str]:
    return [entry.type async for entry in session.history() if entry.type.startswith("reset.")]


async def until(session: Session, kind: str) -> None:
    async with asyncio.timeout(3):
        async for entry in session.follow():
            if entry.type == kind:
                return


async def resetting(session: Session, reset_id: str = "r-1", **options: Any) -> asyncio.Task[None]:
    """A reset that has begun, by a caller that waits."""
    task = asyncio.create_task(session.reset(operation_id=reset_id, **options))
    await until(session, "reset.started")
    return task


async def overdue(hand: Hand, kind: str) -> None:
    """Let a deadline of session s be over, and swept."""
    store = hand.kernel.store
    await store.redis.zadd(store.keys.session("s")["deadlines"], {f"{kind}:s": 1})
    await hand.kernel.deadlines.expire(kind, "s", "1")


async def test_a_session_that_never_ran_has_a_fresh_context_at_once(session: Session) -> None:
    await session.reset(timeout=2)
    seen = await session.snapshot()
    assert (seen.reset_pending, seen.reset_outcome, seen.guard_owner) == (False, "committed", "")
    assert await types(session) == ["reset.started", "reset.committed"]


async def test_the_worker_of_an_idle_execution_is_waited_for_without_the_guard(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.turn("s")
    waiting = await resetting(session)
    seen = await session.snapshot()
    assert (seen.reset_pending, seen.reset_id, seen.reset_outcome, seen.status, seen.waiting_for) == (
        True, "r-1", "", "idle", "reset",
    )  # fmt: skip
    async with session.guard(timeout=0.5):
        assert not waiting.done()
    late = await session.send("meanwhile")
    assert late.placement == "latched"
    assert await hand.kernel.resets.end("s", seen.execution_id, "r-1", committed=True, resume_token="fresh")
    began = time.monotonic()
    await waiting
    assert time.monotonic() - began < 1
    after = await session.snapshot()
    assert (after.resume_token, after.reset_id, after.reset_outcome) == ("fresh", "r-1", "committed")
    assert after.status == "running"


async def test_what_runs_is_stopped_first(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    waiting = await resetting(session)
    seen = await session.snapshot()
    assert (seen.cancel_pending, seen.cancel_kind, seen.open_turn) == (True, "system", 1)
    await hand.end("s", ownership, "cancelled")
    assert not waiting.done()
    assert await hand.kernel.resets.end("s", seen.execution_id, "r-1", committed=True)
    await waiting


async def test_a_reset_that_the_provider_refuses_fails_with_its_reason(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.turn("s")
    waiting = await resetting(session)
    await hand.kernel.resets.end("s", "x-s", "r-1", committed=False, why="the provider is down")
    with pytest.raises(ResetFailed, match=r"r-1 .*the provider is down"):
        await waiting
    with pytest.raises(ResetFailed, match="the provider is down"):
        await session.reset(operation_id="r-1")
    assert (await session.snapshot()).reset_outcome == "failed"


async def test_a_stop_that_nobody_confirms_fails_it(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.begin("s")
    waiting = await resetting(session)
    await overdue(hand, "cancel")
    with pytest.raises(ResetFailed, match="not confirmed"):
        await waiting
    assert await types(session) == ["reset.started", "reset.failed"]


async def test_a_callers_own_timeout_undoes_nothing_and_its_id_joins_again(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.turn("s")
    with pytest.raises(TimeoutError, match="nothing was undone"):
        await session.reset(timeout=0.2, operation_id="r-1")
    assert (await session.snapshot()).reset_pending
    again = asyncio.create_task(session.reset(timeout=3, operation_id="r-1"))
    async with session.guard(timeout=0.5):
        await asyncio.sleep(0.1)
        assert await hand.kernel.resets.end("s", "x-s", "r-1", committed=True)
        await again
    assert await types(session) == ["reset.started", "reset.committed"]


async def test_a_caller_that_dies_changes_nothing(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.turn("s")
    waiting = await resetting(session)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    async with session.guard(timeout=1):
        assert (await session.snapshot()).reset_pending
    await overdue(hand, "reset")
    assert (await session.snapshot()).reset_outcome == "failed"


async def test_what_is_in_the_way_is_named(everywhere: Coordinator, session: Session, hand: Hand) -> None:
    with pytest.raises(SessionUnknown):
        await everywhere.session("nobody").reset(timeout=1)
    await session.send("work")
    ownership = await hand.begin("s")
    await session.cancel()
    with pytest.raises(CancelConflict):
        await session.reset(timeout=1)
    await hand.end("s", ownership, "cancelled")
    await hand.settle("s")
    async with session.maintain("compaction"):
        with pytest.raises(SessionBusy):
            await asyncio.create_task(_outside(session))
    waiting = await resetting(session)
    with pytest.raises(ResetInProgress, match="r-1"):
        await session.reset(timeout=1)
    await session.close()
    with pytest.raises(ResetFailed):
        await waiting
    with pytest.raises(SessionClosed):
        await session.reset(timeout=1)


async def _outside(session: Session) -> None:
    """As somebody else does it, who is not inside the maintenance job."""
    from coordinator.services import reentry

    reentry._scopes.set(())
    await session.reset(timeout=1)


async def test_a_guard_that_stays_busy_is_waited_for_within_the_bound(session: Session, hand: Hand) -> None:
    assert (await hand.kernel.guards.acquire("s", "somebody")).number
    began = time.monotonic()
    with pytest.raises(GuardBusy, match="somebody"):
        await session.reset(timeout=0.3)
    assert 0.25 < time.monotonic() - began < 1.5
    assert not (await session.snapshot()).reset_pending


@pytest.mark.parametrize("kind", ["turn", "handler", "guard", "maintenance"])
async def test_inside_the_session_it_is_refused_at_once(session: Session, kind: str) -> None:
    with inside(kind, "s"), pytest.raises(Reentry, match="reset"):  # type: ignore[arg-type]
        await session.reset()


async def test_wait_idle_waits_for_the_end_and_for_what_follows(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.turn("s")
    resetter = await resetting(session)
    idle = asyncio.create_task(session.wait_idle(timeout=3))
    await session.send("meanwhile")
    await asyncio.sleep(0.1)
    assert not idle.done()
    assert await hand.kernel.resets.end("s", "x-s", "r-1", committed=True)
    await resetter
    await asyncio.sleep(0.1)
    assert not idle.done()
    await hand.turn("s")
    await idle
