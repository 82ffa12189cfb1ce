"""Runs one embedded server for exactly as long as somebody uses it.

A program of its own, of the standard library alone, started as `python keeper.py FOLDER keep|remove SERVER ARGUMENT…`.
Who uses the server holds a shared lock on FOLDER/users.lock, which the system drops however that process ends. The
keeper waits for the exclusive lock: when it gets it, nobody is left. It prints the server's process id; its output
is closed when the server has ended. The server holds FOLDER/server.lock itself, so no second one touches its files.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

_SET_PARENT_DEATH_SIGNAL = 1
_GRACE = 10.0
_TICK = 0.01


def main(folder: Path, at_end: str, command: list[str]) -> None:
    """Start the server, wait until nobody uses it, end it."""
    if os.fork():
        os._exit(0)  # whoever started the keeper need not wait for it, nor be its parent
    users = os.open(folder / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    server = _start(folder, command)
    # The server's own end is the keeper's end too; a server that is only stopped for a while sends the same signal.
    signal.signal(signal.SIGCHLD, lambda *_: _leave_if_ended(server))
    _leave_if_ended(server)
    sys.stdout.write(f"{server}\n")
    sys.stdout.flush()
    fcntl.flock(users, fcntl.LOCK_EX)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _end(server)
    (folder / "server.json").unlink(missing_ok=True)
    if at_end == "remove":
        shutil.rmtree(folder, ignore_errors=True)


def _leave_if_ended(server: int) -> None:
    if os.waitpid(server, os.WNOHANG)[0]:
        os._exit(0)


def _start(folder: Path, command: list[str]) -> int:
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    lock = os.open(folder / "server.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit("another server has this folder, and server.json does not lead to it")
    keeper = os.getpid()
    if not (server := os.fork()):
        _become(libc, keeper, folder, lock, command)
    os.close(lock)
    return server


def _become(libc: ctypes.CDLL | None, keeper: int, folder: Path, lock: int, command: list[str]) -> NoReturn:
    try:
        if libc is not None:
            libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
            if os.getppid() != keeper:
                os._exit(1)
        os.set_inheritable(lock, True)  # noqa: FBT003
        log = os.open(folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(folder)
        os.execv(command[0], command)  # noqa: S606
    finally:
        os._exit(1)


def _end(server: int) -> None:
    os.kill(server, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE
    while os.waitpid(server, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
            return
        time.sleep(_TICK)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
