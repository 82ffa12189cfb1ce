"""The three kinds of client: for scripts, for blocking reads, for the placement queue.

Each has its own bounded pool, since one that waits must not starve another, and every connection has time limits and
keepalive, since a cut line says nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import msgspec
from arq.connections import ArqRedis
from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from coordinator.domain.errors import StoreMisconfigured
from coordinator.domain.urls import EMBEDDED, scheme_of
from coordinator.settings import Settings
from coordinator.store import embedded
from coordinator.store.failures import is_transient, translate, was_sent
from coordinator.store.keys import Keys
from coordinator.store.lines import LINES
from coordinator.store.queue import deserialize, serialize

__all__ = ("BLOCK", "Address", "coordination", "is_transient", "locate", "queue", "reader", "translate", "was_sent")

BLOCK: Final = 5.0
"""Seconds that a read on a `reader` may block at most; its connections count as dead some seconds later."""
_CONNECT: Final = 2.0
_ANSWER: Final = 3.0
_LEAST: Final = 0.5
_POOL_WAIT: Final = 5.0
_HEALTH: Final = 15
_KEEPALIVE: Final = {"TCP_KEEPIDLE": 15, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
# READONLY among them gives up the connection to a demoted master; the built-in OSError is a refused connect.
_LINE_ERRORS: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.BusyLoadingError,
    exceptions.ReadOnlyError,
    OSError,
)


def coordination(url: str, settings: Settings, *, connections: int = 32) -> Redis:
    """Make the client for scripts, which decodes replies to text.

    It connects anew once, and repeats no command: whoever calls a script knows whether it may be repeated.
    """
    # A renewal that gets no answer leaves the time for another one before its lease runs out.
    timeout = min(_ANSWER, max(_LEAST, 0.4 * settings.lease))
    return Redis.from_pool(_pool(url, connections=connections, timeout=timeout, retries=1, decode=True))


def reader(url: str, settings: Settings, *, connections: int = 8) -> Redis:  # noqa: ARG001 one shape for all three
    """Make a client for reads that block up to `BLOCK` seconds, and for subscriptions; it decodes replies to text.

    Nothing is repeated: a reader looks at its state again before it reads on.
    """
    return Redis.from_pool(_pool(url, connections=connections, timeout=2 * BLOCK, retries=0, decode=True))


def queue(
    url: str,
    settings: Settings,
    *,
    serializer: Callable[[dict[str, Any]], bytes] = serialize,
    deserializer: Callable[[bytes], dict[str, Any]] = deserialize,
    connections: int = 20,
) -> ArqRedis:
    """Make the client for the placement queue; its replies are bytes.

    It repeats failed commands with jittered back-off, about 20 seconds in all, since arq bears a repeat and ends its
    worker on an error.
    """
    pool = _pool(url, connections=connections, timeout=_ANSWER, retries=12, repeat=True)
    client = ArqRedis(
        pool_or_conn=pool,
        job_serializer=serializer,
        job_deserializer=deserializer,
        default_queue_name=Keys(settings.namespace, settings.partitions).queue,
    )
    client.auto_close_connection_pool = True
    return client


class Address(msgspec.Struct, frozen=True):
    """Where the two Redis servers really are: never an `embedded:` address."""

    redis_url: str
    queue_url: str

    def __repr__(self) -> str:
        return "Address(…)"  # URLs hold passwords


@contextlib.asynccontextmanager
async def locate(settings: Settings) -> AsyncIterator[Address]:
    """Find the servers of these settings, starting or joining embedded ones, which are given up at the end.

    Raises StoreUnavailable or StoreMisconfigured if an embedded server can't be had.
    """
    servers: dict[str, embedded.EmbeddedServer] = {}
    try:
        for url in dict.fromkeys((settings.redis_url, settings.queue)):
            if scheme_of(url) == EMBEDDED:
                servers[url] = embedded.from_url(url)
                await asyncio.to_thread(servers[url].start)
        urls = [servers[url].url if url in servers else url for url in (settings.redis_url, settings.queue)]
        yield Address(*urls)
    finally:
        for server in servers.values():
            await asyncio.shield(asyncio.to_thread(server.stop))


def _pool(
    url: str, *, connections: int, timeout: float, retries: int, decode: bool = False, repeat: bool = False
) -> BlockingConnectionPool:
    options: dict[str, Any] = {
        "max_connections": connections,
        "timeout": _POOL_WAIT,
        "socket_connect_timeout": _CONNECT,
        "socket_timeout": timeout,
        "health_check_interval": _HEALTH,
        "decode_responses": decode,
        "retry": Retry(ExponentialWithJitterBackoff(cap=2.0, base=0.1), retries, supported_errors=_LINE_ERRORS),  # type: ignore[arg-type]
        "retry_on_error": list(_LINE_ERRORS) if repeat else [],
        **_for_scheme(scheme_of(url)),
    }
    try:
        pool = BlockingConnectionPool.from_url(url, **options)
    except (ValueError, TypeError):
        # Not even the cause: the client's errors quote the address.
        raise StoreMisconfigured("The Redis URL is not one that the client understands.") from None
    pool.connection_class = LINES[scheme_of(url)]
    return pool


def _for_scheme(scheme: str) -> Mapping[str, Any]:
    if scheme == "unix":
        return {}
    keepalive = {getattr(socket, name): value for name, value in _KEEPALIVE.items() if hasattr(socket, name)}
    options: dict[str, Any] = {"socket_keepalive": True, "socket_keepalive_options": keepalive}
    # redis-py trusts any name on a valid certificate unless it is told not to.
    return options | {"ssl_check_hostname": True} if scheme == "rediss" else options
