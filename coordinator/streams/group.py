"""The consumer group on the partitions' event streams: the commands that replicas use, and nothing of sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from coordinator.store.keys import GROUP


class Commands(Protocol):
    """What is used of a Redis client: one command at a time, replies decoded to text."""

    def execute_command(self, *args: Any, **options: Any) -> Awaitable[Any]:
        """Send one command and give its reply."""
        ...


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One delivered stream entry. `fields` is empty when the entry was trimmed away under its reader."""

    partition: int
    id: str
    fields: dict[str, str]
    deliveries: int = 1
    """How often Redis gave it to a consumer, as far as known: more than a few means that readers die of it."""

    @property
    def key(self) -> tuple[int, str]:
        """What names it among the entries of all partitions."""
        return self.partition, self.id


class Group:
    """One consumer of the group `orchestrators`. `streams` are the partitions' event streams, in partition order."""

    def __init__(self, commands: Commands, streams: Sequence[str], consumer: str) -> None:
        self.streams = tuple(streams)
        self.consumer = consumer
        self._run = commands.execute_command
        self._partition = {stream: partition for partition, stream in enumerate(self.streams)}
        self._latest = (">",) * len(self.streams)

    async def create(self) -> None:
        """Make the group where it is missing, at the very start: what is there already has to be looked at too."""
        for stream in self.streams:
            try:
                await self._run("XGROUP", "CREATE", stream, GROUP, "0", "MKSTREAM")
            except Exception as error:
                # A full server refuses it even where the group is there. Reading works, and says if it is not.
                if not (str(error).startswith("BUSYGROUP") or "'maxmemory'" in str(error)):
                    raise

    async def read(self, reader: Commands, count: int, block_ms: int) -> list[Entry]:
        """Wait for new entries on all streams, on a connection of the reader's own; at most `count` a stream."""
        reply = await reader.execute_command(
            "XREADGROUP", "GROUP", GROUP, self.consumer, "COUNT", count, "BLOCK", block_ms,
            "STREAMS", *self.streams, *self._latest,
        )  # fmt: skip
        return [
            Entry(self._partition[stream], entry_id, fields)
            for stream, entries in reply or ()
            for entry_id, fields in entries
        ]

    async def again(self, partition: int, deliveries: Mapping[str, int]) -> list[Entry]:
        """Give entries that were delivered before, as `pending` names them.

        Unlike XREADGROUP it counts no delivery: a reader that lives through bad connections has not died of an entry.
        """
        stream = self.streams[partition]
        found = await asyncio.gather(*[self._run("XRANGE", stream, entry_id, entry_id) for entry_id in deliveries])
        return [
            Entry(partition, entry_id, entries[0][1] if entries else {}, times)
            for (entry_id, times), entries in zip(deliveries.items(), found, strict=True)
        ]

    async def acknowledge(self, entry: Entry) -> None:
        """Take one entry off the pending list; it stays readable on the stream."""
        await self._run("XACK", self.streams[entry.partition], GROUP, entry.id)

    async def hold(self, partition: int, ids: Sequence[str], idle_ms: int = 0) -> None:
        """Show that these entries are being handled here, or with a large `idle_ms` that anybody may have them."""
        if ids:
            await self._run(
                "XCLAIM", self.streams[partition], GROUP, self.consumer, 0, *ids, "IDLE", idle_ms, "JUSTID",
                parse_justid=True,
            )  # fmt: skip

    async def take_over(
        self, partition: int, cursor: str, idle_ms: int, count: int
    ) -> tuple[str, list[Entry], list[str]]:
        """Take entries that nobody touched for `idle_ms`: the next cursor, the entries, the ids of trimmed ones."""
        stream = self.streams[partition]
        cursor, found, *rest = await self._run(
            "XAUTOCLAIM", stream, GROUP, self.consumer, idle_ms, cursor, "COUNT", count
        )
        taken = [(entry_id, fields) for entry_id, fields in found if entry_id is not None]
        if not taken:
            return cursor, [], list(rest[0] if rest else ())
        times = await self._deliveries(stream, taken[0][0], taken[-1][0], count)
        entries = [Entry(partition, entry_id, fields, times.get(entry_id, 1)) for entry_id, fields in taken]
        return cursor, entries, list(rest[0] if rest else ())

    async def _deliveries(self, stream: str, first: str, last: str, count: int) -> dict[str, int]:
        rows = await self._run("XPENDING", stream, GROUP, first, last, count, self.consumer, parse_detail=True)
        return {row["message_id"]: int(row["times_delivered"]) for row in rows}

    async def pending(self, partition: int, count: int, after: str = "") -> dict[str, int]:
        """Give the ids of up to `count` entries pending for this consumer, and how often each was delivered."""
        return await self._deliveries(self.streams[partition], f"({after}" if after else "-", "+", count)
