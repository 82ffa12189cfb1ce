"""Stops among processes that are killed, paused, or never hear of it: every operation ends within its bound."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.session import Session
from coordinator.ticket import Ticket
from tests.faults.conftest import SHORT, Fleet
from tests.support.faulty import FaultyStore
from tests.support.sweeping import due
from tests.support.watch import BOUND, seen

CANCEL = 1.0
MARGIN_MS = 1500
"""For two busy cores, sweeps included."""


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"cancel_timeout": CANCEL}


async def ended(session: Session, ticket: Ticket) -> tuple[str, int]:
    """An operation's outcome, and how many milliseconds it took on the server's clock."""
    outcome = await ticket.outcome(timeout=BOUND)
    asked = await seen(session, "cancel.requested", operation_id=ticket.id)
    settled = await seen(session, "cancel.settled", operation_id=ticket.id)
    return outcome, int(settled.fields["at_ms"]) - int(asked.fields["at_ms"])


async def test_a_stop_whose_hints_are_all_cut_takes_a_heartbeat(fleet: Fleet) -> None:
    """B22: the worker's subscription is gone when the stop is published, and the one of the waiting client, too."""
    worker, _ = await fleet.start("w1")
    session = await fleet.opened()
    sent = (await session.send("hold gate")).message_id
    await seen(session, "agent.running")
    store = fleet.coord.kernel.store

    async def cut() -> None:
        await store.redis.client_kill_filter(_type="pubsub")

    FaultyStore(store).before("cancel", cut)
    outcome, took = await ended(session, await session.cancel())
    assert (outcome, took < SHORT["heartbeat"] * 1000 + MARGIN_MS) == ("cancelled", True)
    await worker.says(rf"agent {session.id} \S+ ends cancelled user")
    assert [turn.reason for turn in (await fleet.judged(session, sent)).turns.values()] == ["cancelled"]


async def test_a_stop_before_any_worker_is_there_is_final(fleet: Fleet) -> None:
    """B22, the other half: the run has not begun, and never does."""
    session = await fleet.opened()
    await session.send("say no")
    assert await (await session.cancel(keep_inbox=False)).outcome() == "cancelled"
    await fleet.start("w1")
    await fleet.ran(session, "say yes")
    assert [turn.text for turn in (await fleet.judged(session)).turns.values()] == ["yes"]


async def test_a_worker_killed_during_a_stop_does_not_undo_it(fleet: Fleet) -> None:
    """Section 9, G20: escalated, used up although never accepted; what was sent after the stop runs elsewhere."""
    worker, _ = await fleet.start("w1")
    session = await fleet.opened()
    sent = [(await session.send(text)).message_id for text in ("shy gate\nsay one", "say parked")]
    await worker.says(rf"agent {session.id} \S+ prompted")
    worker.pause()
    ticket = await session.cancel()
    sent.append((await session.send("say after")).message_id)
    await worker.kill()
    await fleet.worker("w2")
    outcome, took = await ended(session, ticket)
    assert (outcome, took < CANCEL * 1000 + MARGIN_MS) == ("escalated", True)
    await seen(session, "turn.ended", turn="3")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.text) for turn in oracle.turns.values()] == [
        ("escalated", ""), ("completed", "parked"), ("completed", "after"),
    ]  # fmt: skip


async def test_a_stop_that_finds_its_worker_gone_ends_at_once(fleet: Fleet) -> None:
    """Kandev B4, B10: nobody has swept the expired lease yet; the stop does what the sweep would have done."""
    worker = await fleet.worker("w1")
    session = await fleet.opened(settlement="none")
    sent = (await session.send("hold gate")).message_id
    await seen(session, "agent.running")
    await worker.kill()
    await due(fleet.coord.kernel, session.id, "lease")
    ticket = await session.cancel()
    assert ticket.known == "escalated"
    oracle = await fleet.judged(session, sent)
    assert [turn.reason for turn in oracle.turns.values()] == ["escalated"]
    assert await (await session.cancel()).outcome() == "idle"


async def test_a_worker_that_was_paused_through_a_stop_changes_nothing_when_it_is_back(fleet: Fleet) -> None:
    """Invariants 4, 7, 13: escalated without it; its agent is stopped, and its completion is stale."""
    zombie, _ = await fleet.start("w1")
    session = await fleet.opened()
    sent = [(await session.send("hold gate\nsay from the dead")).message_id]
    await seen(session, "agent.running")
    zombie.pause()
    ticket = await session.cancel()
    outcome, took = await ended(session, ticket)
    assert (outcome, CANCEL * 1000 <= took < CANCEL * 1000 + MARGIN_MS) == ("escalated", True)
    await fleet.worker("w2")
    sent.append((await session.send("say alive")).message_id)
    await seen(session, "turn.ended", turn="2")
    await fleet.gate("gate")
    zombie.resume()
    await zombie.says(rf"agent {session.id} \S+ stops")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.text) for turn in oracle.turns.values()] == [("escalated", ""), ("completed", "alive")]


async def test_a_completion_that_is_later_than_its_escalation_is_counted_and_nothing_else(fleet: Fleet) -> None:
    """The predecessor of a replacement completes late, out of a task that survived: stale, by what differs first."""
    await fleet.start()
    await fleet.worker("w1", agent="workers.agents.scripted:agent")
    session = await fleet.opened()
    sent = [(await session.send(text)).message_id for text in ("late 1.6\nhold gate", "say queued")]
    await seen(session, "agent.running")
    sent.append((await session.replace("hold late\nsay instead")).message_id)
    assert await session.ticket(sent[-1]).outcome(timeout=BOUND) == "escalated"
    stale = await seen(session, "ready.stale")
    assert stale.fields["generation"] == "1"
    view = await session.snapshot()
    assert (view.open_turn, view.cancel_pending) == (2, False)
    await fleet.gate("late")
    await seen(session, "turn.ended", turn="3")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.text) for turn in oracle.turns.values()] == [
        ("escalated", ""), ("completed", "instead"), ("completed", "queued"),
    ]  # fmt: skip
    assert oracle.stale == 1
