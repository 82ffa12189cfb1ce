"""The demo's scenes about a workflow of two steps: a question on the way, and a fresh context in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.cli.demo_stage import Stage
    from coordinator.domain.records import TurnResult

FLOWING: Final = "flow-1"
WORKFLOW: Final = """\
[workflow.demo]
start = "implement"

[[workflow.demo.step]]
name = "implement"
prompt = "ask which database?\\ncontext"
auto_start = true
on_turn_complete = "next"
requires_signal = true

[[workflow.demo.step]]
name = "check"
prompt = "context"
auto_start = true
reset_agent_context = true
terminal = true
"""
_ANSWER: Final = "valkey"


async def answered_question(stage: Stage) -> None:
    """A session enters the first step of its workflow, and its agent asks something."""
    session = stage.coord.session(FLOWING)
    await session.open(workflow="demo")
    await _entered(stage, "implement")
    question = (await stage.until(FLOWING, "question.asked")).fields
    seen = await stage.see(FLOWING)
    stage.expect(
        f"{FLOWING}: entered step {seen.step}, whose prompt runs; turn {question['turn']} asks: {question['text']}",
        holds=(seen.step, seen.question) == ("implement", question["question_id"]),
    )
    receipt = await session.answer(seen.question, _ANSWER)
    stage.sent.append((FLOWING, receipt.message_id))
    result = await stage.result(FLOWING, receipt)
    settled = await stage.until(FLOWING, "turn.settled", turn=question["turn"])
    stage.expect(
        f"{FLOWING}: answered '{_ANSWER}' ({receipt.placement}); turn {result.turn} {result.reason}, and the session "
        f"{settled.fields['outcome']} at its step; {_context(result)}",
        holds=f"answer: {_ANSWER}" in result.text and settled.fields["outcome"] == "stayed",
    )


async def step_with_a_reset(stage: Stage) -> None:
    """The session is moved to a step that wants a fresh context, while a turn is active."""
    session = stage.coord.session(FLOWING)
    running = await session.prompt("say still at the first step\nhold never", timeout=15)
    stage.sent.append((FLOWING, running.message_id))
    queued = await stage.send(FLOWING, "say the queue, after the step's own prompt")
    moved = await session.move("check")
    entry = await _entered(stage, "check")
    stopped = await stage.until(FLOWING, "turn.ended", turn=str(running.turn))
    reset = await stage.until(FLOWING, "reset.committed")
    stage.expect(
        f"{FLOWING}: moved ({moved}); turn {running.turn} ended {stopped.fields['reason']}, then the context was reset "
        f"({reset.fields['reset_id']}), then step check was entered",
        holds=(moved, stopped.fields["reason"]) == ("applied", "cancelled") and stopped.id < reset.id,
    )
    first = await session.result(entry, timeout=15)
    after = await stage.result(FLOWING, queued)
    stage.expect(
        f"{FLOWING}: turn {first.turn}, the step's prompt, {first.reason}; {_context(first)}; turn {after.turn} then "
        "took the queue",
        holds=first.turn > running.turn and after.turn == first.turn + 1 and "turn 1 of" in first.text,
    )
    entries = [one.fields["step"] async for one in session.history() if one.type == "step.entered"]
    stage.expect(
        f"{FLOWING}: each step was entered once: {', '.join(entries)}", holds=entries == ["implement", "check"]
    )


def _context(result: TurnResult) -> str:
    """What the agent says of its context."""
    return next(line for line in result.text.splitlines() if line.startswith("context: "))


async def _entered(stage: Stage, step: str) -> str:
    """Wait until a step was entered, and note its prompt, whose message id this gives."""
    entry = await stage.until(FLOWING, "step.entered", step=step)
    message_id = f"entry-{entry.fields['entry_id']}"
    stage.sent.append((FLOWING, message_id))
    return message_id
