"""Bounding and ending tasks that talk to Redis.

In Python 3.11 `asyncio.wait_for`, which redis-py sends with, can swallow a cancellation that arrives just as the
sending ends. So one `cancel()` may be lost, and with it the timeout that made it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
_AGAIN: Final = 0.5


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
