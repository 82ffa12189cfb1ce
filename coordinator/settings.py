"""All settings: one frozen record, read once from the environment, checked when it is made."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, Final, TypeGuard

import msgspec

from coordinator.domain.errors import SettingsError
from coordinator.domain.ids import is_id
from coordinator.domain.urls import problem_with, redact

_log = logging.getLogger(__name__)

PREFIX: Final = "COORDINATOR_"
_DAY: Final = 86400.0
_SECONDS: Final = (0.001, 3660 * _DAY)
_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "partitions": (1, 256),
    "handler_tries": (1, 1000),
    "max_body": (1, 64 * 1024 * 1024),
    "max_inbox": (1, 1_000_000),
    "max_inbox_bytes": (1, 1024 * 1024 * 1024),
    "max_log": (10, 10_000_000),
    # A partition that was not swept for 3 s counts as being after an outage.
    "sweep": (0.01, 2.0),
}
_LARGER: Final = (
    ("lease", ("heartbeat",), "a lease outlives the heartbeats that renew it"),
    ("self_stop", ("lease",), "a worker gives up only after its leases have run out"),
    ("maintenance_lease", ("heartbeat",), "a lease outlives the heartbeats that renew it"),
    ("reset_timeout", ("cancel_timeout", "provider_reset"), "a reset cancels the turn, then resets the provider"),
    ("entry_timeout", ("reset_timeout",), "entering a step may reset the agent"),
    ("guard_hold", ("handler_timeout",), "handlers run under the guard"),
    ("settlement", ("handler_timeout",), "a turn is taken over only when its handler had its time"),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every bound and address of one deployment; each attribute's variable is `COORDINATOR_` + its name in capitals.

    Durations are seconds; `receipts` and the retentions too. `max_body` and `max_inbox_bytes` are bytes of UTF-8.
    Raises SettingsError, when made or read, for a value that is not of its kind or range, or contradicts another.
    Passwords in URLs show in no repr and no error.
    """

    redis_url: str = "redis://127.0.0.1:6379/0"
    queue_url: str | None = None
    namespace: str = "coord"
    partitions: int = 16

    cancel_timeout: float = 10.0
    predecessor_wait: float = 10.0
    provider_reset: float = 10.0
    reset_timeout: float = 30.0
    entry_timeout: float = 60.0
    acceptance: float = 30.0
    start_timeout: float = 60.0
    question_timeout: float = 3600.0
    maintenance_lease: float = 15.0
    guard_ttl: float = 10.0
    guard_wait: float = 30.0
    guard_hold: float = 60.0
    heartbeat: float = 1.0
    lease: float = 5.0
    self_stop: float = 20.0
    placement: float = 10.0
    settlement: float = 15.0
    handler_timeout: float = 10.0
    handler_tries: int = 5
    idle_execution: float = 300.0
    drain: float = 30.0
    receipts: float = _DAY
    max_body: int = 1024 * 1024
    max_inbox: int = 1000
    max_inbox_bytes: int = 16 * 1024 * 1024
    max_log: int = 10_000
    retention_closed: float = 7 * _DAY
    retention_idle: float = 30 * _DAY
    sweep: float = 2.0

    def __post_init__(self) -> None:
        problems = [problem for name in self.__struct_fields__ if (problem := _problem(name, getattr(self, name)))]
        problems = problems or list(_contradictions(self))
        if problems:
            raise SettingsError("\n".join(problems))

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None) -> Settings:
        """Read the variables of `env` (the process's own if not given); an absent or empty one means the default.

        One that is almost a setting's is warned of, not refused: the prefix is not this package's alone (Kubernetes
        sets COORDINATOR_PORT for a service named coordinator).
        """
        env = os.environ if env is None else env
        for name, meant in _misspelt(cls.__struct_fields__, env):
            _log.warning("%s is no setting, and changes nothing; did you mean %s?", name, meant)
        given = {name: text for name in cls.__struct_fields__ if (text := env.get(variable(name), "").strip())}
        values: dict[str, Any] = {name: _parsed(name, text) for name, text in given.items()}
        return cls(**values)

    @property
    def queue(self) -> str:
        """The URL of the Redis that has the placement queue."""
        return self.queue_url or self.redis_url

    def public(self) -> dict[str, str | int | float | None]:
        """All values by attribute name, passwords hidden: what may be shown and logged."""
        values: dict[str, str | int | float | None] = msgspec.structs.asdict(self)
        for name in ("redis_url", "queue_url"):
            url = values[name]
            values[name] = redact(url) if isinstance(url, str) else None
        return values

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in self.public().items())})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:  # rich would print the fields themselves
        return list(self.public().items())


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


def _misspelt(fields: tuple[str, ...], env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    known = [variable(field) for field in fields]
    for name in env:
        if name.startswith(PREFIX) and name not in known:
            # Without the prefix, which would make any two alike.
            near = get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in known], 1, 0.8)
            if near:
                yield name, PREFIX + near[0]


def _is_count(name: str) -> bool:
    return name in _LIMITS and name != "sweep"


def _parsed(name: str, text: str) -> str | int | float:
    # What can't be parsed goes on as text: the check of all values names the variable and what is allowed.
    if name in {"redis_url", "queue_url", "namespace"}:
        return text
    try:
        return int(text) if _is_count(name) else float(text)
    except ValueError:
        return text


def _problem(name: str, value: object) -> str:
    if name in {"redis_url", "queue_url"}:
        if value is None and name == "queue_url":
            return ""
        found = problem_with(value) if isinstance(value, str) else "is not text"
        return found and f"{variable(name)} is a Redis URL, and this one {found}"
    if name == "namespace":
        if is_id(value):
            return ""
        return f"{variable(name)} is a name of 1 to 128 of A-Z a-z 0-9 _ . -, not {value!r:.60}"
    kind = "a whole number" if _is_count(name) else "a number of seconds"
    low, high = _LIMITS.get(name, _SECONDS)
    if _is_number(value, whole=_is_count(name)) and low <= value <= high:
        return ""
    return f"{variable(name)} is {kind} from {low:.10g} to {high:.10g}, not {value!r:.60}"


def _is_number(value: object, *, whole: bool) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return isinstance(value, int) if whole else math.isfinite(value)


def _contradictions(settings: Settings) -> Iterator[str]:
    for name, smaller, reason in _LARGER:
        value = getattr(settings, name)
        bound = sum(getattr(settings, other) for other in smaller)
        if value <= bound:
            others = " + ".join(variable(other) for other in smaller)
            yield f"{variable(name)} ({value:.10g}) has to be more than {others} ({bound:.10g}): {reason}"
    if settings.guard_ttl > settings.guard_hold:
        yield f"{variable('guard_ttl')} ({settings.guard_ttl:.10g}) has to be at most {variable('guard_hold')}"
    if settings.max_body > settings.max_inbox_bytes:
        yield f"{variable('max_body')} ({settings.max_body}) has to be at most {variable('max_inbox_bytes')}"
