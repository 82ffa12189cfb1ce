"""What a Redis has to be like, looked at before it is used and by `doctor`."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal

import msgspec
from redis import exceptions
from redis.asyncio import Redis

from coordinator.domain.errors import StoreMisconfigured
from coordinator.settings import Settings, variable
from coordinator.store.failures import translate
from coordinator.store.keys import Keys

_LOG: Final = logging.getLogger("coordinator")
_OLDEST: Final = (7, 0)
_SKEW: Final = 2.0
_PROBE: Final = "return redis.call('EXISTS', KEYS[1])"

Facts = Mapping[str, Any]


class Check(msgspec.Struct, frozen=True):
    """One thing looked at: `severity` says what a failure means, `advice` what to do about it.

    `refuse`: nothing starts like that. `warn`: it works, and something is at risk.
    """

    name: str
    ok: bool
    severity: Literal["refuse", "warn"]
    found: str
    advice: str = ""


async def run_checks(redis: Redis, settings: Settings) -> list[Check]:
    """Look at everything. Raises StoreUnavailable or StoreMisconfigured when nothing can be looked at."""
    try:
        facts = await _facts(redis)
        skew = await _skew(redis)
        partitions = await redis.hget(Keys(settings.namespace, settings.partitions).meta, "partitions")  # type: ignore[misc]
    except exceptions.NoPermissionError:
        partitions, skew = None, 0.0
        facts = {}
    except (exceptions.RedisError, OSError) as error:
        raise translate(error) from error
    return [
        _version(facts),
        _mode(facts),
        _role(facts),
        _persistence(facts),
        _eviction(facts),
        _partitions(partitions, settings),
        _clock(skew),
        *await _rights(redis, settings),
    ]


async def check(redis: Redis, settings: Settings) -> None:
    """Look at everything, warn of what is at risk, and refuse what can't work. Raises as `run_checks` and `enforce`."""
    enforce(await run_checks(redis, settings))


def enforce(checks: Iterable[Check]) -> None:
    """Log a warning for what is at risk. Raises StoreMisconfigured for what forbids to start."""
    failed = [check for check in checks if not check.ok]
    for check in failed:
        if check.severity == "warn":
            _LOG.warning("%s: %s. %s", check.name, check.found, check.advice)
    refusals = [f"{check.name}: {check.found}. {check.advice}" for check in failed if check.severity == "refuse"]
    if refusals:
        raise StoreMisconfigured("Redis can't be used as it is. " + " ".join(refusals))


async def _facts(redis: Redis) -> Facts:
    """Everything that the server tells of itself; less of it where INFO is not allowed, nothing on a stand-in."""
    try:
        return {str(name): value for name, value in (await redis.info()).items()}
    except exceptions.NoPermissionError:
        pass
    except exceptions.ResponseError:
        return {}
    # HELLO is allowed to whoever may connect, and tells version, mode and role.
    told = await redis.execute_command("HELLO")
    pairs = told if isinstance(told, Mapping) else dict(zip(told[::2], told[1::2], strict=True))
    return {f"redis_{name}" if name in {"version", "mode"} else str(name): value for name, value in pairs.items()}


async def _skew(redis: Redis) -> float:
    before = time.time()
    seconds, microseconds = await redis.time()
    return float(seconds + microseconds / 1e6 - (before + time.time()) / 2)


def _version(facts: Facts) -> Check:
    text = str(facts.get("valkey_version") or facts.get("redis_version", ""))
    number = tuple(int(part) for part in re.findall(r"\d+", text)[:2])
    found = f"{facts.get('server_name', 'redis')} {text}" if text else "not told"
    return Check("version", not number or number >= _OLDEST, "refuse", found, "Use Redis 7 or later, or Valkey.")


def _mode(facts: Facts) -> Check:
    mode = str(facts.get("redis_mode") or facts.get("server_mode") or "not told")
    return Check("mode", mode != "cluster", "refuse", mode, "Use a single server: this build speaks to no Cluster yet.")


def _role(facts: Facts) -> Check:
    role = str(facts.get("role", "not told"))
    ok = role in {"master", "not told"}
    return Check("role", ok, "refuse", role, "Give the address of the master, or wait until the failover is over.")


def _persistence(facts: Facts) -> Check:
    known = "aof_enabled" in facts
    on = str(facts.get("aof_enabled")) == "1"
    found = ("append-only file on" if on else "append-only file off") if known else "not told"
    advice = "Set appendonly yes: without it a restart of Redis loses accepted messages."
    return Check("persistence", on or not known, "warn", found, advice)


def _eviction(facts: Facts) -> Check:
    policy = str(facts.get("maxmemory_policy", "not told"))
    ok = policy in {"noeviction", "not told"}
    limited = str(facts.get("maxmemory", "0")) != "0"
    found = policy if ok or limited else f"{policy}, and no maxmemory yet"
    advice = "Set maxmemory-policy noeviction: an evicted key is a lost session."
    return Check("eviction", ok, "refuse" if limited else "warn", found, advice)


def _partitions(recorded: str | bytes | None, settings: Settings) -> Check:
    text = recorded.decode() if isinstance(recorded, bytes) else recorded
    name = variable("partitions")
    ok = text is None or text == str(settings.partitions)
    found = f"{text or 'none'} recorded, {settings.partitions} set"
    advice = "" if ok else f"Set {name} to {text}, or use another namespace."
    return Check("partitions", ok, "refuse", found, advice)


def _clock(skew: float) -> Check:
    found = f"Redis is {abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} this host"
    advice = "Let both follow the same time server; deadlines hold all the same, since only Redis's clock counts."
    return Check("clock", abs(skew) <= _SKEW, "warn", found, advice)


async def _rights(redis: Redis, settings: Settings) -> list[Check]:
    """Try, without changing anything, what can't be done without."""
    keys = Keys(settings.namespace, settings.partitions)
    events = keys.partition(0)["events"]
    probes: dict[str, Callable[[], Awaitable[object]]] = {
        "run scripts": lambda: redis.execute_command("EVAL", _PROBE, 1, events),
        "read streams": lambda: redis.execute_command("XLEN", events),
        "read the registry": lambda: redis.execute_command("ZCARD", keys.workers),
        "publish": lambda: redis.execute_command("PUBLISH", keys.hint("doctor"), ""),
    }
    refused = []
    for name, probe in probes.items():
        try:
            await probe()
        except exceptions.NoPermissionError:
            refused.append(name)
        except (exceptions.RedisError, OSError) as error:
            raise translate(error) from error
    advice = f"Grant the user of the URL the keys and channels {settings.namespace}:* and the commands in the README."
    found = f"may not {', '.join(refused)}" if refused else "enough for scripts, streams and hints"
    return [Check("rights", not refused, "refuse", found, advice)]
