"""The worker's control channel: hints about its executions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from coordinator.store.listener import Listener
from coordinator.streams.backoff import Backoff

if TYPE_CHECKING:
    from redis.asyncio import Redis

logger = logging.getLogger(__name__)

_QUIET: Final = 5.0
"""Seconds without a message after which the link is probed."""


class Told(Protocol):
    """What a hint is passed on to. Each is a reason to look, never a fact."""

    def run(self, session_id: str, token: str) -> None:
        """An activity of one of its executions wants a driver, or may go on."""

    def abort(self, session_id: str, generation: int, cause: str) -> None:
        """The prompt of this generation is to be stopped."""

    def drop(self, session_id: str, execution_id: str) -> None:
        """The execution is no longer the session's."""

    def reset(self, session_id: str, reset_id: str) -> None:
        """The provider's session is to be replaced."""

    def answered(self, session_id: str) -> None:
        """A question of the session has its answer."""


class Control:
    """The subscription of one worker, on a connection of its own; renewed whenever it breaks."""

    def __init__(self, reader: Redis, channel: str, host: Told, look: Callable[[], None]) -> None:
        """`host` hears every hint; `look()` every new subscription, before which hints may be lost."""
        self._reader = reader
        self._channel = channel
        self._host = host
        self._look = look
        self.subscribed = asyncio.Event()

    async def run(self) -> None:
        """Listen until cancelled."""
        backoff = Backoff(first=0.05, most=2.0)
        while True:
            listener: Listener | None = None
            try:
                listener = await Listener.open(self._reader, self._channel, self._hear, _QUIET)
                backoff.succeeded()
                self.subscribed.set()
                self._look()
                await listener.run(_QUIET)
            except Exception as error:  # noqa: BLE001 - without hints the heartbeats go on, whatever failed
                delay = backoff.next()
                logger.warning("no control hints, work goes on by heartbeat; next attempt in %.2f s: %s", delay, error)
                await asyncio.sleep(delay)
            finally:
                self.subscribed.clear()
                if listener is not None:
                    await listener.close()

    def _hear(self, message: str) -> None:
        match message.split(" "):
            case ["run", session_id, token]:
                self._host.run(session_id, token)
            case ["abort", session_id, generation, _, cause] if generation.isdecimal():
                self._host.abort(session_id, int(generation), cause)
            case ["drop", session_id, execution_id]:
                self._host.drop(session_id, execution_id)
            case ["reset", session_id, reset_id]:
                self._host.reset(session_id, reset_id)
            case ["answer", session_id, _]:
                self._host.answered(session_id)
            case _:
                logger.debug("unknown control hint %.40r", message)
