"""A guard holder's prompt, from putting it first to its acceptance, each wait with a bound."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from coordinator.domain.errors import MessageNotPending, OutcomeUnknown, PredecessorPending
from coordinator.domain.records import Receipt
from coordinator.services import Kernel
from coordinator.streams.hints import Hints
from coordinator.streams.waiting import bounded
from coordinator.turn import Dispatch, Turn


async def dispatch(
    kernel: Kernel,
    hints: Hints,
    session_id: str,
    put: Callable[..., Awaitable[Receipt]],
    bound: float,
    message_id: str,
) -> Turn:
    """Put a prompt first once nothing is owed, and wait until it is accepted. Raises as `Guard.prompt`."""
    until, settings = time.monotonic() + bound, kernel.store.settings
    patience = min(bound, settings.predecessor_wait)

    async def attempt() -> Receipt | PredecessorPending:
        try:
            return await put(message_id=message_id)
        except PredecessorPending as error:
            return error

    async def look() -> Receipt | None:
        found = await attempt()
        return found if isinstance(found, Receipt) else None

    try:
        await hints.until(session_id, look, patience, f"waiting for the prompt before {message_id}")
    except TimeoutError:
        # It may have been put in the moment in which the wait ended; its repeat tells.
        found = await attempt()
        if isinstance(found, PredecessorPending):
            raise found from None
    return await _accepted(kernel, hints, session_id, message_id, until, settings.acceptance)


async def _accepted(
    kernel: Kernel, hints: Hints, session_id: str, message_id: str, until: float, acceptance: float
) -> Turn:
    prompt = Dispatch(kernel, hints, session_id, message_id)
    what = f"waiting for the acceptance of {message_id}"
    try:
        return await bounded(prompt.accepted(), max(0.0, until - time.monotonic()), what)
    except TimeoutError:
        pass
    try:
        await kernel.inbox.remove(session_id, message_id)
    except MessageNotPending:
        # The claim has won: from here on the acceptance has a deadline of its own in Redis.
        pass
    else:
        seen = await kernel.snapshots.read(session_id)
        why = f"generation {seen.generation} of {seen.execution_id or 'no execution'}, waiting for {seen.waiting_for}"
        raise PredecessorPending(
            f"no turn has taken prompt {message_id} of session {session_id} in time ({why}); it was withdrawn and "
            "nothing was changed, so it may be tried again"
        )
    try:
        return await bounded(prompt.accepted(), acceptance, what)
    except TimeoutError:
        raise OutcomeUnknown(
            f"a turn of session {session_id} took prompt {message_id}, and no agent has accepted it yet; "
            "look at the session before it is sent again"
        ) from None
