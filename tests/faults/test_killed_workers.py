"""Workers killed at every moment of a turn: what was accepted is visibly lost, all else goes on elsewhere."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Fleet
from tests.support.watch import BOUND, seen


@pytest.mark.parametrize("policy", ["fail", "retry"])
async def test_a_worker_killed_after_acceptance_loses_that_turn_visibly_and_no_other(fleet: Fleet, policy: str) -> None:
    """Section 9: the turn ends as lost, retried only if the policy says so; its idle session goes on elsewhere."""
    worker, _ = await fleet.start("w1")
    busy, idle = await fleet.opened(lost_turns=policy), await fleet.opened()
    await fleet.ran(idle)
    sent = [(await busy.send(text)).message_id for text in ("hold gate", "say next")]
    await seen(busy, "agent.running")
    await worker.kill()
    await fleet.worker("w2")
    await fleet.gate("gate")
    await fleet.ran(idle)
    await seen(busy, "turn.ended", turn="3" if policy == "retry" else "2")
    await busy.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(busy, *sent)
    turns = list(oracle.turns.values())
    again = [("completed", 2, sent[:1])] if policy == "retry" else []
    assert [(turn.reason, turn.attempt, turn.messages) for turn in turns] == [
        ("lost", 1, sent[:1]), *again, ("completed", 1, sent[1:]),
    ]  # fmt: skip
    assert [oracle.workers[turn.execution_id] for turn in turns] == ["w1"] + ["w2"] * (len(turns) - 1)
    assert [turn.reason for turn in (await fleet.judged(idle)).turns.values()] == ["completed", "completed"]


async def test_a_worker_killed_before_acceptance_gives_the_prompt_back_first_in_line(fleet: Fleet) -> None:
    """Nobody has acted on it: it runs again under a new generation, before what was sent after it."""
    worker, _ = await fleet.start("w1")
    session = await fleet.opened()
    await fleet.ran(session)
    sent = [(await session.send(text)).message_id for text in ("shy gate\nsay first", "say second")]
    await worker.says("prompted 2")
    await worker.kill()
    await fleet.worker("w2")
    await fleet.gate("gate")
    await seen(session, "turn.ended", turn="4")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.generation, turn.attempt, turn.text) for turn in oracle.turns.values()] == [
        ("completed", 1, 1, "hello"), ("lost", 2, 1, ""), ("completed", 3, 2, "first"), ("completed", 4, 1, "second"),
    ]  # fmt: skip


async def test_a_worker_killed_while_an_agent_starts_costs_nothing_but_time(fleet: Fleet) -> None:
    """Wake-latch G14: the activity is placed again when the lease has run out."""
    slow = await fleet.worker("w1", agent="tests.faults.agents:slow_start")
    await fleet.replica()
    session = await fleet.opened()
    sent = (await session.send("say hello")).message_id
    await slow.says(rf"agent {session.id} \S+ starts")
    await slow.kill()
    await fleet.worker("w2")
    await seen(session, "turn.ended")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, sent)
    assert [(turn.reason, turn.attempt) for turn in oracle.turns.values()] == [("completed", 1)]
    # The first activity ended with its worker, and a new one began: both are told.
    assert oracle.intervals == [[], [1]]
    assert list(oracle.workers.values()) == ["w2"]


async def test_a_worker_killed_between_two_turns_loses_neither(fleet: Fleet) -> None:
    """Wake-latch 4.5, killed after a turn's end: what it would have claimed next is claimed by another."""
    worker, _ = await fleet.start("w1")
    session = await fleet.opened()
    sent = [(await session.send(text)).message_id for text in ("hold gate", "say two")]
    await seen(session, "agent.running")
    # Under the guard turn 1 can end, and its driver can't claim the next.
    async with session.guard(timeout=5):
        await fleet.gate("gate")
        await seen(session, "turn.ended", turn="1")
        await worker.kill()
        await fleet.worker("w2")
    await seen(session, "turn.ended", turn="2")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [(turn.reason, turn.attempt) for turn in oracle.turns.values()] == [("completed", 1), ("completed", 1)]
    assert list(oracle.workers.values()) == ["w1", "w2"]


@pytest.mark.parametrize("settings_options", [{"placement": 30.0}])
async def test_a_send_to_a_session_that_lived_on_a_dead_worker_waits_for_its_lease_at_most(fleet: Fleet) -> None:
    """Section 9: until the lease runs out the dead worker is hinted; then its activity is offered to all, at once."""
    worker, _ = await fleet.start("w1")
    session = await fleet.opened()
    await fleet.ran(session)
    await fleet.worker("w2")
    await worker.kill()
    await fleet.ran(session)
    oracle = await fleet.judged(session)
    assert [turn.reason for turn in oracle.turns.values()] == ["completed", "completed"]
    assert list(oracle.workers.values()) == ["w1", "w2"]
