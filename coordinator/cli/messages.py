"""The commands that change a session: open, send, steer, inject, close; and wait."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, TypeVar

from coordinator.cli.connecting import connected
from coordinator.cli.output import builtins
from coordinator.domain.errors import SessionUnknown, UsageError
from coordinator.domain.records import SessionPolicy

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from coordinator.cli.output import Output
    from coordinator.domain.records import Receipt
    from coordinator.session import Session

T = TypeVar("T")

_ENDED_WELL = frozenset({"completed", "max_tokens"})


async def open_(options: Namespace, out: Output) -> None:
    """Make a session, or change the policy of an open one."""
    policy = SessionPolicy(
        settlement=options.settlement,
        lost_turns=options.lost_turns,
        retries=options.retries,
        after_error=options.after_error,
        on_handler_failure=options.on_handler_failure,
    )
    async with connected(options, out) as coord:
        created = await coord.session(options.session).open(policy, workflow=options.workflow)
    if out.json:
        found = {"session_id": options.session, "created": created, "policy": builtins(policy)}
        out.record(found | ({"workflow": options.workflow} if options.workflow else {}))
    else:
        state = "opened" if created else "was open; its policy is now as given here, with defaults for the rest"
        out.line(f"{options.session} {state}{f', on workflow {options.workflow}' if options.workflow else ''}")


async def send(options: Namespace, out: Output) -> int:
    """Send a message to next-turn; opens an unknown session with the default policy."""
    text = await text_of(options.text)
    async with connected(options, out) as coord:
        session = coord.session(options.session)
        receipt = await opened(
            session,
            lambda: session.send(
                text,
                message_id=options.message_id,
                wake=options.wake,
                on_busy=options.on_busy,
                sender=options.sender or None,
            ),
        )
        return await answered(session, receipt, options, out)


async def opened(session: Session, put: Callable[[], Awaitable[T]]) -> T:
    """Put a message into a session, which is opened if nobody has: a policy that somebody chose stays as it is."""
    try:
        return await put()
    except SessionUnknown:
        await session.open()
        return await put()


async def answered(session: Session, receipt: Receipt, options: Namespace, out: Output) -> int:
    """Print the receipt, or with --wait the turn's end."""
    if not options.wait:
        show_receipt(receipt, out)
        return 0
    return await show_result(session, receipt, options.timeout, out)


async def steer(options: Namespace, out: Output) -> None:
    """Send a message to next-step."""
    text = await text_of(options.text)
    async with connected(options, out) as coord:
        show_receipt(await coord.session(options.session).steer(text, message_id=options.message_id), out)


async def inject(options: Namespace, out: Output) -> None:
    """Send a message to next-step that does not wake."""
    text = await text_of(options.text)
    async with connected(options, out) as coord:
        show_receipt(await coord.session(options.session).inject(text, message_id=options.message_id), out)


async def close(options: Namespace, out: Output) -> None:
    """Close a session."""
    async with connected(options, out) as coord:
        lifecycle = await coord.session(options.session).close()
    if out.json:
        out.record({"session_id": options.session, "lifecycle": lifecycle})
    else:
        out.line(f"{options.session} is {lifecycle}")


async def wait(options: Namespace, out: Output) -> None:
    """Wait until a session is at rest."""
    async with connected(options, out) as coord, out.progress(f"waiting until {options.session} is idle"):
        session = coord.session(options.session)
        await session.wait_idle(timeout=options.timeout)
        seen = await session.snapshot()
    if out.json:
        names = ("session_id", "lifecycle", "status", "phase", "turn", "generation", "last_reason")
        out.record({name: getattr(seen, name) for name in names})
    else:
        state = seen.status if seen.lifecycle == "open" else seen.lifecycle
        out.line(f"{options.session} is {state}, turn {seen.turn}")


async def show_result(session: Session, receipt: Receipt, timeout: float | None, out: Output) -> int:  # noqa: ASYNC109
    """Wait for the end of the message's turn and print it; 1 if it did not complete."""
    async with out.progress(f"waiting for the turn of {receipt.message_id}"):
        result = await session.result(receipt.message_id, timeout=timeout)
    well = result.reason in _ENDED_WELL
    if out.json:
        out.record({**builtins(receipt), **builtins(result)})
    elif result.text:
        out.line(result.text.rstrip("\n"))
    if not well:
        out.error("TurnFailed", f"turn {result.turn} ended {result.reason}{': ' if result.error else ''}{result.error}")
    return 0 if well else 1


def show_receipt(receipt: Receipt, out: Output) -> None:
    """Print what an accepted message was answered."""
    if out.json:
        out.record(receipt)
    else:
        again = ", a repeat: nothing was inserted" if receipt.duplicate else ""
        out.line(f"{receipt.message_id} {receipt.placement} (sequence {receipt.sequence}{again})")


async def text_of(given: str) -> str:
    """Give the text itself, or stdin's for `-`, without the newline that ends a pipe's last line."""
    if given != "-":
        return given
    data: bytes = await asyncio.to_thread(_stdin)
    try:
        return data.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise UsageError(f"stdin is not UTF-8 text: {error.reason} at byte {error.start}; send text only") from None


def _stdin() -> Any:
    return sys.stdin.buffer.read()
