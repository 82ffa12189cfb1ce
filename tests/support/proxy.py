"""A TCP proxy in front of a server that can cut, delay, hold back or refuse what goes through it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

HOST = "127.0.0.1"
_GRACE = 1.0


class FaultProxy:
    """`async with FaultProxy(server.port) as proxy:` listens on `proxy.url` until the block ends.

    Connections made before and after a fault meet it alike. Held bytes are delivered by `heal`, late, as TCP would.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._requests = _Gate()
        self._replies = _Gate()
        self._refusing = False
        self.port = 0

    @property
    def url(self) -> str:
        """The address to give to clients."""
        return f"redis://{HOST}:{self.port}/0"

    def cut(self) -> None:
        """Reset every connection that is open now; new ones go through."""
        for writer in list(self._writers):
            writer.transport.abort()

    def refuse(self) -> None:
        """Reset every connection, and each new one at once, until `heal`."""
        self._refusing = True
        self.cut()

    def black_hole(self, *, requests: bool = True, replies: bool = True) -> None:
        """Hold back what is sent, without a word, until `heal`; with `requests=False` commands run, unanswered."""
        self._requests.set(open_=not requests)
        self._replies.set(open_=not replies)

    def delay(self, seconds: float) -> None:
        """Deliver every piece that much later, each way."""
        self._requests.delay = self._replies.delay = seconds

    def heal(self) -> None:
        """End every fault, and deliver what was held back on connections that are still there."""
        self._refusing = False
        self._requests.set(open_=True)
        self._replies.set(open_=True)
        self.delay(0.0)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self.heal()
        self.refuse()
        if self._server is not None:
            self._server.close()
        # What was accepted a moment ago begins now, and is refused.
        await _rounds()
        if self._tasks:
            late = (await asyncio.wait(set(self._tasks), timeout=_GRACE))[1]
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        # An aborted transport is gone one round of the loop later.
        await _rounds()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            answers, onward = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, onward}
        if self._refusing:
            for one in both:
                one.transport.abort()
            return
        self._writers |= both
        # Either side's end is the end of both.
        pumps = [asyncio.create_task(_pump(reader, onward, self._requests))]
        pumps.append(asyncio.create_task(_pump(answers, writer, self._replies)))
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._writers -= both
            for pump in pumps:
                pump.cancel()
            for one in both:
                one.transport.abort()
            await asyncio.gather(*pumps, return_exceptions=True)


async def _rounds() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


class _Gate:
    def __init__(self) -> None:
        self.delay = 0.0
        self._open = asyncio.Event()
        self._open.set()

    def set(self, *, open_: bool) -> None:
        if open_:
            self._open.set()
        else:
            self._open.clear()

    async def passed(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        await self._open.wait()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter, gate: _Gate) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(65536):
            await gate.passed()
            target.write(data)
            await target.drain()
