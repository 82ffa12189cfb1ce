"""Which failures of a call may pass, and whether the call may have been carried out."""

from __future__ import annotations

import redis.exceptions

_TRANSIENT = (
    redis.exceptions.ConnectionError,
    redis.exceptions.TimeoutError,
    redis.exceptions.BusyLoadingError,
    redis.exceptions.ReadOnlyError,
    redis.exceptions.TryAgainError,
    redis.exceptions.MasterDownError,
    OSError,
)
_FINAL = (redis.exceptions.AuthenticationError, redis.exceptions.AuthorizationError)
_REFUSED_BY_SERVER = redis.exceptions.ResponseError


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a little later."""
    if isinstance(error, _FINAL):
        return False
    return isinstance(error, _TRANSIENT) or str(error).startswith(("MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN"))


def was_sent(error: BaseException) -> bool:
    """Whether the server may have carried the call out: it got it, and did not answer that it refuses."""
    if isinstance(error, (_REFUSED_BY_SERVER, redis.exceptions.BusyLoadingError, redis.exceptions.ReadOnlyError)):
        return False
    return "connecting to" not in str(error) and not isinstance(error, ConnectionRefusedError)
