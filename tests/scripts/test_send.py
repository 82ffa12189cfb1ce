"""Sending: where a message goes, what it starts, and what refuses it without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import (
    CoordinatorError,
    InboxFull,
    InvalidId,
    MessageInvalid,
    MessageTooLarge,
    SessionBusy,
    SessionClosed,
    SessionUnknown,
)
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, bodies, heard, unchanged

if TYPE_CHECKING:
    from coordinator.services import Kernel


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"max_inbox": 3, "max_inbox_bytes": 20, "max_body": 15}


async def test_a_wake_on_an_idle_session_starts_it_with_one_placement(kernel: Kernel) -> None:
    """Section 4, send: phase running, a new token, a placement deadline, one offer and one ring of the doorbell."""
    scene = await Scene(kernel).opened()
    receipt = await kernel.inbox.send(scene.sid, "hello", sender="ann")
    assert (receipt.placement, receipt.sequence, receipt.duplicate) == ("started", 1, False)
    view = await scene.view()
    assert (view.status, view.waiting_for) == ("running", "placement")
    assert view.activity
    assert set(await scene.deadlines()) == {"placement"}
    (entry,) = view.inbox.next_turn
    assert (entry.sender, entry.awake, entry.attempt) == ("ann", True, 0)
    offers = await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1)
    assert offers == await kernel.store.redis.lrange(kernel.store.keys.doorbell, 0, -1)  # type: ignore[misc]
    assert [view.activity in offer for offer in offers] == [True]


async def test_a_wake_on_a_live_execution_is_a_hint_to_its_worker_and_no_placement(kernel: Kernel) -> None:
    """Section 9, affinity: a session whose execution is alive gets a hint on its worker's channel instead."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    offers = await kernel.store.redis.zcard(kernel.store.keys.queue)
    keys = kernel.store.keys
    async with heard(kernel, keys.control("w1"), keys.hint(scene.sid)) as so_far:
        await scene.sent("again")
        assert await so_far() == [(keys.hint(scene.sid), "OK"), (keys.control("w1"), f"run s {scene.token}")]
    assert await kernel.store.redis.zcard(keys.queue) == offers
    assert (await scene.claimed()).verdict is Verdict.OK


async def test_a_message_is_inserted_then_runs_then_is_claimed_by_its_turn(kernel: Kernel) -> None:
    """Wake-latch A15: inserted, turn.started, claimed carry exactly that message, in that order."""
    scene = await Scene(kernel).opened()
    message = await scene.sent()
    await scene.booted()
    await scene.claimed()
    told = [entry for entry in await scene.log() if entry.get("message_id") or entry["type"] == "turn.started"]
    assert [entry["type"] for entry in told] == ["inbox.inserted", "turn.started", "inbox.claimed"]
    assert (told[0]["message_id"], told[2]["message_id"], told[2]["turn"]) == (message, message, "1")


async def test_an_inject_on_an_idle_session_is_one_insertion_and_rides_with_the_next_wake(kernel: Kernel) -> None:
    """Wake-latch A9, F82: no status, no turn, no deadline; the next follow-up's first request contains it."""
    scene = await Scene(kernel).opened()
    receipt = await kernel.inbox.send(scene.sid, "context", list="next-step", wake=False)
    assert receipt.placement == "parked"
    assert await scene.types() == ["session.opened", "inbox.inserted"]
    assert set(await scene.deadlines()) == {"retention"}
    await scene.sent("go")
    await scene.booted()
    assert [message.body for message in (await scene.claimed()).messages] == ["context", "go"]


async def test_a_steer_on_an_idle_session_starts_a_turn_and_the_next_one_joins_it(kernel: Kernel) -> None:
    """Wake-latch A7: one turn; its first request has only the first, its second step the second."""
    scene = await Scene(kernel).opened()
    await scene.sent("one", list="next-step")
    await scene.booted()
    claim = await scene.claimed()
    assert [message.body for message in claim.messages] == ["one"]
    assert claim.ownership
    await scene.sent("two", list="next-step")
    step = await kernel.turns.step(scene.sid, claim.ownership, 1)
    assert step
    assert [message.body for message in step] == ["two"]
    assert (await scene.finished(claim.ownership)).verdict is Verdict.GONE


@pytest.mark.parametrize("state", ["reserved", "starting", "open", "unsettled"])
async def test_a_send_to_a_running_session_queues_and_starts_nothing(kernel: Kernel, state: str) -> None:
    """Section 5.2: a live driver needs no latch; whatever it waits for, no second activity begins."""
    scene = await Scene(kernel).opened()
    await scene.sent("first")
    if state == "starting":
        await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    elif state != "reserved":
        await scene.booted()
        ownership = (await scene.claimed()).ownership
        assert ownership
        if state == "unsettled":
            await scene.sent("next")
            await scene.finished(ownership)
    before = await scene.view()
    assert (await kernel.inbox.send(scene.sid, "more")).placement == "queued"
    after = await scene.view()
    assert (after.activity, after.status, after.deadlines) == (before.activity, "running", before.deadlines)
    assert (await scene.pending())[-1] == "more"


