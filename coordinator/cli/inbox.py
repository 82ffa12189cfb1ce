"""`coordinator inbox`: what is in line, and its edits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.cli.connecting import connected
from coordinator.cli.inspection import objects, short
from coordinator.cli.messages import text_of
from coordinator.cli.output import builtins

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.domain.records import InboxEntry
    from coordinator.inbox import SessionInbox


async def inbox(options: Namespace, out: Output) -> None:
    """List pending and in-flight messages in their order, or edit a pending one."""
    async with connected(options, out) as coord:
        session = coord.session(options.session)
        if options.action:
            await _edit(session.inbox, options, out)
            return
        found = (await session.snapshot()).inbox
    places = (("in-flight", found.in_flight), ("next-step", found.next_step), ("next-turn", found.next_turn))
    if out.json:
        for place, entries in places:
            objects(({**builtins(entry), "in_flight": place == "in-flight"} for entry in entries), out)
        return
    out.table(
        ("place", "sequence", "message", "state", "attempt", "sender", "text"),
        (
            (
                place,
                entry.sequence,
                entry.message_id,
                _state(place, entry),
                entry.attempt,
                entry.sender,
                short(entry.body),
            )
            for place, entries in places
            for entry in entries
        ),
        empty="the inbox is empty",
    )


async def _edit(inbox: SessionInbox, options: Namespace, out: Output) -> None:
    message, operation_id = getattr(options, "message", ""), options.operation_id
    match options.action:
        case "remove":
            await inbox.remove(message, operation_id=operation_id)
            told = f"{message} removed"
        case "replace":
            await inbox.replace(message, await text_of(options.text), operation_id=operation_id)
            told = f"{message} has another text"
        case "move":
            await inbox.move(message, before=options.before, operation_id=operation_id)
            told = f"{message} moved {f'before {options.before}' if options.before else 'to the end of its list'}"
        case "steer":
            await inbox.steer(message, operation_id=operation_id)
            told = f"{message} moved to next-step"
        case _:
            await inbox.clear(operation_id=operation_id)
            told = "everything pending is discarded"
    if out.json:
        out.record({"session_id": inbox.session_id, "action": options.action, "message_id": message})
    else:
        out.line(told)


def _state(place: str, entry: InboxEntry) -> str:
    if place == "in-flight":
        return "in its turn"
    if entry.awake:
        return "awake"
    return "parked" if entry.wake else "not waking"
