"""Watching a session through the public interface, until its log shows something; and having it judged."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, TypeVar

from coordinator.domain.records import LogEntry
from tests.support.verdict import at_rest, examine

if TYPE_CHECKING:
    from coordinator.client import Coordinator
    from coordinator.session import Session
    from tests.support.oracle import Oracle

T = TypeVar("T")
BOUND: Final = 25.0
"""Seconds that a test waits for anything at most."""


async def seen(session: Session, kind: str, after: str = "0", *, timeout: float = BOUND, **fields: str) -> LogEntry:
    """Follow the log until it shows an entry of this type with these fields."""
    try:
        async with asyncio.timeout(timeout), aclosing(session.follow(after)) as entries:
            async for entry in entries:
                if entry.type == kind and fields.items() <= entry.fields.items():
                    return entry
    except TimeoutError:
        pass
    raise AssertionError(f"no {kind} {fields} in the log of {session.id}: {await told(session)}")


async def told(session: Session, *kinds: str) -> list[str]:
    """The log in short: types of entries, a status by its word; only some types if they are named."""
    entries = [entry async for entry in session.history() if not kinds or entry.type in kinds]
    return [entry.fields["status"] if entry.type == "session.status" else entry.type for entry in entries]


async def eventually(look: Callable[[], Awaitable[T | None]]) -> T:
    """Look again until it gives something; for what nobody hints."""
    async with asyncio.timeout(BOUND):
        while True:
            if found := await look():
                return found
            await asyncio.sleep(0.02)


async def judged(coord: Coordinator, session: Session, *sent: str, rests: bool = True) -> Oracle:
    """Let the oracle judge a session, which broke no rule; at its end unless it does not rest."""
    if rests:
        await session.wait_idle(BOUND)
    oracle = await examine(coord.kernel, session.id, sent=sent)
    assert not oracle.violations, oracle.violations
    assert not rests or at_rest(oracle) == []
    return oracle
