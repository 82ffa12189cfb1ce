"""One call into agent code: in a task of its own, so that it can be given up on even if it never ends."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from coordinator.domain.texts import told

T = TypeVar("T")


class AgentStopped(Exception):
    """Raised when the agent's code ended by cancellation: the worker's, or its own."""


class AgentCrashed(Exception):
    """Raised for what agent code raised that is no Exception: left alone it ends its worker, or no turn ever."""


class AgentCall(Generic[T]):
    """A running call. `outcome` is what it returns or raises, or what `abandon` decided before."""

    __slots__ = ("outcome", "task")

    def __init__(self, work: Coroutine[Any, Any, T], name: str) -> None:
        self.outcome: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(work), name=name)

    def cancel(self) -> None:
        """Cancel the agent's code; it may take its time, or ignore it."""
        self.task.cancel()

    def abandon(self, error: Exception) -> None:
        """Give its outcome up; the code may still run, and what it returns is thrown away."""
        if not self.outcome.done():
            self.outcome.set_exception(error)
            # Nobody may be waiting for it: a driver that was told first looks no more.
            self.outcome.exception()

    async def within(self, seconds: float, cause: str) -> T:
        """Wait for the outcome; after `seconds` cancel the code and raise TimeoutError with `cause`."""
        timer = asyncio.get_running_loop().call_later(seconds, self._expire, cause)
        try:
            return await self.outcome
        finally:
            timer.cancel()

    def _expire(self, cause: str) -> None:
        self.abandon(TimeoutError(cause))
        self.cancel()

    async def _run(self, work: Coroutine[Any, Any, T]) -> None:
        outcome = self.outcome
        try:
            result = await work
        except asyncio.CancelledError:
            self.abandon(AgentStopped("The agent was stopped."))
        except Exception as error:  # noqa: BLE001 - whatever agent code raises is its outcome
            self.abandon(error)
        except BaseException as error:
            self.abandon(AgentCrashed(f"The agent's code raised {told(error)}."))
            # The end of an abandoned coroutine goes on; an agent that exits, or interrupts, ends no worker. A person's
            # Ctrl-C does not come this way: signals, and asyncio.run, end the worker's own task.
            if isinstance(error, GeneratorExit):
                raise
        else:
            if not outcome.done():
                outcome.set_result(result)
