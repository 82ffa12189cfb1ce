"""The connections under every client: those of redis-py, with two of their habits put right."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import hiredis
from redis import exceptions
from redis.asyncio.connection import AbstractConnection, Connection, SSLConnection, UnixDomainSocketConnection


class _Line(AbstractConnection):
    async def send_packed_command(self, command: bytes | str | Iterable[bytes], check_health: bool = True) -> None:  # noqa: FBT001, FBT002
        # redis-py bounds this by `wait_for`, which before Python 3.12 loses a cancel that arrives as the bytes leave:
        # the task goes on for ever, and whoever cancelled it waits for ever.
        if not self.is_connected:
            await self.connect()  # type: ignore[no-untyped-call]
        elif check_health:
            await self.check_health()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command(_pieces(command))
        except TimeoutError:
            await self.disconnect(nowait=True)
            raise exceptions.TimeoutError("Timeout writing to socket") from None
        except OSError as error:
            await self.disconnect(nowait=True)
            raise exceptions.ConnectionError(f"Error while writing to socket. {error.strerror or error}.") from error
        except BaseException:
            await self.disconnect(nowait=True)
            raise

    def pack_command(self, *args: Any) -> list[bytes]:
        # In C; redis-py has this for its blocking client only.
        if " " in args[0]:
            args = (*args[0].split(" "), *args[1:])
        return [hiredis.pack_command(args)]

    def pack_commands(self, commands: Iterable[Iterable[Any]]) -> list[bytes]:
        return [piece for command in commands for piece in self.pack_command(*command)]

    async def on_connect(self) -> None:
        # A connection counts as due for its health check from the start, and one that fails there (no password, still
        # loading) connects anew inside the first connect, without end.
        self.next_health_check = asyncio.get_running_loop().time() + self.health_check_interval
        await super().on_connect()


class _TcpLine(_Line, Connection):
    pass


class _TlsLine(_Line, SSLConnection):
    pass


class _UnixLine(_Line, UnixDomainSocketConnection):
    pass


LINES: Final[dict[str, type[Any]]] = {"redis": _TcpLine, "rediss": _TlsLine, "unix": _UnixLine}
"""The class of connection for each scheme of a URL."""


def _pieces(command: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(command, str):
        return [command.encode()]
    return [command] if isinstance(command, bytes) else command
