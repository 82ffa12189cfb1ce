"""compose.yaml agrees with the command line, the settings and what the build needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from coordinator.cli.parser import parse
from coordinator.settings import PREFIX, Settings, variable
from coordinator.store.embedded import EmbeddedServer
from tests.readme.document import ROOT
from tests.support.processes import Process
from workers.agents.function import load_agent

TEXT = (ROOT / "compose.yaml").read_text()
OWN = {"COORDINATOR_REDIS_PASSWORD", "COORDINATOR_REDIS_PORT", "COORDINATOR_AGENT"}
"""Variables of the file itself."""

Spawn = Callable[..., Awaitable[Process]]


@pytest.fixture
def server_kind() -> str:
    """One server is enough for a deployment file."""
    return "bundled"


def filled(text: str) -> str:
    """Fill in the variables' defaults, as compose does with an empty environment."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def test_its_commands_are_commands() -> None:
    commands = [json.loads(filled(line)) for line in re.findall(r"command: (\[.*\])", TEXT)]
    assert {command[0] for command in commands} == {"coordinator"}
    options = [parse(command[1:]) for command in commands]
    assert [one.command for one in options] == ["worker", "orchestrator"]
    assert callable(load_agent(options[0].agent))


def test_its_variables_are_settings_or_its_own() -> None:
    names = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", TEXT))
    assert names - OWN <= {variable(name) for name in Settings.__struct_fields__}
    given = dict(re.findall(rf"^    ({PREFIX}\w+): \"(.*)\"$", TEXT, re.MULTILINE))
    env = {name: re.sub(r"\$\{\w+:\?[^}]*\}", "secret", filled(text)) for name, text in given.items()}
    settings = Settings.from_env(env)
    assert settings.redis_url == "redis://:secret@redis:6379/0"
    assert settings.drain == Settings().drain


def test_every_process_is_given_longer_than_its_drain() -> None:
    graces = re.findall(r"^    stop_grace_period: (\d+)s", TEXT, re.MULTILINE)
    assert len(graces) == 3
    assert all(int(grace) >= Settings().drain for grace in graces)


def test_the_image_gets_all_that_its_build_needs() -> None:
    copied = {name for line in re.findall(r"COPY (.+) \S+$", TEXT, re.MULTILINE) for name in line.split()}
    assert {"pyproject.toml", "README.md", "LICENSE", "coordinator", "workers", "lua"} <= copied
    assert [name for name in copied if not (ROOT / name).exists()] == []


async def test_its_health_checks_tell_a_living_worker(spawn: Spawn, server: EmbeddedServer) -> None:
    checks = [json.loads(line)[1] for line in re.findall(r"test: (\[.*\])", TEXT)]
    redis, worker, orchestrator = (check.replace("$$", "$") for check in checks)
    assert "redis-cli ping" in redis
    env = {"COORDINATOR_REDIS_URL": server.url}
    assert _shell(worker, env) == 1
    assert _shell(orchestrator, env) == 0
    await spawn("worker", "--agent", "workers.agents.scripted:agent", env=env)
    assert _shell(worker, env) == 0
    assert _shell(orchestrator, {"COORDINATOR_REDIS_URL": "redis://127.0.0.1:1/0"}) != 0


def _shell(command: str, env: dict[str, str]) -> int:
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    done = subprocess.run(
        ["/bin/sh", "-c", command], env={"PATH": path, **env}, capture_output=True, timeout=20, check=False
    )
    return done.returncode
