"""Real servers for a test session: the bundled one, and Debian's where it is installed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import redis

from coordinator.store.embedded import EmbeddedServer

DEBIAN: Final = shutil.which("redis-server", path="/usr/bin:/usr/local/bin")
BINARIES: Final[dict[str, Path | None]] = {"bundled": None} | ({"debian": Path(DEBIAN)} if DEBIAN else {})
KINDS: Final = tuple(BINARIES)
"""The real servers that there are here."""
# The tests' data may be lost, and a test that counts milliseconds should not wait for a disk.
_CONFIG: Final = {"appendfsync": "no", "enable-debug-command": "local"}


class Servers:
    """One server of each kind, started at its first use, emptied whenever it is asked for."""

    def __init__(self) -> None:
        self._servers: dict[str, EmbeddedServer] = {}

    def get(self, kind: str) -> EmbeddedServer:
        """The running, empty server of that kind; one that a test left killed is started again."""
        if kind not in self._servers:
            self._servers[kind] = EmbeddedServer(binary=BINARIES[kind], config=_CONFIG)
        server = self._servers[kind].start()
        with redis.Redis.from_url(server.url, socket_timeout=5) as client:
            client.flushall()
            client.script_flush()
        return server

    def stop(self) -> None:
        """End them all."""
        for server in self._servers.values():
            server.stop()
