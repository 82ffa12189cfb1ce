"""What an error of the Redis client means: the error for the user, whether to try again, whether the call may have run.

Texts of the server are quoted only where they can't hold arguments: an argument may be a password or a message's body.
"""

from __future__ import annotations

import ssl
from typing import Final

from redis import exceptions

from coordinator.domain.errors import CoordinatorError, ScriptContractError, StoreMisconfigured, StoreUnavailable

_SHOWN: Final = 200
_LATER: Final = {
    "BUSY": "Redis is busy with a long script; try again in a moment.",
    "CLUSTERDOWN": "The Redis Cluster is down; try again when its nodes agree again.",
    "LOADING": "Redis is loading its data; try again in a moment.",
    "MASTERDOWN": "The Redis replica has lost its master; try again after the failover.",
    "NOREPLICAS": "Redis has fewer replicas than its min-replicas-to-write asks for; try again when they are back.",
    "READONLY": "Redis is a read-only replica now; try again after the failover, or give the address of the master.",
    "TRYAGAIN": "The Redis Cluster is moving the keys; try again in a moment.",
}
_NEVER: Final = {
    "MISCONF": "Redis refuses writes because it can't persist them: look at its disk, its log and INFO persistence.",
    "MOVED": "Redis is a Cluster, which this build does not speak to yet: give the address of a single server.",
    "NOAUTH": "Redis wants a password: put it into the URL, as in redis://:PASSWORD@host.",
    "NOPROTO": "Redis does not know the protocol: version 7 or later is needed.",
    "OOM": "Redis is out of memory and refuses writes: raise its maxmemory, or shorten the retention settings.",
    "WRONGPASS": "Redis refuses this user name and password: look at those in the URL.",
}
_CLASSES: Final[tuple[tuple[type[Exception], str], ...]] = (
    (exceptions.BusyLoadingError, "LOADING"),
    (exceptions.ReadOnlyError, "READONLY"),
    (exceptions.OutOfMemoryError, "OOM"),
)
_NO_RIGHTS_IN_SCRIPT: Final = ("ACL failure in script", "The user executing the script can't")
# What redis-py says before it has sent anything.
_UNSENT: Final = ("connecting to", "No connection available", "Connection refused", "max number of clients")


def translate(error: BaseException) -> CoordinatorError:
    """Give the error to raise instead of one of the Redis client; one of the coordinator's own comes back as it is."""
    if isinstance(error, CoordinatorError):
        return error
    code = _code(error)
    if code in _LATER:
        return StoreUnavailable(_LATER[code])
    if code in _NEVER:
        return StoreMisconfigured(_NEVER[code])
    if isinstance(error, exceptions.NoPermissionError) or str(error).startswith(_NO_RIGHTS_IN_SCRIPT):
        return StoreMisconfigured(
            f"Redis refuses for want of rights: {_quoted(error)} Grant them to the user of the URL."
        )
    if isinstance(error, exceptions.ResponseError):
        return _refused(error)
    return _unreachable(error)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed later: the connection failed, or Redis is not ready for the moment."""
    return translate(error).retryable


def was_sent(error: BaseException) -> bool:
    """Whether the call may have run although it failed: it left, and no answer came. A refusal is an answer."""
    if isinstance(error, (exceptions.ResponseError, exceptions.AuthenticationError, exceptions.BusyLoadingError)):
        return False
    if isinstance(error, exceptions.DataError):
        return False
    return not any(words in str(error) for words in _UNSENT) and not isinstance(error, ConnectionRefusedError)


def _code(error: BaseException) -> str:
    if isinstance(error, exceptions.AuthenticationError):
        return "NOAUTH" if "uthentication required" in str(error) else "WRONGPASS"
    for kind, code in _CLASSES:
        if isinstance(error, kind):
            return code
    # The client keeps the first word of an answer that it has no class for.
    return str(error).split(" ", 1)[0] if isinstance(error, exceptions.ResponseError) else ""


def _refused(error: exceptions.ResponseError) -> CoordinatorError:
    text = str(error)
    if "unknown command" in text.lower() or "wrong number of arguments for 'auth'" in text.lower():
        return StoreMisconfigured("Redis does not know a command that is needed: version 7 or later is.")
    if "without any password configured" in text:
        return StoreMisconfigured("Redis has no password, and the URL gives one: leave it out, or set requirepass.")
    if "max number of clients" in text:
        return StoreUnavailable("Redis has as many clients as its maxclients allows; try again, or raise it.")
    return ScriptContractError(f"Redis refused a command: {_quoted(error)} This is a bug, please report it.")


def _unreachable(error: BaseException) -> CoordinatorError:
    text = _quoted(error)
    if isinstance(error, exceptions.DataError):
        return ScriptContractError(f"The Redis client refused a value: {text} This is a bug, please report it.")
    if isinstance(_root(error), ssl.SSLCertVerificationError):
        return StoreMisconfigured("Redis shows a certificate that is not trusted: look at ssl_ca_certs in the URL.")
    if "No connection available" in text:
        return StoreUnavailable("All connections of this process to Redis are in use; try again in a moment.")
    if "max number of clients" in text:
        return StoreUnavailable("Redis has as many clients as its maxclients allows; try again, or raise it.")
    if isinstance(error, (exceptions.TimeoutError, TimeoutError)):
        return StoreUnavailable("Redis does not answer in time; try again, and look whether it hangs or is overloaded.")
    if isinstance(error, (exceptions.ConnectionError, OSError)):
        return StoreUnavailable(f"Redis can't be reached: {text} Is it running, and is the address right?")
    return StoreMisconfigured(f"The Redis client can't work with these settings ({type(error).__name__}).")


def _root(error: BaseException) -> BaseException:
    while (inner := error.__cause__ or error.__context__) is not None:
        error = inner
    return error


def _quoted(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return f"{text[:_SHOWN].rstrip('.')}."
