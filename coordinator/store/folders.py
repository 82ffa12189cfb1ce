"""Locks between processes that share a folder; the system drops a lock with the process that holds it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SHARED: Final = fcntl.LOCK_SH
EXCLUSIVE: Final = fcntl.LOCK_EX
_TICK: Final = 0.005


def hold(path: Path, kind: int, timeout: float) -> int:
    """Lock the file, made if need be; the lock lives until the returned descriptor is closed.

    Raises TimeoutError when others keep it longer than `timeout` seconds.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    if wait_until(lambda: try_lock(descriptor, kind), timeout):
        return descriptor
    os.close(descriptor)
    raise TimeoutError(f"{path} stayed locked for {timeout:.3g} s")


@contextmanager
def held(path: Path, kind: int, timeout: float) -> Iterator[None]:
    """Lock the file inside a `with` block. Raises TimeoutError as `hold` does."""
    descriptor = hold(path, kind, timeout)
    try:
        yield
    finally:
        os.close(descriptor)


def may_lock(path: Path, kind: int) -> bool:
    """Whether a lock of that kind could be had just now; none is kept. A missing file is nobody's."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        return try_lock(descriptor, kind)
    finally:
        os.close(descriptor)


def try_lock(descriptor: int, kind: int) -> bool:
    """Take the lock if nobody is in the way."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_until(condition: Callable[[], bool], timeout: float) -> bool:
    """Wait, by looking every few milliseconds, since locks and ends of other processes send no word."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_TICK)
    return True
