"""What a session's calls answer, and which errors they raise."""

from __future__ import annotations

import asyncio

import pytest

from coordinator import (
    ConflictingRepeat,
    Coordinator,
    InvalidId,
    MessageInvalid,
    MessageNotPending,
    MessageTooLarge,
    Reentry,
    SessionBusy,
    SessionClosed,
    SessionPolicy,
    SessionUnknown,
    UsageError,
)
from coordinator.services.reentry import inside
from tests.client.hand import Hand


async def test_a_handle_is_made_without_io_and_open_says_whether_the_session_is_new(coord: Coordinator) -> None:
    session = coord.session("task-42")
    with pytest.raises(SessionUnknown, match="task-42"):
        await session.snapshot()
    assert await session.open(SessionPolicy(lost_turns="retry"))
    assert not await session.open(policy=SessionPolicy(settlement="none"))
    policy = (await session.snapshot()).policy
    assert (policy.settlement, policy.lost_turns) == ("none", "fail")


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ü", "x" * 129, "a\n", "a:b", "a{b}"])
async def test_an_id_outside_the_allowed_set_is_refused_before_anything_is_sent(coord: Coordinator, name: str) -> None:
    with pytest.raises(InvalidId):
        coord.session(name)


async def test_send_steer_and_inject_go_to_their_lists(coord: Coordinator) -> None:
    session = coord.session("s")
    await session.open()
    first = await session.inject("a note")
    second = await session.send("later", wake=False, sender="alice")
    third = await session.send("now")
    fourth = await session.steer("and this")
    assert [one.placement for one in (first, second, third, fourth)] == ["parked", "parked", "started", "queued"]
    assert [one.sequence for one in (first, second, third, fourth)] == [1, 2, 3, 4]
    inbox = (await session.snapshot()).inbox
    assert [entry.body for entry in inbox.next_turn] == ["later", "now"]
    assert [entry.body for entry in inbox.next_step] == ["a note", "and this"]
    assert inbox.next_turn[0].sender == "alice"


async def test_a_message_id_sent_again_changes_nothing_and_with_another_text_is_refused(coord: Coordinator) -> None:
    session = coord.session("s")
    await session.open()
    first = await session.send("once", message_id="m-1")
    again = await session.send("once", message_id="m-1")
    assert again.duplicate
    assert (again.sequence, again.placement) == (first.sequence, first.placement)
    with pytest.raises(ConflictingRepeat, match="m-1"):
        await session.send("twice", message_id="m-1")
    assert len((await session.snapshot()).inbox.next_turn) == 1


async def test_refused_messages_leave_nothing_behind(coord: Coordinator) -> None:
    session = coord.session("s")
    with pytest.raises(SessionUnknown):
        await session.send("nobody there")
    await session.open()
    with pytest.raises(MessageTooLarge):
        await session.send("x" * (coord.settings.max_body + 1))
    await session.send("runs")
    with pytest.raises(SessionBusy):
        await session.send("only if idle", on_busy="reject")
    assert await session.close() == "closed"
    with pytest.raises(SessionClosed):
        await session.send("too late")
    with pytest.raises(SessionClosed):
        await session.open()
    kinds = [entry.type async for entry in session.history()]
    assert kinds.count("inbox.inserted") == 1


