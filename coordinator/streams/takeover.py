"""What a replica does for the group on a timer: keeps its own entries, takes those of dead ones, cleans up."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from coordinator.streams.consumer import Intake
from coordinator.streams.group import Group

_COUNT: Final = 100
_TICKS: Final = 3
"""How often an entry in hand is shown to be so before it would count as abandoned."""

_DELIVERY: Final = 0.5

Lost: TypeAlias = Callable[[int, int], Awaitable[None]]
"""Told that of a partition so many entries were trimmed away before they were handled."""


class Hands(Intake, Protocol):
    """The entries in hand."""

    @property
    def has_room(self) -> bool:
        """Whether more can be taken now."""

    def held(self, seconds: float) -> dict[int, list[str]]:
        """Give the ids in hand for at least `seconds`, by partition."""


class Takeover:
    """Takes entries that no replica touched for `idle` seconds.

    What is in hand here is marked several times in that span, so neither this replica nor another takes it.
    """

    def __init__(self, group: Group, hands: Hands, idle: float, lost: Lost) -> None:
        self._group = group
        self._hands = hands
        self._idle = idle
        self._lost = lost
        self._taking = True
        self._suspected: set[int] = set()
        self._suspicion = asyncio.Event()

    def stop_taking(self) -> None:
        """From now on only keep what is in hand."""
        self._taking = False

    def suspect(self, partition: int) -> None:
        """Look soon: a turn of this partition was not settled in time, so its entry may be a dead replica's."""
        self._suspected.add(partition)
        self._suspicion.set()

    async def run(self) -> None:
        """Look at every partition now, at one after another within `idle` seconds, and soon at a suspected one.

        That is seldom, since all replicas do it for all partitions, and mostly for nothing.
        """
        partitions = range(len(self._group.streams))
        self._suspected.update(partitions)
        for partition in itertools.cycle(partitions):
            await self.once()
            await self._pause(self._idle / max(_TICKS, len(partitions)))
            self._suspected.add(partition)

    async def once(self) -> None:
        """Keep what is in hand, and take over from the partitions that are suspected."""
        for partition, ids in self._hands.held(self._idle / _TICKS).items():
            for start in range(0, len(ids), _COUNT):
                await self._group.hold(partition, ids[start : start + _COUNT])
        while self._suspected and self._taking:
            partition = min(self._suspected)
            await self._take(partition)
            self._suspected.discard(partition)

    async def _pause(self, seconds: float) -> None:
        self._suspicion.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._suspicion.wait()
        except TimeoutError:
            return
        # The entry was delivered a moment after its turn ended, so it has been idle for a moment less.
        await asyncio.sleep(min(_DELIVERY, self._idle / _TICKS))

    async def give_back(self) -> None:
        """Let others have at once whatever is still pending here."""
        for partition in range(len(self._group.streams)):
            ids = await self._group.pending(partition, _COUNT * 10)
            await self._group.hold(partition, list(ids), idle_ms=round(self._idle * 1000))

    async def _take(self, partition: int) -> None:
        cursor = "0-0"
        while True:
            if not self._hands.has_room:
                return
            cursor, entries, trimmed = await self._group.take_over(partition, cursor, round(self._idle * 1000), _COUNT)
            for entry in entries:
                self._hands.add(entry)
            if trimmed:
                await self._lost(partition, len(trimmed))
            if cursor == "0-0":
                return
