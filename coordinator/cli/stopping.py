"""The commands that stop what runs: cancel, replace, interrupt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.cli.connecting import connected
from coordinator.cli.messages import answered, opened, show_receipt, text_of

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.domain.records import Receipt
    from coordinator.session import Session

_TOLD = {
    "cancelled": "stopped",
    "escalated": "did not answer the stop in time; its turn was ended, and its execution is not used again",
    "completed": "ended by itself, and its own reason stands",
    "lost": "was stopped, and how that ended is no longer known",
    "idle": "had nothing to stop",
}


async def cancel(options: Namespace, out: Output) -> None:
    """Stop what runs; with --wait, tell how that ended."""
    async with connected(options, out) as coord:
        ticket = await coord.session(options.session).cancel(
            keep_inbox=options.keep_inbox,
            kind=options.kind,
            expected_turn=options.expected_turn,
            expected_generation=options.expected_generation,
            operation_id=options.operation_id,
        )
        outcome = ticket.known
        if options.wait:
            async with out.progress(f"waiting until {options.session} is stopped"):
                outcome = await ticket.outcome(timeout=options.timeout)
        parked = 0 if out.json else await _parked(coord.session(options.session))
    if out.json:
        out.record({"session_id": options.session, "id": ticket.id, "outcome": outcome})
    elif outcome is None:
        out.line(f"{options.session} is being stopped (operation {ticket.id}); --wait tells how that ends")
    else:
        out.line(f"{options.session} {_TOLD[outcome]} ({outcome})")
    if parked:
        out.line(f"  {parked} queued messages are parked until one that wakes, such as the next `coordinator send`")


async def _parked(session: Session) -> int:
    inbox = (await session.snapshot()).inbox
    return sum(not entry.awake for entry in (*inbox.next_step, *inbox.next_turn))


async def replace(options: Namespace, out: Output) -> int:
    """Stop what runs and put a text, or pending messages, first; opens an unknown session."""
    text = None if options.text is None else await text_of(options.text)
    async with connected(options, out) as coord:
        session = coord.session(options.session)

        async def put() -> Receipt:
            return await session.replace(
                text,
                entries=options.entries,
                message_id=options.message_id,
                sender=options.sender or None,
                expected_turn=options.expected_turn,
                expected_generation=options.expected_generation,
            )

        # Where there is no session there are no entries either.
        receipt = await (put() if options.entries else opened(session, put))
        return await answered(session, receipt, options, out)


async def interrupt(options: Namespace, out: Output) -> None:
    """Stop what runs for a parent, park the queue, and put the parent's message first."""
    text = await text_of(options.text)
    async with connected(options, out) as coord:
        receipt = await coord.session(options.session).interrupt(
            text,
            message_id=options.message_id,
            sender=options.sender or None,
            expected_generation=options.expected_generation,
        )
    show_receipt(receipt, out)
