"""The way in: connecting, and everything that hangs on a connection."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final, cast

import msgspec

from coordinator import overview
from coordinator.domain.errors import StoreMisconfigured
from coordinator.overview import SessionRow, Stats, WorkerRow
from coordinator.services import Kernel
from coordinator.session import Session
from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.checks import check
from coordinator.store.store import Store
from coordinator.streams.hints import Hints, Subscriber
from coordinator.streams.reading import read

_PARTITIONS: Final = "partitions"


class Coordinator:
    """One connected client. Made by `connect`; good for any number of tasks of one event loop."""

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings) -> None:
        self.kernel = kernel
        self.hints = hints
        self.settings = settings
        """As connected: an `embedded:` address is replaced by the server's own."""

    @classmethod
    @asynccontextmanager
    async def connect(cls, where: Settings | str | None = None) -> AsyncIterator[Coordinator]:
        """Connect, check the server, and disconnect at the end of the `async with`.

        `where` is all settings, or a URL, which leaves the others to the environment as no argument does. An
        `embedded:` URL starts the bundled server, or joins the one of that folder. Raises `SettingsError`,
        `StoreUnavailable`, and `StoreMisconfigured` for a server that can't keep what it is given, or that was set
        up with another number of partitions.
        """
        settings = where if isinstance(where, Settings) else settings_for(where)
        async with AsyncExitStack() as stack:
            address = await stack.enter_async_context(connections.locate(settings))
            settings = msgspec.structs.replace(settings, redis_url=address.redis_url, queue_url=address.queue_url)
            client = connections.coordination(settings.redis_url, settings)
            stack.push_async_callback(client.aclose)
            store = Store(client, settings)
            await check(client, settings)
            await _agree_on_partitions(store)
            queue = None
            if settings.queue != settings.redis_url:
                queue = connections.queue(settings.queue, settings)
                stack.push_async_callback(queue.aclose)
            reader = connections.reader(settings.redis_url, settings)
            stack.push_async_callback(reader.aclose)
            hints = Hints(lambda: cast("Subscriber", reader.pubsub()), store.keys.hint, heartbeat=settings.heartbeat)
            stack.push_async_callback(hints.aclose)
            yield cls(Kernel(store, queue), hints, settings)

    def session(self, session_id: str) -> Session:
        """A handle on a session, without any I/O. Raises `InvalidId`."""
        return Session(self.kernel, self.hints, self.settings, session_id)

    async def sessions(self, *, limit: int = 1000) -> list[SessionRow]:
        """List the sessions, at most `limit`, the one whose status changed last first."""
        return await overview.sessions(self.kernel.store, limit=limit)

    async def workers(self) -> list[WorkerRow]:
        """List the registered workers by id."""
        return await overview.workers(self.kernel.store)

    async def workflows(self) -> list[str]:
        """List the names of the workflows that orchestrators have published."""
        return await self.kernel.workflows.names()

    async def stats(self) -> Stats:
        """Count sessions, events, and what the scripts counted."""
        return await overview.stats(self.kernel.store)


def settings_for(url: str | None, env: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings of the environment, with another URL if one is given. Raises `SettingsError`."""
    return Settings.from_env(env if url is None else {**env, "COORDINATOR_REDIS_URL": url})


async def _agree_on_partitions(store: Store) -> None:
    mine = str(store.settings.partitions)
    await read(store, "HSETNX", store.keys.meta, _PARTITIONS, mine)
    theirs = await read(store, "HGET", store.keys.meta, _PARTITIONS)
    if theirs != mine:
        raise StoreMisconfigured(
            f"the data of namespace {store.settings.namespace} has {theirs} partitions, and this program is set to "
            f"{mine}; set COORDINATOR_PARTITIONS={theirs}, or use another COORDINATOR_NAMESPACE"
        )
