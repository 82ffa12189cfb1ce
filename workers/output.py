"""What one prompt streams, on its way to the log: batched, numbered, one write at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

from coordinator.domain.errors import Superseded

logger = logging.getLogger(__name__)

LIMIT: Final = 16 * 1024
"""Bytes of UTF-8 that one log entry holds at most."""
DELAY: Final = 0.02
"""Seconds that text waits for more before it is written."""


class Output:
    """The writer of one prompt's text.

    `write(number, text)` records one numbered piece and tells whether the prompt is still its owner's; it repeats
    itself until it is answered. `lost` is called once, when it is not.
    """

    __slots__ = ("_flight", "_lost", "_over", "_parts", "_size", "_timer", "_write", "number")

    def __init__(self, write: Callable[[int, str], Awaitable[bool]], lost: Callable[[], None]) -> None:
        self._write = write
        self._lost = lost
        self._parts: list[str] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._flight: asyncio.Task[None] | None = None
        self._over = ""
        self.number = 0
        """Of the newest piece sent; from 1 on the prompt is accepted."""

    def check(self) -> None:
        """Raise Superseded, with the reason, if nothing is taken any more."""
        if self._over:
            raise Superseded(self._over)

    async def accept(self) -> bool:
        """Record the acceptance without text. False when the prompt is no longer its owner's."""
        if not self.number:
            self.number = 1
            if not await self._write(1, ""):
                self.supersede()
        return not self._over

    async def emit(self, text: str) -> None:
        """Take text; wait only while a full batch is being written. Raises Superseded."""
        self.check()
        self._parts.append(text)
        self._size += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        if self._size >= LIMIT:
            await self.flush()
        elif self._timer is None and self._flight is None:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self.start)

    def start(self, *, acceptance: bool = False) -> None:
        """Begin to write what is there, without waiting for it; with `acceptance` also if that is nothing."""
        self._disarm()
        if self._flight is None and not self._over and (self._parts or (acceptance and not self.number)):
            text, self._parts, self._size = "".join(self._parts), [], 0
            self._flight = asyncio.create_task(self._send(text))

    async def flush(self, *, acceptance: bool = False) -> None:
        """Return when everything taken so far is recorded. Raises Superseded."""
        while True:
            self.start(acceptance=acceptance)
            if self._flight is None:
                break
            # Shielded: the agent's task may be cancelled here, what it has said stays said.
            await asyncio.shield(self._flight)
        self.check()

    async def rest(self) -> tuple[int, str]:
        """End the stream: number and text of the last piece, which travels with the turn's end; 0 if there is none."""
        while self._flight is not None:
            await asyncio.shield(self._flight)
        self._disarm()
        pieces = list(_pieces("".join(self._parts))) if self._parts and not self._over else []
        self._parts = []
        self._over = self._over or "The turn has ended; what it says now is not recorded."
        for piece in pieces[:-1]:
            self.number += 1
            if not await self._write(self.number, piece):
                self._lost()
                return 0, ""
        if not pieces or not pieces[-1]:
            return 0, ""
        self.number += 1
        return self.number, pieces[-1]

    def supersede(self) -> None:
        """Refuse everything from now on: the prompt belongs to another, or its worker gave it up."""
        self._disarm()
        self._parts = []
        if not self._over:
            self._over = "The prompt was superseded; nothing that it says counts any more."
            self._lost()

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def _send(self, text: str) -> None:
        try:
            for piece in _pieces(text):
                self.number += 1
                if not await self._write(self.number, piece):
                    self.supersede()
                    return
        except Exception:
            logger.exception("output %d can't be written; its prompt is given up", self.number)
            self.supersede()
            return
        finally:
            self._flight = None
        if self._parts and self._timer is None and not self._over:
            self._timer = asyncio.get_running_loop().call_later(DELAY, self.start)


def _pieces(text: str) -> Iterator[str]:
    """Cut text so that no piece is over the limit and no character is cut; one empty piece for empty text."""
    data = text.encode("utf-8", "replace")
    start = 0
    while len(data) - start > LIMIT:
        end = start + LIMIT
        while data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - the middle of a character
            end -= 1
        yield data[start:end].decode()
        start = end
    yield data[start:].decode()
