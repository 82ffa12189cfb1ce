"""What a replica does for the group on a timer: keeps its own entries, takes those of dead ones, cleans up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

from coordinator.streams.consumer import Intake
from coordinator.streams.group import Group

_COUNT: Final = 100
_TICKS: Final = 3
"""How often an entry in hand is shown to be so before it would count as abandoned."""

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

    def stop_taking(self) -> None:
        """From now on only keep what is in hand."""
        self._taking = False

    async def run(self) -> None:
        """Do it now, and then on a timer, until cancelled."""
        while True:
            await self.once()
            await asyncio.sleep(self._idle / _TICKS)

    async def once(self) -> None:
        """One round over all partitions."""
        held = self._hands.held(self._idle / _TICKS)
        for partition, ids in held.items():
            for start in range(0, len(ids), _COUNT):
                await self._group.hold(partition, ids[start : start + _COUNT])
        for partition in range(len(self._group.streams)):
            if self._taking:
                await self._take(partition)

    async def give_back(self) -> None:
        """Let others have at once whatever is still pending here."""
        for partition in range(len(self._group.streams)):
            ids = await self._group.pending(partition, _COUNT * 10)
            await self._group.hold(partition, ids, idle_ms=round(self._idle * 1000))

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
