"""The embedded server: shared by folder, gone with its last user, its data there again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

from coordinator.domain.errors import StoreMisconfigured, StoreUnavailable
from coordinator.store import folders
from coordinator.store.embedded import EmbeddedServer, from_url
from coordinator.store.launch import identify
from tests.support.processes import ROOT
from tests.support.servers import BINARIES

USER = """
import sys
from coordinator.store.embedded import EmbeddedServer
server = EmbeddedServer(sys.argv[1] or None).start()
print(server.url, server.pid, server.folder, flush=True)
sys.stdin.read()
"""


class User:
    """Another process that uses the embedded server of a folder."""

    def __init__(self, folder: Path | str) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, "-c", USER, str(folder)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        self.url, pid, found = self.process.stdout.readline().split()
        self.pid, self.folder = int(pid), Path(found)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


def call(url: str, *command: str | int) -> Any:
    with redis.Redis.from_url(url, decode_responses=True, socket_timeout=5) as client:
        return client.execute_command(*command)


def is_gone(pid: int, timeout: float = 5.0) -> bool:
    return folders.wait_until(lambda: not Path(f"/proc/{pid}").exists(), timeout)


@pytest.fixture(params=list(BINARIES))
def binary(request: pytest.FixtureRequest) -> Path | None:
    return BINARIES[request.param]


def test_a_temporary_server_is_safe_by_default_and_leaves_nothing(binary: Path | None) -> None:
    with EmbeddedServer(binary=binary) as server:
        url, pid, folder = server.url, server.pid, server.folder
        settings = {name: call(url, "CONFIG", "GET", name)[1] for name in ("appendonly", "maxmemory-policy", "bind")}
        assert settings == {"appendonly": "yes", "maxmemory-policy": "noeviction", "bind": "127.0.0.1"}
        assert folder.stat().st_mode & 0o077 == 0
    assert is_gone(pid)
    assert not folder.exists()


def test_a_kept_folder_has_its_data_after_a_stop_and_after_a_crash(tmp_path: Path, binary: Path | None) -> None:
    server = EmbeddedServer(tmp_path / "made", binary=binary)
    with server:
        call(server.url, "SET", "a", 1)
    with server:
        assert call(server.url, "GET", "a") == "1"
        port, pid = server.port, server.pid
        call(server.url, "CONFIG", "SET", "appendfsync", "always")
        call(server.url, "SET", "a", 2)
        server.restart()
        assert (server.port, call(server.url, "GET", "a")) == (port, "2")
        assert server.pid != pid


def test_processes_with_the_same_folder_share_one_server_until_the_last_is_killed(tmp_path: Path) -> None:
    first, second = User(tmp_path), User(tmp_path)
    try:
        assert first.url == second.url
        call(first.url, "SET", "a", 1)
        first.kill()
        assert call(second.url, "GET", "a") == "1"
        with EmbeddedServer(tmp_path) as third:
            assert third.pid == second.pid
        assert call(second.url, "GET", "a") == "1"
    finally:
        first.kill()
        second.kill()
    assert is_gone(first.pid)
    assert (tmp_path / "appendonlydir").exists()


def test_a_temporary_server_ends_with_its_killed_owner() -> None:
    user = User("")
    user.kill()
    assert is_gone(user.pid)
    assert folders.wait_until(lambda: not user.folder.exists(), 5)


def test_the_server_ends_even_if_its_keeper_is_killed(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        keeper = int(Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        os.kill(keeper, signal.SIGKILL)
        assert is_gone(server.pid)


def test_a_stopped_server_is_not_taken_for_an_ended_one(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        os.kill(server.pid, signal.SIGSTOP)
        os.kill(server.pid, signal.SIGCONT)
        assert call(server.url, "PING") in {True, "PONG"}
        assert not is_gone(server.pid, timeout=0.3)


def test_a_record_left_by_a_crash_is_not_believed(tmp_path: Path) -> None:
    with EmbeddedServer() as other, EmbeddedServer(tmp_path) as server:
        lie = (tmp_path / "server.json").read_bytes().replace(str(server.port).encode(), str(other.port).encode())
        server.kill()
        (tmp_path / "server.json").write_bytes(lie)
        with EmbeddedServer(tmp_path) as again:
            assert again.port not in {other.port, 0}
            assert identify(again.port, again.url) == (again.pid, again.record.run_id)


def test_many_starters_at_once_get_one_server(tmp_path: Path) -> None:
    holds = [EmbeddedServer(tmp_path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(EmbeddedServer.start, holds))
        assert len({hold.pid for hold in holds}) == 1
        pid = holds[0].pid
        list(pool.map(EmbeddedServer.stop, holds))
    assert is_gone(pid)


def test_a_server_that_can_not_run_says_why(tmp_path: Path) -> None:
    with pytest.raises(StoreMisconfigured, match="ended at once"):
        EmbeddedServer(tmp_path, config={"maxmemory-policy": "nonsense"}).start()
    (tmp_path / "file").touch()
    with pytest.raises(StoreMisconfigured, match="Give it another folder"):
        EmbeddedServer(tmp_path / "file").start()
    with EmbeddedServer() as other, pytest.raises(StoreUnavailable, match="port in use"):
        EmbeddedServer(tmp_path, port=other.port).start()
    with pytest.raises(StoreUnavailable, match="not started"):
        _ = EmbeddedServer(tmp_path).url


def test_addresses_name_the_folder() -> None:
    assert from_url("embedded:/var/x").folder == Path("/var/x")
    assert from_url("embedded:///var/x").folder == Path("/var/x")
    temporary = from_url("embedded:")
    assert temporary.temporary
    temporary.stop()
    assert not temporary.folder.exists()


def test_a_password_of_any_characters_works(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path, config={"requirepass": "a b:c@d/e%"}) as server:
        assert call(server.url, "PING") in {True, "PONG"}
        assert (tmp_path / "server.json").stat().st_mode & 0o077 == 0
