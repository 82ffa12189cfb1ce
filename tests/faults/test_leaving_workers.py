"""Workers that were paused past their lease, or are asked to leave: no zombie counts, and a drain is orderly."""

from __future__ import annotations

import signal

import pytest

from tests.faults.conftest import Fleet
from tests.support.processes import Process
from tests.support.watch import BOUND, seen


async def test_what_a_zombie_says_does_not_count_and_its_agents_are_stopped(fleet: Fleet) -> None:
    """Invariants 4, 13: paused in two turns past its lease; both complete late, one while its successor runs.

    The one that waits for ever hears from the heartbeat that it is nobody's, and says that it has completed then.
    """
    zombie, _ = await fleet.start("w1")
    session, silent = await fleet.opened(), await fleet.opened()
    sent = (await session.send("hold gate\nsay from the dead")).message_id
    await silent.send("hold never")
    await seen(session, "agent.running")
    await seen(silent, "agent.running")
    zombie.pause()
    await seen(session, "turn.ended", reason="lost")
    await fleet.gate("gate")
    assert (await session.snapshot()).suspects
    await fleet.worker("w2")
    await session.send("hold next\nsay alive")
    await seen(session, "agent.running", turn="2")
    zombie.resume()
    await seen(session, "ready.stale", generation="1", why="execution")
    await zombie.says(rf"agent {session.id} \S+ stops")
    await zombie.says(rf"agent {silent.id} \S+ cancelled superseded")
    await zombie.says(rf"agent {silent.id} \S+ completes late, in vain")
    await fleet.gate("next")
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, sent)
    assert [(turn.reason, turn.text) for turn in oracle.turns.values()] == [("lost", ""), ("completed", "alive")]
    assert [turn.reason for turn in (await fleet.judged(silent)).turns.values()] == ["lost"]
    # It is a worker like any other again, and nothing is left of its past.
    await fleet.ran(await fleet.opened())
    assert zombie.returncode is None
    assert ((await session.snapshot()).suspects, (await session.snapshot()).worker_id) == ((), "w2")


async def test_a_drain_lets_the_running_turn_end_and_gives_everything_else_up(fleet: Fleet) -> None:
    """Section 9: idle executions are released at once, queued work moves, the worker ends with 0."""
    leaving, _ = await fleet.start("w1")
    busy, idle = await fleet.opened(), await fleet.opened()
    await fleet.ran(idle)
    sent = [(await busy.send(text)).message_id for text in ("hold gate\nsay one", "say two")]
    await seen(busy, "agent.running")
    await fleet.worker("w2")
    leaving.signal(signal.SIGTERM)
    await seen(idle, "agent.stopped")
    await fleet.ran(idle)
    assert leaving.returncode is None
    await fleet.gate("gate")
    assert await leaving.ended() == 0
    await seen(busy, "turn.ended", turn="2")
    await busy.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(busy, *sent)
    assert [(turn.reason, turn.text, oracle.workers[turn.execution_id]) for turn in oracle.turns.values()] == [
        ("completed", "one", "w1"), ("completed", "two", "w2"),
    ]  # fmt: skip
    assert list((await fleet.judged(idle)).workers.values()) == ["w1", "w2"]
    assert [row.worker_id for row in await fleet.coord.workers()] == ["w2"]


@pytest.mark.parametrize("accepted", [True, False])
async def test_a_second_sigterm_hurries_and_what_it_interrupts_is_treated_like_a_loss(
    fleet: Fleet, accepted: bool
) -> None:
    """Section 9: accepted, the turn has ended as interrupted; not accepted, its prompt goes back and runs elsewhere."""
    leaving, _ = await fleet.start("w1")
    busy, idle = await fleet.opened(), await fleet.opened()
    await fleet.ran(idle)
    sent = (await busy.send("hold gate" if accepted else "shy gate\nsay one")).message_id
    await leaving.says(rf"agent {busy.id} \S+ prompted")
    await fleet.worker("w2")
    leaving.signal(signal.SIGTERM)
    await seen(idle, "agent.stopped")
    leaving.signal(signal.SIGTERM)
    assert await leaving.ended(timeout=10) == 0
    await fleet.gate("gate")
    await busy.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(busy, sent)
    again = [] if accepted else [("completed", 2, "w2")]
    assert [(turn.reason, turn.attempt, oracle.workers[turn.execution_id]) for turn in oracle.turns.values()] == [
        ("interrupted", 1, "w1"), *again,
    ]  # fmt: skip
    assert "stops" in _said_last(leaving)
    assert (await busy.snapshot()).suspects == ()


def _said_last(process: Process) -> str:
    return [line for line in process.lines if line.startswith("agent ")][-1]


async def test_turns_that_no_drain_can_wait_for_are_interrupted_at_its_end(fleet: Fleet) -> None:
    """The bound `drain`: one SIGTERM is enough."""
    session = await fleet.opened()
    worker = await fleet.worker(agent="workers.agents.scripted:agent", drain=0.2)
    await fleet.replica()
    await session.send("ignore-cancel\nhold gate")
    await seen(session, "agent.running")
    assert await worker.terminate(timeout=10) == 0
    await session.wait_idle(timeout=BOUND)
    assert [turn.reason for turn in (await fleet.judged(session)).turns.values()] == ["interrupted"]
