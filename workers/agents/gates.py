"""Gates: keys that scripted prompts wait for. Whoever runs a demo or a test opens one with a plain SET."""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from coordinator.store.store import Store

logger = logging.getLogger(__name__)

_INTERVAL: Final = 0.04
"""Seconds between two looks, one for everybody who waits in this process; nobody waits, nobody looks."""


class Probe(Protocol):
    """Tells which of some keys exist."""

    async def __call__(self, names: list[str]) -> set[str]:
        """Those of `names` that exist."""


class Gates:
    """Everybody in one process who waits for gates, served by one task."""

    def __init__(self, probe: Probe, interval: float = _INTERVAL) -> None:
        self._probe = probe
        self._interval = interval
        self._waiting: dict[str, asyncio.Event] = {}
        self._users: dict[str, int] = {}
        self._task: asyncio.Task[None] | None = None

    async def wait(self, name: str) -> None:
        """Return once the gate is open. Bounded by the caller: it cancels the wait."""
        opened = self._waiting.setdefault(name, asyncio.Event())
        self._users[name] = self._users.get(name, 0) + 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._look(), name="scripted-gates")
        try:
            await opened.wait()
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name]
                self._waiting.pop(name, None)

    async def _look(self) -> None:
        while self._waiting:
            try:
                for name in await self._probe(list(self._waiting)):
                    if name in self._waiting:
                        self._waiting[name].set()
            except Exception as error:  # noqa: BLE001 - whatever ails Redis, who waits goes on waiting
                logger.warning("gates can't be looked at, and will be again: %s", type(error).__name__)
            await asyncio.sleep(self._interval)


_gates: WeakKeyDictionary[Store, Gates] = WeakKeyDictionary()


def gates_of(store: Store) -> Gates:
    """The gates of a store: the keys `<namespace>:scripted:NAME`."""
    gates = _gates.get(store)
    if gates is None:
        prefix = f"{store.keys.namespace}:scripted:"

        async def probe(names: list[str]) -> set[str]:
            return {name for name in names if await store.redis.exists(prefix + name)}

        gates = _gates[store] = Gates(probe)
    return gates
