"""What clients send, as MONITOR shows it: every command with its sender, those inside scripts apart."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from tests.bench.rig import Rig

_LINE: Final = re.compile(rb'\+[\d.]+ \[\d+ ([^\]]+)\] "([^"]*)"(?: "([^"]*)")?')
_LIMIT: Final = 16 * 1024 * 1024
_INSIDE: Final = b"lua"


class Sent(NamedTuple):
    """One kind of command of one user: for a script its name in lower case, else COMMAND or COMMAND key."""

    user: str
    what: str


class Watch:
    """Counts while its block runs; complete after it."""

    def __init__(self, rig: Rig) -> None:
        self._redis: Any = rig.redis
        self._scripts = {script.sha: name for name, script in rig.coord.kernel.store._scripts.items()}
        self._found: Counter[tuple[str, str]] = Counter()
        self._users: dict[str, str] = {}
        self.sent: Counter[Sent] = Counter()
        self.inside = 0
        """Commands that scripts gave."""

    async def users(self) -> None:
        """Note who has which connection now."""
        for client in await self._redis.client_list():
            self._users[client["addr"]] = client["user"]

    def line(self, line: bytes) -> None:
        """Take one line of MONITOR."""
        match = _LINE.match(line)
        if match is None:
            return
        address, command, first = match[1], match[2].decode().upper(), (match[3] or b"").decode(errors="replace")
        if address == _INSIDE:
            self.inside += 1
        elif command in {"EVALSHA", "EVAL"}:
            self._found[address.decode(), self._scripts.get(first, command)] += 1
        else:
            self._found[address.decode(), f"{command} {_kind(first)}".strip()] += 1

    def close(self) -> None:
        """Put the users' names to what was found."""
        for (address, what), number in self._found.items():
            self.sent[Sent(self._users.get(address, "?"), what)] += number

    def of(self, user: str) -> Counter[str]:
        """What that user sent."""
        return Counter({one.what: number for one, number in self.sent.items() if one.user == user})


def _kind(key: str) -> str:
    """The kind of a key: neither its partition nor whom it belongs to."""
    parts = [part for part in key.split(":") if not part.startswith("{")]
    return ":".join(parts[:2])


@asynccontextmanager
async def watching(rig: Rig) -> AsyncIterator[Watch]:
    """Watch for as long as the block runs."""
    watch = Watch(rig)
    reader, writer = await asyncio.open_connection("127.0.0.1", rig.server.port, limit=_LIMIT)
    try:
        writer.write(b"MONITOR\r\n")
        await reader.readline()
        await watch.users()
        reading = asyncio.create_task(_read(reader, watch))
        yield watch
        # Its own mark: everything before it was sent before the block's end.
        await rig.redis.echo("watched")
        await asyncio.wait_for(reading, 5)
        await watch.users()
        watch.close()
    finally:
        writer.close()


async def _read(reader: asyncio.StreamReader, watch: Watch) -> None:
    while line := await reader.readline():
        if line.endswith(b'"ECHO" "watched"\r\n'):
            return
        watch.line(line)
