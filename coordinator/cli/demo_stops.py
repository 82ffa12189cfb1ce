"""The demo's scenes about stopping: a queue, a wake, a late predecessor, an agent that does not listen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from coordinator.cli.demo_stage import Stage
    from coordinator.domain.records import LogEntry, Snapshot

QUEUED: Final = "task-1"
REPLACED: Final = "task-2"


async def stop_with_a_queue(stage: Stage) -> None:
    """A turn is stopped while messages are queued."""
    await _at_work(stage, QUEUED, "hold never")
    waiting = [await stage.send(QUEUED, f"say queued {number}") for number in (1, 2)]
    ticket = await stage.coord.session(QUEUED).cancel()
    outcome = await ticket.outcome()
    seen = await _at_rest(stage, QUEUED)
    stage.expect(
        f"{QUEUED}: stopped ({outcome}); its {len(seen.inbox.next_turn)} queued messages are parked",
        holds=outcome == "cancelled" and len(seen.inbox.next_turn) == len(waiting),
    )
    last = await stage.send(QUEUED, "say and the one that woke it")
    results = [await stage.result(QUEUED, receipt) for receipt in (*waiting, last)]
    turns = [result.turn for result in results]
    stage.expect(
        f"{QUEUED}: the next message wakes it; turns {', '.join(map(str, turns))} run, in the order of the queue",
        holds=turns == sorted(turns) and all(result.reason == "completed" for result in results),
    )


async def wake_during_a_stop(stage: Stage) -> None:
    """A message comes while a turn is being stopped."""
    parked = await _at_work(stage, QUEUED, "late 0.5", "hold never")
    ticket = await stage.coord.session(QUEUED).cancel()
    receipt = await stage.send(QUEUED, "say here is the answer")
    stage.expect(
        f"{QUEUED}: turn {parked.open_turn} is told to end and takes its time; a message comes, {receipt.placement}",
        holds=receipt.placement == "latched" and (await stage.see(QUEUED)).cancel_pending,
    )
    outcome = await ticket.outcome()
    result = await stage.result(QUEUED, receipt)
    stage.expect(
        f"{QUEUED}: the stop ended ({outcome}), and turn {result.turn} ran by itself: {result.text}",
        holds=result.reason == "completed" and result.turn == parked.open_turn + 1,
    )


async def late_predecessor(stage: Stage) -> None:
    """A turn is replaced, and its agent completes it long after its time."""
    bound = stage.coord.settings.cancel_timeout
    old = await _at_work(stage, REPLACED, f"late {bound + 0.7:g}", "hold never")
    receipt = await stage.replace(REPLACED, "say the replacement", "hold replaced", "say ended by itself")
    outcome = await stage.coord.session(REPLACED).ticket(receipt.message_id).outcome()
    turn = (await stage.until(REPLACED, "inbox.claimed", message_id=receipt.message_id)).fields["turn"]
    await stage.until(REPLACED, "agent.running", turn=turn)
    now = await stage.see(REPLACED)
    stage.expect(
        f"{REPLACED}: generation {old.generation} said nothing for {bound:g} s ({outcome}); generation "
        f"{now.generation} runs on a new execution",
        holds=outcome == "escalated" and now.execution_id != old.execution_id,
    )
    await _stale(stage, REPLACED, old, now)
    await stage.let_go("replaced")
    result = await stage.result(REPLACED, receipt)
    stage.expect(
        f"{REPLACED}: turn {result.turn} {result.reason} with its own text",
        holds=result.reason == "completed" and result.text.endswith("ended by itself"),
    )


async def ignored_stop(stage: Stage) -> None:
    """An agent ignores the stop."""
    old = await _at_work(stage, REPLACED, "late 0.8", "ignore-cancel", "hold never")
    ticket = await stage.coord.session(REPLACED).cancel()
    outcome = await ticket.outcome()
    suspect = await stage.until(REPLACED, "error", execution_id=old.execution_id)
    stage.expect(
        f"{REPLACED}: it did not answer ({outcome}); its execution is a suspect: {suspect.fields['message']}",
        holds=outcome == "escalated",
    )
    receipt = await stage.send(REPLACED, "say a fresh start", "hold fresh")
    turn = (await stage.until(REPLACED, "inbox.claimed", message_id=receipt.message_id)).fields["turn"]
    await stage.until(REPLACED, "agent.running", turn=turn)
    now = await stage.see(REPLACED)
    await _stale(stage, REPLACED, old, now)
    await stage.let_go("fresh")
    result = await stage.result(REPLACED, receipt)
    used = [entry.fields["execution_id"] async for entry in _starts(stage, REPLACED, after=old.open_turn)]
    stage.expect(
        f"{REPLACED}: turn {result.turn} {result.reason} on another execution; the old one was never used again",
        holds=result.reason == "completed" and old.execution_id not in used and len(used) > 0,
    )


async def _at_work(stage: Stage, session_id: str, *lines: str) -> Snapshot:
    """Start a turn and wait until its agent has said so, and with it begun to do the lines."""
    receipt = await stage.send(session_id, "say at work", *lines)
    turn = (await stage.until(session_id, "inbox.claimed", message_id=receipt.message_id)).fields["turn"]
    await stage.until(session_id, "output", turn=turn)
    return await stage.see(session_id)


async def _at_rest(stage: Stage, session_id: str) -> Snapshot:
    await stage.coord.session(session_id).wait_idle(timeout=10)
    return await stage.see(session_id)


async def _stale(stage: Stage, session_id: str, old: Snapshot, now: Snapshot) -> None:
    """Wait for the late completion of the old prompt, and see that the new one runs on."""
    stale = await stage.until(session_id, "ready.stale", generation=str(old.generation))
    still = await stage.see(session_id)
    stage.expect(
        f"{session_id}: generation {old.generation} completes late and is stale, because of its "
        f"{stale.fields['why']}; turn {still.open_turn} runs on",
        holds=still.open_turn == now.open_turn and still.generation == now.generation,
    )


async def _starts(stage: Stage, session_id: str, *, after: int) -> AsyncIterator[LogEntry]:
    async for entry in stage.coord.session(session_id).history():
        if entry.type == "turn.started" and int(entry.fields["turn"]) > after:
            yield entry
