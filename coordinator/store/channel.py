"""One connection that carries the commands of a whole process: each leaves at once, answers come back in order."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import hiredis
from redis import exceptions

from coordinator.store.lines import LINES

if TYPE_CHECKING:
    from redis.asyncio import Redis

_NOTHING: Final = object()
_PATIENCE: Final = 3.0


class Commands(Protocol):
    """What a client and a channel have in common."""

    def execute_command(self, *args: Any) -> Awaitable[list[Any]]:
        """Send one command and give its reply."""

    def together(self, *commands: tuple[Any, ...]) -> Awaitable[list[Any]]:
        """Send commands that are run one after another, and give their replies."""


def channel_of(redis: Redis) -> Commands:
    """A channel over one connection of the client's pool; where it has none, as a stand-in, its commands one by one."""
    connected = redis.connection_pool.connection_class in LINES.values()
    return Channel(redis) if connected else _OneByOne(redis)


class _OneByOne:
    def __init__(self, redis: Redis) -> None:
        self.execute_command = cast("Any", redis.execute_command)

    async def together(self, *commands: tuple[Any, ...]) -> list[Any]:
        return [await self.execute_command(*command) for command in commands]


class Channel(asyncio.Protocol):
    """Stands in for a client's `execute_command`, for commands that never block the connection.

    The commands of one task are run in its order. When the connection fails, or nothing is answered in the pool's
    time, every command on it fails with the client's own error, and the next one connects anew. A caller that is
    cancelled stops waiting, its command may have run, and nobody else notices. Ends with the client.
    """

    def __init__(self, redis: Redis) -> None:
        self._pool = redis.connection_pool
        self._waiting: deque[tuple[asyncio.Future[Any], float]] = deque()
        self._line: Any = None
        self._transport: asyncio.Transport | None = None
        self._opening = asyncio.Lock()
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._more: list[bytes] | None = None

    async def execute_command(self, *args: Any) -> Any:
        """Send one command and give its reply. Raises what redis-py raises."""
        packed = hiredis.pack_command(args)
        transport = self._transport
        if transport is None or not self._writable.is_set():
            transport = await self._ready()
        return await self._send(transport, packed)

    async def together(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send commands that are run one after another, and give their replies. Raises the first error."""
        packed = [hiredis.pack_command(command) for command in commands]
        transport = self._transport
        if transport is None or not self._writable.is_set():
            transport = await self._ready()
        return await asyncio.gather(*[self._send(transport, one) for one in packed])

    async def _ready(self) -> asyncio.Transport:
        while (transport := self._transport) is None or not self._writable.is_set():
            await self._open()
            await self._writable.wait()
        return transport

    def _send(self, transport: asyncio.Transport, packed: bytes) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((answer, loop.time()))
        if self._more is None:
            # The first command of a moment leaves at once, what else comes in that moment in one piece behind it.
            self._more = []
            loop.call_soon(self._flush)
            transport.write(packed)
        else:
            self._more.append(packed)
        if self._timer is None:
            self._timer = loop.call_later(self._patience, self._look)
        return answer

    def _flush(self) -> None:
        more, self._more = self._more, None
        if more and self._transport is not None:
            self._transport.write(b"".join(more))

    async def _open(self) -> None:
        async with self._opening:
            if self._transport is not None:
                return
            if self._line is not None:
                line, self._line = self._line, None
                await line.disconnect(nowait=True)
                await self._pool.release(line)
            # The pool's own connection, so that it greets, logs in, is counted and is closed as all others are.
            self._line = line = await self._pool.get_connection()
            self._patience = line.socket_timeout or _PATIENCE
            self._reader = hiredis.Reader(
                protocolError=exceptions.InvalidResponse,
                replyError=line._parser.parse_error,  # noqa: SLF001 - redis-py has no other door to it
                encoding="utf-8" if line.encoder.decode_responses else None,
                errors="replace",
                notEnoughData=_NOTHING,
            )
            transport = line._writer.transport  # noqa: SLF001 - the same
            self._before = transport.get_protocol()
            transport.set_protocol(self)
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hand answers to those who wait, in order."""
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _NOTHING:
                answer, _ = self._waiting.popleft()
                if answer.done():
                    continue
                if isinstance(reply, Exception):
                    answer.set_exception(reply)
                else:
                    answer.set_result(reply)
        except (exceptions.InvalidResponse, IndexError) as error:
            self._break(exceptions.ConnectionError(f"Redis answered what nobody asked: {error}"))

    def pause_writing(self) -> None:
        """Hold new commands back: Redis does not read as fast as they come."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let them go on."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail whatever waits."""
        self._before.connection_lost(error)
        self._break(exceptions.ConnectionError("Connection closed by server."))

    def _look(self) -> None:
        """Find out whether the oldest command has waited too long."""
        self._timer = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        left = self._waiting[0][1] + self._patience - loop.time()
        if left <= 0:
            self._break(exceptions.TimeoutError("Timeout reading from the server."))
        else:
            self._timer = loop.call_later(left, self._look)

    def _break(self, error: Exception) -> None:
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._writable.set()
        if self._more:
            self._more = []
        transport.abort()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, deque()
        for answer, _ in waiting:
            if not answer.done():
                answer.set_exception(error)
                # Marks it as seen: its caller may be cancelled before it looks.
                answer.exception()
