"""The reading loop of a replica: new entries of all partitions, its own pending ones first after trouble."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from coordinator.store.connections import BLOCK
from coordinator.store.failures import translate
from coordinator.streams.backoff import Backoff
from coordinator.streams.group import Commands, Entry, Group

_log = logging.getLogger(__name__)

_COUNT: Final = 64
_PAGE: Final = 200
_BLOCK_MS: Final = round(BLOCK * 1000)
_NO_GROUP: Final = ("NOGROUP", "UNBLOCKED")


class Reader(Commands, Protocol):
    """A Redis client whose connection may block for longer than a block time."""

    async def aclose(self) -> None:
        """Drop its connections; the next command makes a new one."""


class Intake(Protocol):
    """Where entries go."""

    def add(self, entry: Entry) -> None:
        """Take one entry in hand, unless it is there already."""

    def holds(self, partition: int, entry_id: str) -> bool:
        """Whether that entry is in hand."""

    async def room(self) -> None:
        """Wait until there is room for more."""


class Consumer:
    """Reads for one consumer of the group and hands the entries on; it acknowledges nothing itself.

    It lives through every error but its own cancellation: a missing group is made again at the start of the
    stream, and whatever else Redis says is waited out with back-off, on a fresh connection.
    """

    def __init__(self, group: Group, reader: Callable[[], Reader], intake: Intake, block_ms: int = _BLOCK_MS) -> None:
        self._group = group
        self._make_reader = reader
        self._intake = intake
        self._block_ms = block_ms
        self._backoff = Backoff()

    async def run(self, ready: Callable[[], None]) -> None:
        """Read until cancelled; call `ready` once, when the groups exist and reading starts."""
        while True:
            reader = self._make_reader()
            try:
                await self._group.create()
                await self._catch_up()
                ready()
                await self._read(reader)
            except Exception as error:  # noqa: BLE001 - the loop must outlive whatever the server says
                await self._wait_out(error)
            finally:
                await self._drop(reader)

    async def _catch_up(self) -> None:
        # A reply may have been lost on its way here; its entries are pending for this consumer all the same.
        for partition in range(len(self._group.streams)):
            after = ""
            while True:
                await self._intake.room()
                page = await self._group.pending(partition, _PAGE, after)
                lost = {one: times for one, times in page.items() if not self._intake.holds(partition, one)}
                for entry in await self._group.again(partition, lost):
                    self._intake.add(entry)
                if len(page) < _PAGE:
                    break
                after = list(page)[-1]

    async def _read(self, reader: Reader) -> None:
        while True:
            await self._intake.room()
            entries = await self._group.read(reader, _COUNT, self._block_ms)
            self._backoff.succeeded()
            for entry in entries:
                self._intake.add(entry)

    async def _wait_out(self, error: Exception) -> None:
        delay = self._backoff.next()
        if str(error).startswith(_NO_GROUP):
            _log.warning("a stream or its group is gone; the group is made again from the start: %s", error)
        elif self._backoff.failures == 1 or self._backoff.failures % 20 == 0:
            _log.warning("reading the event streams failed, next try in %.2f s: %s", delay, translate(error))
        await asyncio.sleep(delay)

    async def _drop(self, reader: Reader) -> None:
        try:
            await reader.aclose()
        except Exception as error:  # noqa: BLE001 - it is being thrown away
            _log.debug("closing a reader: %s", error)
