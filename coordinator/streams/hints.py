"""Hints: one subscriber connection a process, serving everybody who waits for a session to change.

A hint only says "look again". A waiter looks first, then after every hint, after each (re)subscription and
after every heartbeat, so a lost hint, or a lost connection, costs at most one heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar

from coordinator.domain.errors import StoreUnavailable
from coordinator.streams.backoff import Backoff
from coordinator.streams.waiting import bounded, end

T = TypeVar("T")
logger = logging.getLogger(__name__)

_QUIET: Final = 5.0
"""Seconds without a message after which the link is probed, or given back when nobody waits."""


class Subscriber(Protocol):
    """What is used of redis-py's pub/sub object."""

    async def subscribe(self, *channels: str) -> object:
        """Ask for these channels."""

    async def unsubscribe(self, *channels: str) -> object:
        """Ask for these channels no more."""

    async def ping(self) -> object:
        """Make the server answer."""

    async def get_message(self, *, timeout: float) -> dict[str, Any] | None:  # noqa: ASYNC109 - redis-py's name
        """Give the next message, or None when none came within `timeout` seconds."""

    async def aclose(self) -> None:
        """Give the connection back."""


class Waiter:
    """One party that waits for changes of one session. Made by `Hints.waiter`."""

    def __init__(self, heartbeat: float) -> None:
        self._heartbeat = heartbeat
        self._event = asyncio.Event()

    async def changed(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - a bound, and no error
        """Return when it is worth looking again: hint, (re)subscription, heartbeat, or `timeout` seconds."""
        bound = self._heartbeat if timeout is None else min(self._heartbeat, max(timeout, 0.0))
        try:
            async with asyncio.timeout(bound):
                await self._event.wait()
        except TimeoutError:
            pass
        # Cleared before the caller looks, so a hint that comes during the look wakes it again.
        self._event.clear()

    def wake(self) -> None:
        """Make `changed` return, now or at its next call."""
        self._event.set()


class Hints:
    """The subscriptions of one process. Connects when the first waiter comes, and not before."""

    def __init__(self, connect: Callable[[], Subscriber], channel: Callable[[str], str], *, heartbeat: float) -> None:
        self._connect = connect
        self._channel = channel
        self._heartbeat = heartbeat
        self._waiters: dict[str, set[Waiter]] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._backoff = Backoff(first=0.1, most=5.0)

    @contextmanager
    def waiter(self, session_id: str) -> Iterator[Waiter]:
        """Subscribe to a session's hints for the length of the body; waiters of one session share it."""
        channel, waiter = self._channel(session_id), Waiter(self._heartbeat)
        self._waiters.setdefault(channel, set()).add(waiter)
        self._start()
        self._changed.set()
        try:
            yield waiter
        finally:
            self._waiters[channel].discard(waiter)
            if not self._waiters[channel]:
                del self._waiters[channel]
                self._changed.set()

    async def until(
        self,
        session_id: str,
        look: Callable[[], Awaitable[T | None]],
        timeout: float | None,  # noqa: ASYNC109 - the public name
        what: str,
    ) -> T:
        """Look again at every change until `look` gives something, and return that.

        `look` only reads: it may be cut short. While the store can't be reached the wait goes on, up to its
        own `timeout` in seconds. Raises `TimeoutError` when it is over, and `StoreUnavailable` if the store could not
        be asked then, or at once when there is no timeout.
        """
        unreachable: list[StoreUnavailable] = []

        async def wait() -> T:
            with self.waiter(session_id) as waiter:
                while True:
                    try:
                        found = await look()
                        unreachable.clear()
                    except StoreUnavailable as error:
                        if timeout is None:
                            raise
                        found, unreachable[:] = None, [error]
                    if found is not None:
                        return found
                    await waiter.changed()

        try:
            return await bounded(wait(), timeout, what)
        except TimeoutError as error:
            raise (unreachable[0] if unreachable else error) from None

    @property
    def subscriptions(self) -> int:
        """How many sessions somebody waits for now."""
        return len(self._waiters)

    async def aclose(self) -> None:
        """End the subscriber connection. Who still waits goes on by heartbeats."""
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    def _start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="coordinator-hints")

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._waiters:
                continue
            try:
                await self._serve()
            except Exception as error:  # noqa: BLE001 - without hints the heartbeats go on, whatever failed
                delay = self._backoff.next()
                logger.warning("hints are off, waits go on by heartbeat; next attempt in %.1f s: %s", delay, error)
                await asyncio.sleep(delay)
                self._changed.set()

    async def _serve(self) -> None:
        """Keep one connection's subscriptions at what is wanted, until nobody wants any or it breaks.

        Only this task sends subscriptions and only `_read` reads, so the two never open the link at once.
        """
        subscriber = self._connect()
        subscribed: set[str] = set()
        reading: asyncio.Task[None] | None = None
        try:
            while reading is None or not reading.done():
                await self._align(subscriber, subscribed)
                reading = reading or asyncio.create_task(self._read(subscriber), name="coordinator-hints-read")
                changed = asyncio.create_task(self._changed.wait())
                try:
                    await asyncio.wait({reading, changed}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
            reading.result()
        finally:
            if reading is not None:
                await end(reading)
            await subscriber.aclose()
            # What came while the link was being given up must not wait for the next change.
            if self._waiters:
                self._changed.set()

    async def _align(self, subscriber: Subscriber, subscribed: set[str]) -> None:
        self._changed.clear()
        wanted = set(self._waiters)
        if gone := subscribed - wanted:
            await subscriber.unsubscribe(*gone)
            subscribed -= gone
        if new := wanted - subscribed:
            await subscriber.subscribe(*new)
            subscribed |= new

    async def _read(self, subscriber: Subscriber) -> None:
        probed = False
        while True:
            message = await subscriber.get_message(timeout=_QUIET)
            if message is not None:
                self._backoff.succeeded()
                probed = False
                if message["type"] in {"message", "subscribe"}:
                    for waiter in self._waiters.get(message["channel"], ()):
                        waiter.wake()
            elif not self._waiters:
                return
            elif probed:
                raise ConnectionError("the server did not answer on the subscriber connection")
            else:
                probed = True
                await subscriber.ping()
