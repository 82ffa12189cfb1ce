"""The commands that move a session along: prompt, reset, move, signal, answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.cli.connecting import connected
from coordinator.cli.messages import answered, opened, text_of

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.turn import Turn

_MOVED = {
    "applied": "moved to step {step}",
    "pending": "moves to step {step} as soon as what is under way is settled",
}


async def prompt(options: Namespace, out: Output) -> None:
    """Put a prompt first and wait until it is accepted; opens an unknown session with the default policy."""
    text = await text_of(options.text)
    async with connected(options, out) as coord:
        session = coord.session(options.session)

        async def put() -> Turn:
            return await session.prompt(
                text, timeout=options.timeout, message_id=options.message_id, sender=options.sender or None
            )

        async with out.progress(f"waiting until an agent of {options.session} accepts"):
            turn = await opened(session, put)
    if out.json:
        names = ("session_id", "message_id", "turn", "generation")
        out.record({name: getattr(turn, name) for name in names})
    else:
        out.line(f"{turn.message_id} accepted: turn {turn.turn}, generation {turn.generation}")


async def reset(options: Namespace, out: Output) -> None:
    """Reset a session's context and wait for the end of that."""
    async with connected(options, out) as coord, out.progress(f"waiting for the reset of {options.session}"):
        await coord.session(options.session).reset(timeout=options.timeout, operation_id=options.operation_id)
    if out.json:
        out.record({"session_id": options.session, "reset_outcome": "committed"})
    else:
        out.line(f"{options.session} has a fresh context")


async def move(options: Namespace, out: Output) -> None:
    """Move a session to a step."""
    async with connected(options, out) as coord:
        session = coord.session(options.session)
        before = await session.snapshot()
        outcome = await session.move(options.step, defer=options.defer, operation_id=options.operation_id)
    if out.json:
        out.record({"session_id": options.session, "step": options.step, "outcome": outcome})
    elif outcome == "applied" and before.step == options.step and not before.step_failed:
        out.line(f"{options.session} is at step {options.step} already, and does not enter it again")
    else:
        out.line(f"{options.session} {_MOVED[outcome].format(step=options.step)}")


async def signal(options: Namespace, out: Output) -> None:
    """Signal a session's present step."""
    async with connected(options, out) as coord:
        session = coord.session(options.session)
        await session.signal()
        seen = await session.snapshot()
        step = (await coord.kernel.workflows.published(seen.workflow, seen.step)).step
    if out.json:
        out.record({"session_id": options.session, "signalled": True})
    elif step is None:
        out.line(f"{options.session}: step {seen.step} is signalled, but is no published step: its turns lead nowhere")
    elif step.requires_signal:
        out.line(f"{options.session}: the present step is signalled; the next turn's end may leave it")
    else:
        out.line(f"{options.session}: step {seen.step} is signalled, but waits for no signal (no requires_signal)")


async def answer(options: Namespace, out: Output) -> int:
    """Answer a question; with --wait, print the end of the turn that got the answer."""
    text = await text_of(options.text)
    async with connected(options, out) as coord:
        session = coord.session(options.session)
        receipt = await session.answer(
            options.question_id, text, message_id=options.message_id, sender=options.sender or None
        )
        return await answered(session, receipt, options, out)
