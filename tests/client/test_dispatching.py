"""Direct prompts without a guard: first in line at once, bounded waits, and nothing of what is before them touched."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coordinator import (
    CancelConflict,
    Coordinator,
    MessageNotPending,
    OutcomeUnknown,
    PredecessorPending,
    Reentry,
    ResetInProgress,
    Session,
    SessionClosed,
    SessionUnknown,
    StoreUnavailable,
    UsageError,
)
from coordinator.domain.verdicts import Verdict
from coordinator.services.reentry import inside
from tests.client.hand import Hand
from tests.scripts.scene import unchanged
from tests.support.faulty import EVERY, FaultyStore


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 4.0, "predecessor_wait": 0.6, "acceptance": 2.0}


@pytest.fixture
async def session(everywhere: Coordinator) -> Session:
    found = everywhere.session("s")
    await found.open()
    return found


@pytest.fixture
def hand(everywhere: Coordinator) -> Hand:
    return Hand(everywhere.kernel)


async def until(session: Session, kind: str, **fields: str) -> None:
    """Follow the log to an entry of this type and with these fields."""
    async with asyncio.timeout(3):
        async for entry in session.follow():
            if entry.type == kind and fields.items() <= entry.fields.items():
                return


async def prompted(session: Session, message_id: str = "p-1", **options: Any) -> asyncio.Task[Any]:
    """A prompt that is in line."""
    task = asyncio.create_task(session.prompt("direct", message_id=message_id, **options))
    await until(session, "inbox.inserted", message_id=message_id)
    return task


async def test_it_returns_at_acceptance_and_takes_no_guard(session: Session, hand: Hand) -> None:
    waiting = await prompted(session)
    seen = await session.snapshot()
    assert (seen.guard_owner, seen.guard_number, seen.status) == ("", 0, "running")
    ownership = await hand.begin("s")
    turn = await waiting
    assert (turn.message_id, turn.turn, turn.generation) == ("p-1", 1, ownership.generation)
    assert (await session.snapshot()).open_turn == 1
    await hand.end("s", ownership, text="done")
    result = await turn.result(timeout=1)
    assert (result.turn, result.reason, result.text) == (1, "completed", "done")


async def test_it_is_first_in_line_at_once_and_goes_when_the_predecessor_has_ended(
    session: Session, hand: Hand
) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    await session.send("queued")
    waiting = await prompted(session)
    seen = await session.snapshot()
    assert [entry.body for entry in seen.inbox.next_turn] == ["direct", "queued"]
    assert (seen.cancel_pending, seen.open_turn) == (False, 1)
    await hand.end("s", ownership)
    await hand.settle("s")
    await hand.begin("s")
    assert (await waiting).turn == 2


async def test_a_predecessor_that_stays_is_named_and_nothing_of_it_has_changed(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    before = await session.snapshot()
    began = time.monotonic()
    with pytest.raises(PredecessorPending, match=r"p-1 .*withdrawn") as caught:
        await session.prompt("direct", message_id="p-1")
    assert 0.55 < time.monotonic() - began < 1.5
    assert (caught.value.execution_id, caught.value.generation, caught.value.bound) == (
        ownership.execution_id, ownership.generation, 0.6,
    )  # fmt: skip
    assert caught.value.retryable
    after = await session.snapshot()
    assert (after.open_turn, after.generation, after.cancel_revision, after.status, after.inbox.next_turn) == (
        before.open_turn, before.generation, before.cancel_revision, "running", (),
    )  # fmt: skip
    assert await hand.end("s", ownership) is not Verdict.STALE
    fates = [one.fields["why"] async for one in session.history() if one.type == "inbox.discarded"]
    assert fates == ["expired"]


async def test_a_callers_bound_that_is_shorter_counts(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.begin("s")
    began = time.monotonic()
    with pytest.raises(PredecessorPending) as caught:
        await session.prompt("direct", timeout=0.2)
    assert time.monotonic() - began < 0.55
    assert caught.value.bound == 0.2


async def test_where_nothing_is_in_the_way_only_the_callers_bound_counts(session: Session) -> None:
    began = time.monotonic()
    with pytest.raises(PredecessorPending, match="coordinator explain s") as caught:
        await session.prompt("nobody works", timeout=0.9)
    assert time.monotonic() - began >= 0.85
    assert (caught.value.execution_id, caught.value.generation, caught.value.bound) == ("", 0, 0.9)
    assert (await session.snapshot()).inbox.next_turn == ()


async def test_a_completion_at_the_boundary_wins(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    waiting = await prompted(session)
    await hand.end("s", ownership)
    await hand.settle("s")
    claim = await hand.claim("s")
    assert claim.ownership is not None
    await asyncio.sleep(0.8)
    assert not waiting.done()
    await hand.kernel.turns.output("s", claim.ownership, 1, "")
    assert (await waiting).turn == 2


async def test_a_prompt_that_was_taken_and_not_accepted_is_unknown_and_stays_taken(
    session: Session, hand: Hand
) -> None:
    waiting = await prompted(session, timeout=0.3)
    assert (await hand.claim("s")).verdict is Verdict.OK
    with pytest.raises(OutcomeUnknown, match="p-1"):
        await waiting
    assert [entry.message_id for entry in (await session.snapshot()).inbox.in_flight] == ["p-1"]


@pytest.mark.parametrize("how", ["cancel", "broad", "clear", "close", "remove"])
async def test_a_waiter_whose_prompt_is_taken_away_hears_of_it_at_once(session: Session, hand: Hand, how: str) -> None:
    await session.send("work")
    await hand.begin("s")
    waiting = await prompted(session)
    began = time.monotonic()
    match how:
        case "cancel":
            await session.cancel()
        case "broad":
            await session.cancel(keep_inbox=False)
        case "clear":
            await session.inbox.clear()
        case "remove":
            await session.inbox.remove("p-1")
        case _:
            await session.close()
    with pytest.raises(MessageNotPending if how == "remove" else CancelConflict, match="p-1"):
        await waiting
    assert time.monotonic() - began < 0.4


async def test_one_may_wait_and_a_second_is_told_which_at_once(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    waiting = await prompted(session)
    began = time.monotonic()
    with pytest.raises(PredecessorPending, match="p-1"):
        await session.prompt("another", message_id="p-2")
    assert time.monotonic() - began < 0.4
    await hand.end("s", ownership)
    await hand.settle("s")
    await hand.begin("s")
    assert (await waiting).message_id == "p-1"


async def test_a_dead_callers_prompt_makes_way_and_its_repeat_is_told(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    await hand.kernel.stops.put_direct("s", "dead", wait=0.05, message_id="p-0")
    await asyncio.sleep(0.1)
    waiting = await prompted(session)
    began = time.monotonic()
    with pytest.raises(PredecessorPending, match="p-0"):
        await session.prompt("dead", message_id="p-0")
    assert time.monotonic() - began < 0.4
    await hand.end("s", ownership)
    await hand.settle("s")
    await hand.begin("s")
    assert (await waiting).turn == 2


async def test_a_repeat_joins_the_wait_and_gets_the_same_turn(session: Session, hand: Hand) -> None:
    first, second = await prompted(session), await prompted(session)
    await hand.begin("s")
    assert ((await first).turn, (await second).turn) == (1, 1)
    assert (await session.prompt("direct", message_id="p-1")).turn == 1


async def test_it_does_not_wait_behind_a_reset(session: Session, hand: Hand) -> None:
    await session.send("work")
    await hand.begin("s")
    async with session.guard() as guard:
        await hand.kernel.resets.begin("s", "r-1", guard.number)
    with pytest.raises(ResetInProgress):
        await session.prompt("direct")


async def test_one_that_goes_back_in_line_is_followed_into_its_next_turn(session: Session, hand: Hand) -> None:
    waiting = await prompted(session)
    assert (await hand.claim("s")).verdict is Verdict.OK
    store = hand.kernel.store
    await store.redis.zadd(store.keys.session("s")["deadlines"], {"acceptance:s": 1})
    await hand.kernel.deadlines.expire("acceptance", "s", "1")
    await until(session, "inbox.returned", message_id="p-1")
    await hand.settle("s")
    seen = await session.snapshot()
    claim = await hand.claim_anew("s", seen.activity)
    assert claim.ownership is not None
    await hand.kernel.turns.output("s", claim.ownership, 1, "")
    assert (await waiting).turn == 2


@pytest.mark.parametrize("kind", ["turn", "handler", "guard", "maintenance"])
async def test_inside_the_session_it_is_refused_at_once(session: Session, kind: str) -> None:
    with inside(kind, "s"), pytest.raises(Reentry, match="prompt"):  # type: ignore[arg-type]
        await session.prompt("x")
    with inside(kind, "another"), pytest.raises(UsageError, match="timeout"):  # type: ignore[arg-type]
        await session.prompt("x", timeout=0)
    assert (await session.snapshot()).sequence == 0


async def test_unknown_and_closed_sessions_are_told(everywhere: Coordinator, session: Session) -> None:
    with pytest.raises(SessionUnknown):
        await everywhere.session("nobody").prompt("x")
    await session.close()
    with pytest.raises(SessionClosed):
        await session.prompt("x")


@pytest.mark.parametrize("ends", ["goes on", "stopped"])
async def test_one_that_the_running_turn_takes_at_a_boundary_is_accepted(
    session: Session, hand: Hand, ends: str
) -> None:
    """Somebody steered it; its agent has it, whatever becomes of the turn."""
    await session.send("work")
    ownership = await hand.begin("s")
    waiting = await prompted(session)
    await session.inbox.steer("p-1")
    assert [one.message_id for one in await hand.kernel.turns.step("s", ownership, 1) or ()] == ["p-1"]
    if ends == "stopped":
        await session.cancel()
        await hand.end("s", ownership, "cancelled")
    turn = await asyncio.wait_for(waiting, 0.4)
    assert (turn.turn, turn.generation) == (1, 1)


@pytest.mark.parametrize("script", ["put_direct", "withdraw"])
async def test_an_unknown_outcome_names_the_prompt(session: Session, hand: Hand, script: str) -> None:
    """Whichever answer is lost; else nobody could look for it, or repeat it."""
    await session.send("work")
    await hand.begin("s")
    hand.kernel.store._patience = 0.2
    faults = FaultyStore(hand.kernel.store)
    faults.drop_reply(script, EVERY)
    with pytest.raises(OutcomeUnknown) as caught:
        await session.prompt("direct", timeout=0.3)
    faults.heal()
    kinds = {entry.fields["message_id"]: entry.fields["kind"] async for entry in session.history()
             if entry.type == "inbox.inserted"}  # fmt: skip
    assert [one for one, kind in kinds.items() if kind == "direct" and one in str(caught.value)]


async def test_what_can_not_be_followed_any_more_is_unknown_and_named(
    session: Session, hand: Hand, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: str) -> None:
        raise StoreUnavailable("no server")

    monkeypatch.setattr(hand.kernel.stops, "withdraw", gone)
    with pytest.raises(OutcomeUnknown, match="p-1"):
        await session.prompt("direct", timeout=0.1, message_id="p-1")


@pytest.mark.parametrize("timeout", [float("inf"), float("nan"), 1e300, -1.0, 0.0])
async def test_a_wait_without_a_bound_is_refused(everywhere: Coordinator, session: Session, timeout: float) -> None:
    """Section 8: each wait has one. Nothing is written."""
    async with unchanged(everywhere.kernel):
        with pytest.raises(UsageError, match="no time to wait for an acceptance"):
            await session.prompt("x", timeout=timeout)
