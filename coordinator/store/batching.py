"""Commands that are asked for at the same moment travel together: one write and one read for all of them."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from redis.asyncio import Redis

_MOST: Final = 64
_FLIGHTS: Final = 4
_Waiting: TypeAlias = "tuple[tuple[str | int, ...], asyncio.Future[Any]]"


class Batching:
    """Stands in for a client's `execute_command`; for commands that may be repeated.

    Each command has its own answer or error, but when a connection fails, every command on it does. There is no order
    among the commands of different callers, as there is none between connections. A caller that is cancelled stops
    waiting, and its command may have run.
    """

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self._waiting: deque[_Waiting] = deque()
        self._flights: set[asyncio.Task[None]] = set()
        self._boarding = False
        self._alone = False

    async def execute_command(self, *args: str | int) -> Any:
        """Send one command, at once when none is under way, else with all others of that moment."""
        if self._alone or self._flights or self._waiting:
            return await self._board(args)
        self._alone = True
        try:
            return await self._redis.execute_command(*args)
        finally:
            self._alone = False

    def _board(self, args: tuple[str | int, ...]) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((args, answer))
        if not self._boarding and len(self._flights) < _FLIGHTS:
            self._boarding = True
            loop.call_soon(self._take_off)
        return answer

    def _take_off(self) -> None:
        self._boarding = False
        if self._waiting and len(self._flights) < _FLIGHTS:
            batch = [self._waiting.popleft() for _ in range(min(_MOST, len(self._waiting)))]
            flight = asyncio.get_running_loop().create_task(self._fly(batch))
            self._flights.add(flight)
            flight.add_done_callback(self._landed)

    def _landed(self, flight: asyncio.Task[None]) -> None:
        self._flights.discard(flight)
        self._take_off()

    async def _fly(self, batch: list[_Waiting]) -> None:
        wanted = [(args, answer) for args, answer in batch if not answer.done()]
        try:
            replies = await self._send([args for args, _ in wanted])
        except asyncio.CancelledError:
            for _, answer in wanted:
                answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is every caller's error
            replies = [error] * len(wanted)
        for (_, answer), reply in zip(wanted, replies, strict=True):
            if answer.done():
                continue
            if isinstance(reply, Exception):
                answer.set_exception(reply)
                # Marks it as seen: the caller may be cancelled before it looks.
                answer.exception()
            else:
                answer.set_result(reply)

    async def _send(self, commands: list[tuple[str | int, ...]]) -> list[Any]:
        if not commands:
            return []
        if len(commands) == 1:
            return [await self._redis.execute_command(*commands[0])]
        async with self._redis.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return list(await pipe.execute(raise_on_error=False))