async def test_a_quiet_message_is_an_older_prompt_for_the_next_wake(kernel: Kernel) -> None:
    """Wake-latch 2.2, quiet next-turn: parked when idle; the wake that comes later runs it first."""
    scene = await Scene(kernel).opened()
    assert (await kernel.inbox.send(scene.sid, "quiet", wake=False)).placement == "parked"
    assert (await scene.view()).status == "idle"
    await scene.sent("loud")
    await scene.booted()
    assert [message.body for message in (await scene.claimed()).messages] == ["quiet"]
    assert await scene.pending() == ["loud"]


@pytest.mark.parametrize(
    ("state", "goes_to"), [("idle", "next-turn"), ("reserved", "next-turn"), ("open", "next-step")]
)
async def test_on_busy_steer_joins_an_open_turn_and_no_other(kernel: Kernel, state: str, goes_to: str) -> None:
    """A steer needs a turn to join: without one it is a message like any other."""
    scene = await Scene(kernel).opened()
    if state == "open":
        await scene.prompted()
    elif state == "reserved":
        await scene.sent("first")
    receipt = await kernel.inbox.send(scene.sid, "steer", on_busy="steer")
    assert receipt.placement == ("started" if state == "idle" else "queued")
    inbox = (await scene.view()).inbox
    assert bodies(inbox.next_turn if goes_to == "next-turn" else inbox.next_step)[-1] == "steer"


async def test_on_busy_reject_refuses_whatever_is_not_idle(kernel: Kernel) -> None:
    """Reserved, open and waiting for settlement are all busy; nothing is written, and idle accepts."""
    scene = await Scene(kernel).opened()
    assert (await kernel.inbox.send(scene.sid, "first", on_busy="reject")).placement == "started"
    scene.token = (await scene.view()).activity
    async with unchanged(kernel):
        with pytest.raises(SessionBusy):
            await kernel.inbox.send(scene.sid, "second", on_busy="reject")
    await scene.booted()
    ownership = (await scene.claimed()).ownership
    assert ownership
    await scene.sent("queued")
    await scene.finished(ownership)
    async with unchanged(kernel):
        with pytest.raises(SessionBusy):
            await kernel.inbox.send(scene.sid, "second", on_busy="reject")


async def test_the_inbox_is_limited_by_count_of_what_is_pending(kernel: Kernel) -> None:
    """Both lists count, what is in flight does not; a refusal writes nothing, and a claim makes room."""
    scene = await Scene(kernel).opened()
    for body in "ab":
        await scene.sent(body)
    await scene.sent("c", list="next-step", wake=False)
    async with unchanged(kernel):
        with pytest.raises(InboxFull, match="3 messages, 3 bytes"):
            await scene.sent("d")
    await scene.booted()
    await scene.claimed()
    await scene.sent("d")
    assert await scene.pending() == ["b", "d"]


async def test_the_inbox_is_limited_by_the_bytes_of_what_is_pending(kernel: Kernel) -> None:
    """Bytes of UTF-8: what fits exactly goes in, one byte more is refused and writes nothing."""
    scene = await Scene(kernel).opened()
    await scene.sent("é" * 6)
    async with unchanged(kernel):
        with pytest.raises(InboxFull, match="1 messages, 12 bytes"):
            await scene.sent("123456789")
    await scene.sent("12345678")
    assert (await kernel.store.redis.hget(scene.keys["session"], "inbox_bytes")) == "20"  # type: ignore[misc]


async def test_messages_go_back_in_line_even_above_the_limit_and_their_bytes_count_again(kernel: Kernel) -> None:
    """Section 9: the whole batch goes back even above the inbox limit; refusing it would lose it."""
    scene = await Scene(kernel).opened()
    await scene.prompted("12345678", accept=False)
    for body in ("aaaa", "bbbb", "cccc"):
        await scene.sent(body)
    await scene.expired("lease")
    assert await scene.pending() == ["12345678", "aaaa", "bbbb", "cccc"]
    assert (await kernel.store.redis.hget(scene.keys["session"], "inbox_bytes")) == "20"  # type: ignore[misc]
    async with unchanged(kernel):
        with pytest.raises(InboxFull):
            await scene.sent("d")


@pytest.mark.parametrize(
    ("body", "options", "error"),
    [
        ("", {}, MessageInvalid),
        ("\ud800", {}, MessageInvalid),
        ("x" * 16, {}, MessageTooLarge),
        ("x", {"message_id": "no spaces"}, InvalidId),
        ("x", {"sender": "no spaces"}, InvalidId),
    ],
)
async def test_what_is_no_message_never_reaches_the_session(
    kernel: Kernel, body: str, options: dict[str, Any], error: type[CoordinatorError]
) -> None:
    """Wake-latch A11: error to the caller, nothing logged, idle, no driver."""
    scene = await Scene(kernel).opened()
    async with unchanged(kernel):
        with pytest.raises(error):
            await kernel.inbox.send(scene.sid, body, **options)


async def test_an_unknown_and_a_closed_session_take_no_message(kernel: Kernel) -> None:
    """Nothing is minted from nothing, and what is closed stays closed (L9, wake-latch E: a fence after disposal)."""
    async with unchanged(kernel):
        with pytest.raises(SessionUnknown):
            await kernel.inbox.send("nobody", "hello")
    scene = await Scene(kernel).opened()
    await kernel.sessions.close(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(SessionClosed):
            await kernel.inbox.send(scene.sid, "hello")
        with pytest.raises(SessionClosed):
            await kernel.sessions.open(scene.sid, (await scene.view()).policy)
