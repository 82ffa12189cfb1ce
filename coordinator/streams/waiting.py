"""Bounding, ending and finishing tasks that talk to Redis.

In Python 3.11 `asyncio.wait_for`, which redis-py sends with, can swallow a cancellation that arrives just as the
sending ends. So one `cancel()` may be lost, and with it the timeout that made it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from coordinator.domain.errors import CoordinatorError

T = TypeVar("T")
logger = logging.getLogger(__name__)

_AGAIN: Final = 0.5
_FINISH: Final = 5.0
"""Seconds that somebody's way out waits for a clean-up which Redis does by itself, later."""
_finishing: set[asyncio.Task[None]] = set()


async def end(task: asyncio.Task[Any]) -> None:
    """Cancel a task until it has ended, however it ends."""
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_AGAIN)


async def bounded(
    wait: Coroutine[Any, Any, T],
    timeout: float | None,  # noqa: ASYNC109 - the public name
    what: str,
) -> T:
    """Run a wait for at most `timeout` seconds. Raises `TimeoutError`, whose text says that `what` took too long."""
    task = asyncio.create_task(wait)
    try:
        await asyncio.wait({task}, timeout=timeout)
    finally:
        await end(task)
    if task.cancelled():
        raise TimeoutError(f"{what} took longer than {timeout:g} seconds; nothing was undone by that")
    return task.result()


async def finish(work: Coroutine[Any, Any, object], what: str) -> None:
    """Run a clean-up to its end although the caller is cancelled, waiting for at most 5 seconds; failures are logged.

    For what a lease in Redis covers as well.
    """
    task = asyncio.create_task(_quietly(work, what))
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    # Not wait_for: a caller's cancellation goes through, and the task goes on.
    _, late = await asyncio.wait({task}, timeout=_FINISH)
    if late:
        logger.warning("%s: not done in time", what)


async def _quietly(work: Coroutine[Any, Any, object], what: str) -> None:
    try:
        await work
    except CoordinatorError as error:
        logger.warning("%s: %s", what, error)
