"""A subscription to one channel whose messages reach their hearer in the moment in which they arrive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

import hiredis
from redis import exceptions

if TYPE_CHECKING:
    from redis.asyncio import Redis

_NOTHING: Final = object()


class Listener(asyncio.Protocol):
    """Hears one channel on a connection of its own. Made by `open`; given back by `close`."""

    def __init__(self, redis: Redis, line: Any, hear: Callable[[str], object]) -> None:
        self._pool = redis.connection_pool
        self._line = line
        self._hear = hear
        self._heard = False
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._subscribed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse,
            replyError=line._parser.parse_error,  # noqa: SLF001 - redis-py has no other door to it
            encoding="utf-8",
            errors="replace",
            notEnoughData=_NOTHING,
        )
        self._transport: asyncio.Transport = line._writer.transport  # noqa: SLF001 - the same
        self._before = self._transport.get_protocol()
        self._transport.set_protocol(self)

    @classmethod
    async def open(cls, redis: Redis, channel: str, hear: Callable[[str], object], within: float) -> Self:
        """Subscribe; what is published from now on is heard. Raises redis-py's errors, and TimeoutError."""
        line = await redis.connection_pool.get_connection()
        listener = cls(redis, line, hear)
        try:
            async with asyncio.timeout(within):
                listener._command("SUBSCRIBE", channel)
                await listener._subscribed
        except BaseException:
            await listener.close()
            raise
        return listener

    async def run(self, quiet: float) -> None:
        """Listen until cancelled; after `quiet` seconds of silence the link is probed. Raises ConnectionError."""
        while True:
            self._heard = False
            await asyncio.wait({self._lost}, timeout=quiet)
            if not self._heard and not self._lost.done():
                self._command("PING")
                await asyncio.wait({self._lost}, timeout=quiet)
            if self._lost.done():
                raise exceptions.ConnectionError("Connection closed by server.")
            if not self._heard:
                raise exceptions.ConnectionError("the server did not answer on this connection")

    async def close(self) -> None:
        """Give the connection up."""
        self._transport.abort()
        await self._line.disconnect(nowait=True)
        await self._pool.release(self._line)

    def _command(self, *args: Any) -> None:
        self._transport.write(hiredis.pack_command(args))

    def data_received(self, data: bytes) -> None:
        """Pass messages on."""
        self._heard = True
        self._reader.feed(data)
        while (reply := self._reader.gets()) is not _NOTHING:
            if isinstance(reply, Exception):
                self._fail(reply)
            elif isinstance(reply, list) and reply[0] == "message":
                self._hear(reply[2])
            elif not self._subscribed.done():
                self._subscribed.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever listens."""
        self._before.connection_lost(error)
        self._fail(exceptions.ConnectionError("Connection closed by server."))
        if not self._lost.done():
            self._lost.set_result(None)

    def _fail(self, error: Exception) -> None:
        if not self._subscribed.done():
            self._subscribed.set_exception(error)
            self._subscribed.exception()