async def test_wait_idle_waits_for_the_settlement_too(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("work")
    waiting = asyncio.create_task(session.wait_idle(timeout=3))
    ownership = await hand.begin("s")
    await hand.end("s", ownership)
    with pytest.raises(TimeoutError, match="s is idle"):
        await session.wait_idle(timeout=0.05)
    assert not waiting.done()
    await hand.settle("s")
    await waiting


async def test_wait_idle_on_a_closing_session_waits_until_it_is_closed(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("work")
    ownership = await hand.begin("s")
    assert await session.close() == "closing"
    waiting = asyncio.create_task(session.wait_idle(timeout=3))
    await hand.end("s", ownership)
    await hand.settle("s")
    await waiting
    assert (await session.snapshot()).lifecycle == "closed"


async def test_result_tells_how_the_turn_of_a_message_ended(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    receipt = await session.send("work")
    waiting = asyncio.create_task(session.result(receipt.message_id, timeout=3))
    ownership = await hand.begin("s")
    await hand.kernel.turns.output("s", ownership, 2, "half, ")
    token = (await session.snapshot()).activity
    await hand.kernel.turns.finish("s", ownership, token, "completed", number=3, text="and all")
    result = await waiting
    assert (result.turn, result.generation, result.reason, result.text) == (1, 1, "completed", "half, and all")
    assert await session.result(receipt.message_id, timeout=1) == result


async def test_result_tells_the_error_of_a_failed_turn(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    receipt = await session.send("work")
    await hand.end("s", await hand.begin("s"), "error", error="no such file")
    result = await session.result(receipt.message_id, timeout=1)
    assert (result.reason, result.error) == ("error", "no such file")


async def test_result_follows_a_message_that_went_back_in_line(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    receipt = await session.send("work")
    claim = await hand.claim("s")
    assert claim.ownership is not None
    waiting = asyncio.create_task(session.result(receipt.message_id, timeout=3))
    token = (await session.snapshot()).activity
    await hand.kernel.turns.finish("s", claim.ownership, token, "error", error="unreachable", undelivered=True)
    await hand.settle("s")
    await hand.turn("s", text="second try")
    result = await waiting
    assert (result.turn, result.generation, result.text) == (2, 2, "second try")


async def test_result_of_a_discarded_or_unknown_message_is_refused(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    await session.send("running")
    await hand.begin("s")
    waits = await session.send("waits")
    waiting = asyncio.create_task(session.result(waits.message_id, timeout=3))
    await session.close()
    with pytest.raises(MessageNotPending, match="discarded"):
        await waiting
    with pytest.raises(MessageNotPending, match="nobody"):
        await session.result("nobody", timeout=1)
    with pytest.raises(SessionUnknown):
        await coord.session("other").result("nobody", timeout=1)


async def test_a_callers_timeout_undoes_nothing(coord: Coordinator, hand: Hand) -> None:
    session = coord.session("s")
    await session.open()
    receipt = await session.send("work")
    with pytest.raises(TimeoutError):
        await session.result(receipt.message_id, timeout=0.05)
    assert coord.hints.subscriptions == 0
    await hand.turn("s")
    assert (await session.result(receipt.message_id, timeout=1)).reason == "completed"


@pytest.mark.parametrize("kind", ["turn", "handler"])
async def test_waiting_for_the_own_session_from_inside_is_refused_at_once(coord: Coordinator, kind: str) -> None:
    session, other = coord.session("s"), coord.session("other")
    await session.open()
    await other.open()
    with inside(kind, "s"):  # type: ignore[arg-type]

        async def started_inside() -> None:
            with pytest.raises(Reentry):
                await session.wait_idle(timeout=1)

        await asyncio.create_task(started_inside())
        for call in (session.close(), session.result("m"), session.guard().__aenter__()):
            with pytest.raises(Reentry, match="inside"):
                await call
        await other.wait_idle(timeout=1)
        await session.send("allowed")
        await session.snapshot()
    assert await session.close() == "closed"


async def test_a_task_that_outlives_the_place_it_was_started_in_is_free_again(coord: Coordinator) -> None:
    session, left = coord.session("s"), asyncio.Event()
    await session.open()

    async def outlives() -> None:
        await left.wait()
        await session.wait_idle(timeout=1)

    with inside("handler", "s"):
        task = asyncio.create_task(outlives())
    left.set()
    await task


async def test_words_that_are_none_are_refused_and_not_stored(coord: Coordinator) -> None:
    session = coord.session("s")
    for policy in (SessionPolicy(settlement="maybe"), SessionPolicy(retries=0), SessionPolicy(retries="3")):  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="can't be"):
            await session.open(policy)
    with pytest.raises(SessionUnknown):
        await session.snapshot()
    await session.open()
    with pytest.raises(UsageError, match="on_busy"):
        await session.send("text", on_busy="replace-it")  # type: ignore[arg-type]
    for text in ("", "\ud800"):
        with pytest.raises(MessageInvalid):
            await session.send(text)
    assert (await session.snapshot()).inbox.next_turn == ()
