"""A bundled server for trying out and for tests: `embedded:` in a temporary folder, `embedded:/folder` in a kept one.

Every process that opens the same folder shares one server: the first starts it, and the end of the last one, however
it comes, ends it. It listens on the loopback interface alone and appends every write to a file, so a kept folder's
data is there again at the next start, whatever was killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from coordinator.domain.errors import StoreMisconfigured, StoreUnavailable
from coordinator.store import folders
from coordinator.store.launch import Launch, PortTaken, Record, find_server, free_port, identify

if TYPE_CHECKING:
    from types import TracebackType

_TRIES: Final = 5
_PREFIX: Final = "embedded:"


class EmbeddedServer:
    """One user's hold on the server of a folder.

    Without `folder` a temporary one is made, and removed at the end. `binary` runs another server program, `port` asks
    for that port, `config` adds to the server's configuration; these count only if this hold starts the server.
    `timeout` bounds, in seconds, starting and ending. The methods block: from asyncio, call them in a thread.
    """

    def __init__(
        self,
        folder: str | Path | None = None,
        *,
        binary: str | Path | None = None,
        port: int = 0,
        config: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        self.temporary = folder is None
        made = Path(tempfile.mkdtemp(prefix="coordinator-")) if folder is None else Path(folder)
        self.folder = made.expanduser().absolute()
        self._binary = binary
        self._port = port
        self._config = dict(config or {})
        self._timeout = timeout
        self._record: Record | None = None
        self._users: int | None = None

    @property
    def record(self) -> Record:
        """The server's address and identity. Raises StoreUnavailable before `start` and after `stop`."""
        if self._record is None:
            raise StoreUnavailable("The embedded server is not started: start it first.")
        return self._record

    @property
    def url(self) -> str:
        """The address for any client, redis-cli too."""
        return self.record.url

    @property
    def port(self) -> int:
        """The TCP port on the loopback interface; the same one again after a restart."""
        return self.record.port

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self.record.pid

    def start(self) -> Self:
        """Join the folder's server, or start it.

        Raises StoreUnavailable if it doesn't answer in time, StoreMisconfigured if it can't run here at all.
        """
        with _explained(self.folder):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with folders.held(self.folder / "start.lock", folders.EXCLUSIVE, self._timeout):
                if self._users is None:
                    self._users = folders.hold(self.folder / "users.lock", folders.SHARED, self._timeout)
                try:
                    self._record = self._running() or self._launch()
                except BaseException:
                    self._let_go()
                    raise
        return self

    def stop(self) -> None:
        """Give the server up; unless others use it, it has ended when this returns. Without effect if not started."""
        if self._users is not None:
            self._let_go()
            folders.wait_until(self._ended_or_used, self._timeout)
        if self.temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL), for all its users; `start` runs it again as it was."""
        self._port = self.port
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        folders.wait_until(self._ended, self._timeout)

    def restart(self) -> None:
        """Crash the server and start it again on the same port and files."""
        self.kill()
        self.start()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def _running(self) -> Record | None:
        record = self._last()
        return record if record and identify(record.port, record.url) == (record.pid, record.run_id) else None

    def _last(self) -> Record | None:
        try:
            return msgspec.json.decode((self.folder / "server.json").read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            return None

    def _launch(self) -> Record:
        last = self._last()
        binary = self._binary or find_server()
        launch = Launch(self.folder, binary, self._config, self._timeout, remove=self.temporary)
        # After a crash the same port comes first, since others still know the server by it.
        ports = [self._port] if self._port else [last.port if last else free_port(), *[0] * _TRIES]
        for port in ports:
            try:
                record = launch.run(port or free_port())
            except PortTaken:
                continue
            _write(self.folder / "server.json", msgspec.json.encode(record))
            return record
        raise StoreUnavailable(f"The embedded server of {self.folder} found its port in use: end what listens there.")

    def _let_go(self) -> None:
        # Dropping the lock is what ends the server.
        if self._users is not None:
            os.close(self._users)
        self._users = self._record = None

    def _ended(self) -> bool:
        return folders.may_lock(self.folder / "server.lock", folders.EXCLUSIVE)

    def _ended_or_used(self) -> bool:
        users = self.folder / "users.lock"
        if self._ended():
            return True
        # Neither kind to be had: the keeper is ending the server. Both: it has not noticed yet. Else others use it.
        return not folders.may_lock(users, folders.EXCLUSIVE) and folders.may_lock(users, folders.SHARED)


def from_url(url: str) -> EmbeddedServer:
    """Make the hold, not started yet, that an `embedded:` or `embedded:/folder` address asks for."""
    return EmbeddedServer(url.removeprefix(_PREFIX).removeprefix("//") or None)


def _write(path: Path, data: bytes) -> None:
    # In one move, so that a process killed half-way leaves no torn record.
    fresh = path.with_suffix(".new")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
    fresh.replace(path)


@contextlib.contextmanager
def _explained(folder: Path) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise StoreUnavailable(f"The embedded server of {folder} is not ready in time: {error}.") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreMisconfigured(
            f"The embedded server can't use {folder}: {reason}. Give it another folder."
        ) from error
