"""The whole keyspace as one comparable value: what a refusal must leave as it was."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.client import NEVER_DECODE


class Key(NamedTuple):
    """One key: its type, its value, and whether it expires."""

    type: str
    value: Any
    expires: bool


async def dump(redis: Redis, ignoring: Collection[str] = ()) -> dict[str, Key]:
    """Read every key, but for those whose name fits a pattern of `ignoring` (as in `arq:*`).

    A stream's value is its entries and its groups: (name, last delivered id, pending).
    """
    names = sorted({name async for name in redis.scan_iter(count=1000)})
    kept = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in ignoring)]
    found = {name: await _key(redis, name) for name in kept}
    return {name: key for name, key in found.items() if key.type != "none"}


def difference(before: dict[str, Key], after: dict[str, Key]) -> dict[str, tuple[Key | None, Key | None]]:
    """The keys that differ, each as it was and as it is."""
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


async def _key(redis: Redis, name: str) -> Key:
    kind = str(await redis.type(name))
    return Key(kind, await _value(redis, kind, name), await redis.pttl(name) != -1)


async def _value(redis: Redis, kind: str, name: str) -> Any:
    match kind:
        case "string":
            raw = await redis.execute_command("GET", name, **{NEVER_DECODE: []})
            return raw.decode(errors="backslashreplace") if isinstance(raw, bytes) else raw
        case "hash":
            return dict(sorted((await redis.hgetall(name)).items()))  # type: ignore[misc]
        case "list":
            return await redis.lrange(name, 0, -1)  # type: ignore[misc]
        case "set":
            return sorted(await redis.smembers(name))  # type: ignore[misc]
        case "zset":
            return await redis.zrange(name, 0, -1, withscores=True)
        case "stream":
            groups = [(g["name"], g["last-delivered-id"], g["pending"]) for g in await redis.xinfo_groups(name)]
            return {"entries": await redis.xrange(name), "groups": sorted(groups)}
        case _:
            return None
