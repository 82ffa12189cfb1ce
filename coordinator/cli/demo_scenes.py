"""The demo's story, scene by scene. Each begins where the one before ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coordinator.cli.demo_flow import answered_question, step_with_a_reset
from coordinator.cli.demo_stage import CAPACITY, DemoFailed
from coordinator.cli.demo_stops import ignored_stop, late_predecessor, stop_with_a_queue, wake_during_a_stop
from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coordinator.cli.demo_stage import Stage

VICTIM: Final = "w1"


async def two_workers(stage: Stage) -> None:
    """Prompts in, turns out, on two workers."""
    hosts: list[str] = []
    # One worker can't hold more than its capacity, so both have their share before this ends.
    while len(hosts) < CAPACITY + 2 and not (hosts.count(VICTIM) > 1 and len(set(hosts)) > 1):
        session_id = f"task-{len(hosts) + 1}"
        await stage.open(session_id)
        receipt = await stage.send(session_id, f"say hello from {session_id}", "sleep 0.2", "say done")
        result = await stage.result(session_id, receipt)
        hosts.append((await stage.see(session_id)).worker_id)
        stage.expect(
            f"{session_id}: turn {result.turn} {result.reason} on {hosts[-1]}",
            holds=result.reason == "completed" and result.text.startswith(f"hello from {session_id}"),
        )
    stage.expect(f"work on {' and '.join(sorted(set(hosts)))}", holds=len(set(hosts)) > 1)


async def killed_worker(stage: Stage) -> None:
    """A worker is killed in the middle of a turn."""
    on_victim = [row.session_id for row in await stage.coord.sessions() if row.worker_id == VICTIM]
    on_victim.sort()
    hit = on_victim[0]
    running = await stage.send(hit, "say working on it", "hold never")
    turn = (await stage.until(hit, "inbox.claimed", message_id=running.message_id)).fields["turn"]
    await stage.until(hit, "agent.running", turn=turn)
    queued = await stage.send(hit, "say the next message, untouched")
    stage.view.say(f"{hit}: a turn is running on {VICTIM}, another message waits behind it")
    await stage.kill_worker(VICTIM)
    stage.view.say(f"killed {VICTIM} with SIGKILL; its lease runs out in {stage.coord.settings.lease:g} s")
    await stage.add_worker("w3")
    stage.view.say("started a new worker, w3")
    lost = await stage.result(hit, running)
    stage.expect(f"{hit}: turn {lost.turn} ended '{lost.reason}', for everybody to see", holds=lost.reason == "lost")
    after = await stage.result(hit, queued)
    host = (await stage.see(hit)).worker_id
    stage.expect(
        f"{hit}: turn {after.turn} took the waiting message, {after.reason} on {host}",
        holds=after.reason == "completed" and host != VICTIM,
    )
    for session_id in on_victim[1:2]:
        result = await stage.result(session_id, await stage.send(session_id, "say still here"))
        host = (await stage.see(session_id)).worker_id
        stage.expect(
            f"{session_id}: also was on {VICTIM}, idle; turn {result.turn} {result.reason} on {host}",
            holds=result.reason == "completed" and host != VICTIM,
        )


async def late_completion(stage: Stage) -> None:
    """The completion of an old generation arrives while a new turn runs."""
    hit, lost_turn = await _lost(stage)
    old = await stage.owner_of(hit, lost_turn)
    receipt = await stage.send(hit, "say the new turn", "hold curtain", "say ended by itself")
    await stage.until(hit, "inbox.claimed", message_id=receipt.message_id)
    now = await stage.see(hit)
    await stage.until(hit, "agent.running", turn=str(now.open_turn))
    # Sent as the killed worker would have sent it, had it only been paused: same script, same ownership.
    answer = await stage.coord.kernel.turns.finish(hit, old, now.activity, "completed", text="too late")
    stage.view.say(f"{hit}: generation {old.generation} reports completion while generation {now.generation} runs")
    stale = await stage.until(hit, "ready.stale", generation=str(old.generation))
    still = await stage.see(hit)
    stage.expect(
        f"{hit}: answered {answer.verdict}, because of its {stale.fields['why']}; turn {still.open_turn} runs on",
        holds=answer.verdict is Verdict.STALE and still.open_turn == now.open_turn and still.status == "running",
    )
    await stage.let_go("curtain")
    result = await stage.result(hit, receipt)
    stage.expect(
        f"{hit}: turn {result.turn} {result.reason} with its own text",
        holds=result.reason == "completed" and "ended by itself" in result.text and "too late" not in result.text,
    )
    counted = (await stage.coord.stats()).counters
    stage.expect(f"counted: stale {counted.get('stale', 0)}", holds=counted.get("stale", 0) > 0)


async def _lost(stage: Stage) -> tuple[str, int]:
    """Find the session and turn that were lost, in the logs."""
    for session_id, _ in stage.sent:
        async for entry in stage.coord.session(session_id).history():
            if entry.type == "turn.ended" and entry.fields["reason"] == "lost":
                return session_id, int(entry.fields["turn"])
    raise DemoFailed("no turn was lost")


SCENES: Final[tuple[Callable[[Stage], Awaitable[None]], ...]] = (
    two_workers,
    killed_worker,
    late_completion,
    stop_with_a_queue,
    wake_during_a_stop,
    late_predecessor,
    ignored_stop,
    answered_question,
    step_with_a_reset,
)
