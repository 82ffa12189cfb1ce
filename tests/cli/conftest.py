"""Running the program as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.store.embedded import EmbeddedServer

ROOT = Path(__file__).parents[2]


class Ran(msgspec.Struct, frozen=True):
    """What one command line came to."""

    code: int
    out: str
    err: str

    @property
    def object(self) -> dict[str, Any]:
        """The one object on stdout."""
        (line,) = self.out.splitlines()
        return dict(json.loads(line))

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The objects on stdout, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> dict[str, str]:
        """The one object on stderr."""
        (line,) = self.err.splitlines()
        return dict(json.loads(line))


Run = Callable[..., Ran]


@pytest.fixture
def server_kind() -> str:
    """One server is enough for the command line."""
    return "bundled"


@pytest.fixture
def run_alone() -> Run:
    """Run `coordinator ARGUMENTS` with no server in its environment."""
    return _run


@pytest.fixture
def run(server: EmbeddedServer) -> Run:
    """Run `coordinator ARGUMENTS` on an empty server."""

    def on_server(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> Ran:
        return _run(*arguments, env={"COORDINATOR_REDIS_URL": server.url, **(env or {})}, **options)

    return on_server


def _run(*arguments: str, env: dict[str, str] | None = None, stdin: bytes = b"", **options: Any) -> Ran:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("COORDINATOR_")}
    done = subprocess.run(
        [sys.executable, "-m", "coordinator", *arguments],
        env={**clean, "PYTHONPATH": str(ROOT), **(env or {})},
        input=stdin,
        capture_output=True,
        timeout=45,
        check=False,
        **options,
    )
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in ran.err
    return ran
