"""Stopping and replacing from a client: tickets, outcomes, expectations, and what is refused by name."""

from __future__ import annotations

import asyncio

import pytest

from coordinator import (
    CancelConflict,
    ConflictingRepeat,
    Coordinator,
    MessageNotPending,
    Reentry,
    Session,
    SessionClosed,
    SessionUnknown,
    TurnChanged,
    UsageError,
)
from coordinator.services.reentry import inside
from tests.client.hand import Hand


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    found = coord.session("s")
    await found.open()
    return found


async def pending(session: Session) -> list[str]:
    return [entry.body for entry in (await session.snapshot()).inbox.next_turn]


async def test_a_stop_answers_at_once_and_its_outcome_is_for_every_process(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    ticket = await session.cancel()
    assert ticket.known is None
    seen = await session.snapshot()
    assert (seen.cancel_pending, seen.cancel_id, seen.cancel_kind, seen.cancel_outcome) == (True, ticket.id, "user", "")
    async with Coordinator.connect(hand.kernel.store.settings) as other:
        elsewhere = asyncio.create_task(other.session("s").ticket(ticket.id).outcome(timeout=3))
        here = asyncio.create_task(ticket.outcome(timeout=3))
        with pytest.raises(TimeoutError, match="nothing was undone"):
            await session.ticket(ticket.id).outcome(timeout=0.05)
        await hand.end("s", ownership, "cancelled")
        assert [await here, await elsewhere] == ["cancelled", "cancelled"]
    assert await ticket.outcome() == "cancelled"
    after = await session.snapshot()
    assert (after.cancel_pending, after.cancel_id, after.cancel_outcome) == (False, ticket.id, "cancelled")
    assert after.cancel_revision > seen.cancel_revision


async def test_a_stop_on_an_idle_session_is_over_and_is_known_by_its_id_later(session: Session) -> None:
    ticket = await session.cancel(operation_id="op-1")
    assert (ticket.id, ticket.known) == ("op-1", "idle")
    assert await session.ticket("op-1").outcome(timeout=1) == "idle"
    assert (await session.cancel(operation_id="op-1")).known == "idle"
    with pytest.raises(ConflictingRepeat, match="op-1"):
        await session.cancel(operation_id="op-1", keep_inbox=False)
    with pytest.raises(UsageError, match="op-2"):
        await session.ticket("op-2").outcome(timeout=1)


async def test_a_further_stop_joins_and_both_ids_lead_to_the_outcome(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    first = await session.cancel(kind="silent", operation_id="op-1")
    second = await session.cancel(operation_id="op-2")
    assert (second.id, second.known) == (first.id, None)
    assert (await session.snapshot()).cancel_kind == "user"
    await hand.end("s", ownership, "cancelled")
    assert await session.ticket("op-2").outcome(timeout=1) == "cancelled"
    await hand.settle("s")
    await session.send("more")
    third = await hand.begin("s")
    await session.cancel(operation_id="op-3")
    await hand.end("s", third, "completed")
    assert await session.ticket("op-2").outcome(timeout=1) == "cancelled"
    assert await session.ticket("op-3").outcome(timeout=1) == "completed"


async def test_what_is_queued_is_kept_or_discarded_as_the_stop_says(session: Session, hand: Hand) -> None:
    await session.send("work")
    await session.send("queued")
    ownership = await hand.begin("s")
    await session.cancel()
    assert await pending(session) == ["queued"]
    await session.cancel(keep_inbox=False)
    assert await pending(session) == []
    late = await session.send("sent during the stop")
    assert late.placement == "latched"
    await hand.end("s", ownership, "cancelled")
    assert (await session.snapshot()).status == "running"


async def test_an_expectation_that_is_not_current_changes_nothing(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    before = await session.snapshot()
    for call in (
        session.cancel(expected_turn=7),
        session.cancel(expected_generation=ownership.generation + 1),
        session.replace("other", expected_turn=7),
        session.interrupt("other", expected_generation=7),
    ):
        with pytest.raises(TurnChanged):
            await call
    after = await session.snapshot()
    assert (after.cancel_revision, after.sequence) == (before.cancel_revision, before.sequence)
    ticket = await session.cancel(expected_turn=1, expected_generation=ownership.generation)
    assert ticket.known is None


async def test_arguments_that_mean_nothing_are_refused_before_anything_is_sent(session: Session) -> None:
    for call in (
        session.cancel(kind="replace"),  # type: ignore[arg-type]
        session.cancel(expected_turn=0),
        session.replace(),
        session.replace("text", entries=["m"]),
        session.replace(entries="m"),
        session.replace(entries=["m", "m"]),
        session.send("text", on_busy="replace", wake=False),
    ):
        with pytest.raises(UsageError):
            await call
    assert (await session.snapshot()).sequence == 0


async def test_a_replacement_stops_what_runs_and_goes_before_the_queue(session: Session, hand: Hand) -> None:
    await session.send("work")
    await session.send("queued")
    ownership = await hand.begin("s")
    receipt = await session.replace("do this instead", message_id="r-1")
    assert (receipt.message_id, receipt.placement) == ("r-1", "latched")
    assert (await session.replace("do this instead", message_id="r-1")).duplicate
    assert await pending(session) == ["do this instead", "queued"]
    with pytest.raises(CancelConflict, match="replace"):
        await session.replace("another")
    with pytest.raises(CancelConflict):
        await session.cancel(kind="silent")
    waiting = asyncio.create_task(session.ticket("r-1").outcome(timeout=3))
    await hand.end("s", ownership, "cancelled")
    assert await waiting == "cancelled"
    await hand.settle("s")
    await hand.turn("s", text="replaced")
    assert (await session.result("r-1", timeout=1)).text == "replaced"
    assert await pending(session) == ["queued"]


async def test_entries_of_the_inbox_replace_what_runs_all_or_none(session: Session, hand: Hand) -> None:
    await session.send("work")
    ids = [(await session.send(text)).message_id for text in ("one", "two", "three")]
    await hand.begin("s")
    with pytest.raises(MessageNotPending, match="gone"):
        await session.replace(entries=[ids[2], "gone"])
    assert await pending(session) == ["one", "two", "three"]
    assert not (await session.snapshot()).cancel_pending
    await session.replace(entries=[ids[2], ids[1]])
    assert await pending(session) == ["three", "two", "one"]
    assert (await session.snapshot()).cancel_kind == "replace"


async def test_send_can_replace_when_busy(session: Session, hand: Hand) -> None:
    assert (await session.send("work", on_busy="replace")).placement == "started"
    await hand.begin("s")
    assert (await session.send("instead", on_busy="replace", sender="alice")).placement == "latched"
    assert (await session.snapshot()).inbox.next_turn[0].sender == "alice"


async def test_an_interrupt_parks_the_queue_and_waits_behind_a_persons_stop(session: Session, hand: Hand) -> None:
    await session.send("work")
    await session.send("queued")
    ownership = await hand.begin("s")
    receipt = await session.interrupt("the parent's word", expected_generation=ownership.generation)
    seen = await session.snapshot()
    assert (receipt.placement, seen.cancel_kind) == ("latched", "parent")
    assert [entry.awake for entry in seen.inbox.next_turn] == [True, False]
    await session.cancel()
    await session.interrupt("and another")
    assert await pending(session) == ["the parent's word", "queued", "and another"]


async def test_a_closed_session_takes_no_replacement_and_a_stop_finds_it_idle(session: Session) -> None:
    await session.close()
    for call in (session.replace("x"), session.interrupt("x"), session.inbox.clear()):
        with pytest.raises(SessionClosed):
            await call
    assert (await session.cancel()).known == "idle"


async def test_an_unknown_session_is_named(coord: Coordinator) -> None:
    nobody = coord.session("nobody")
    for call in (
        nobody.cancel(),
        nobody.replace("x"),
        nobody.interrupt("x"),
        nobody.inbox.clear(),
        nobody.ticket("op").outcome(timeout=1),
        nobody.maintain("job").__aenter__(),
    ):
        with pytest.raises(SessionUnknown, match="nobody"):
            await call


async def test_inside_the_own_turn_a_stop_works_and_only_waiting_for_it_is_refused(
    session: Session, hand: Hand
) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    with inside("turn", "s"):
        ticket = await session.cancel()
        await session.send("more")
        with pytest.raises(Reentry, match="outcome"):
            await ticket.outcome(timeout=5)
        await session.inbox.clear()
    await hand.end("s", ownership, "cancelled")
    with inside("turn", "s"):
        assert await ticket.outcome() == "cancelled"


async def test_in_a_handler_everything_works_that_does_not_wait(session: Session, hand: Hand) -> None:
    await session.send("work")
    await session.send("queued", message_id="m-1")
    await hand.end("s", await hand.begin("s"))
    with inside("handler", "s"):
        ticket = await session.cancel(kind="silent")
        assert await ticket.outcome() == "idle"
        await session.inbox.replace("m-1", "another text")
        await session.inbox.steer("m-1")
        await session.replace("first")
        await session.interrupt("before it")
        assert await pending(session) == ["before it", "first"]
