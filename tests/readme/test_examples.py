"""Every example of the README runs as it stands, on real servers and processes."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from coordinator import Coordinator, Orchestrator, Settings
from coordinator.store.embedded import EmbeddedServer
from tests.readme.document import ROOT, Block, blocks
from tests.support.processes import Process
from tests.support.watch import seen
from workers.process import run_worker

Spawn = Callable[..., Awaitable[Process]]

QUICKSTART: Final = "Five minutes"
REDIS: Final = "Where things are in redis-cli"
SCRIPTED: Final = "workers.agents.scripted:agent"
# Each word has to be in the answer of the command whose key ends so.
SHOWN: Final = {
    "task-42*": "coord:{p1-3}:session:task-42:log",
    "session:task-42": "generation",
    ":log": "turn.started",
    ":next-turn": "later-1",
    ":in-flight": "held-1",
    ":messages": "say later",
    ":awake": "later-1",
    ":guard": "owner",
    ":suspects": "x-",
    ":events": "agent.ready",
    ":dead": "it does not like that",
    ":deadlines": "lease:task-42",
    ":counters": "lost",
    "coord:workers": "w2",
}
FAILING: Final = """
def register(orchestrator):
    @orchestrator.on_turn_complete
    async def after(turn, session):
        raise ValueError("it does not like that")
"""
HURRIED: Final = {
    "COORDINATOR_HEARTBEAT": "0.2",
    "COORDINATOR_LEASE": "1",
    "COORDINATOR_SELF_STOP": "60",
    "COORDINATOR_SWEEP": "0.2",
    "COORDINATOR_HANDLER_TRIES": "1",
    "COORDINATOR_SCRIPTED_EXIT": "1",
}


@pytest.fixture
def server_kind() -> str:
    """One server is enough for examples."""
    return "bundled"


async def run(*command: str, url: str, cwd: Path) -> str:
    """Run a program as a user does, with this package's scripts on the PATH; gives what it printed."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith("COORDINATOR_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), clean.get("PATH", "")))
    done = await asyncio.to_thread(
        subprocess.run,
        command,
        env={**clean, "PATH": path, "COORDINATOR_REDIS_URL": url},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, f"{command[-1]}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


def promised(block: Block) -> list[str]:
    """What a Python block says that its prints print."""
    return [line.rpartition("  # ")[2] for line in block.lines if line.lstrip().startswith("print(") and "  # " in line]


async def test_the_quickstart_works_in_the_shell_and_in_python(spawn: Spawn, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/data"
    await spawn("up", env={"COORDINATOR_REDIS_URL": url}, ready="up, until Ctrl-C")
    shell, program = (block for block in blocks(QUICKSTART) if block.runs or block.language == "python")
    told = await run("bash", "-euo", "pipefail", "-c", shell.text, url=url, cwd=tmp_path)
    assert told.splitlines()[0] == "hello"
    assert "task-42 is idle, turn 2" in told
    assert "text=steered: use pytest" in told
    assert re.search(r"generation +4", told)
    (tmp_path / "program.py").write_text(program.text)
    told = await run(sys.executable, "program.py", url=url, cwd=tmp_path)
    assert told.splitlines() == promised(program)
    assert len(promised(program)) == 3


async def test_what_is_stopped_and_replaced_comes_out_as_told(spawn: Spawn, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/data"
    await spawn("up", env={"COORDINATOR_REDIS_URL": url}, ready="up, until Ctrl-C")
    (program,) = blocks("Stopping and replacing")
    (tmp_path / "program.py").write_text(program.text)
    told = await run(sys.executable, "program.py", url=url, cwd=tmp_path)
    assert told.splitlines() == promised(program)
    assert len(promised(program)) == 2


async def test_the_workflow_is_right_and_walked_as_told(spawn: Spawn, tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/data"
    flow, program = blocks("Workflows, prompts, resets, questions")
    assert (flow.language, program.language) == ("toml", "python")
    (tmp_path / "flow.toml").write_text(flow.text)
    (tmp_path / "program.py").write_text(program.text)
    await run("coordinator", "workflow", "check", "flow.toml", url=url, cwd=tmp_path)
    await spawn(
        "up", "--workflow", str(tmp_path / "flow.toml"), env={"COORDINATOR_REDIS_URL": url}, ready="up, until Ctrl-C"
    )
    told = await run(sys.executable, "program.py", url=url, cwd=tmp_path)
    assert told.splitlines() == promised(program)
    assert len(promised(program)) == 3


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, str]:
    """The modules of the section on agents, written down; gives the command lines that they name, by module."""
    commands = {}
    for block in blocks("Writing an agent"):
        if found := re.match(r"# (\w+)\.py: coordinator (.+)\n", block.text):
            (tmp_path / f"{found[1]}.py").write_text(block.text)
            commands[found[1]] = found[2]
    assert commands.keys() == {"agents", "app"}
    return commands


async def test_the_agent_and_the_handlers_work(
    modules: dict[str, str], spawn: Spawn, server: EmbeddedServer, tmp_path: Path
) -> None:
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    env = {"COORDINATOR_REDIS_URL": server.url, "PYTHONPATH": path}
    for command in modules.values():
        await spawn(*shlex.split(command), env=env)
    told = await run("coordinator", "send", "task-50", "one two", "--wait", url=server.url, cwd=tmp_path)
    assert told.split("\n")[:2] == ["1 one", "2 two"]
    told = await run("coordinator", "send", "task-51", "guess", "--wait", url=server.url, cwd=tmp_path)
    assert told.splitlines() == ["1 guess", "7"]
    async with Coordinator.connect(server.url) as coord:
        session = coord.session("task-50")
        await seen(session, "output", turn="2", text="3 thanks\n")
        await seen(session, "turn.settled", turn="2")
        assert (await session.snapshot()).resume_token == "3"


async def test_everything_fits_into_one_process(modules: dict[str, str], tmp_path: Path) -> None:
    assert modules
    spec = importlib.util.spec_from_file_location("readme_agents", tmp_path / "agents.py")
    assert spec is not None
    assert spec.loader is not None
    agents: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(agents)
    async with Coordinator.connect("embedded:") as coord:
        tasks = [
            asyncio.create_task(Orchestrator(coord).run(handle_signals=False)),
            asyncio.create_task(run_worker(coord.settings, agents.greet, handle_signals=False)),
        ]
        session = coord.session("task-44")
        await session.open()
        receipt = await session.send("Ada")
        assert (await session.result(receipt.message_id, timeout=20)).text == "hello, Ada"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_every_redis_command_shows_what_it_says(spawn: Spawn, server: EmbeddedServer, tmp_path: Path) -> None:
    (block,) = blocks(REDIS)
    assert block.runs
    (tmp_path / "failing.py").write_text(FAILING)
    env = {"COORDINATOR_REDIS_URL": server.url, **HURRIED, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    async with Coordinator.connect(Settings.from_env(env)) as coord:
        session = coord.session("task-42")
        await session.open()
        await spawn("orchestrator", "--app", "failing:register", env=env)
        await spawn("worker", "--agent", SCRIPTED, "--worker-id", "w1", env=env)
        await session.send("exit")
        await seen(session, "turn.ended", turn="1", reason="lost")
        await spawn("worker", "--agent", SCRIPTED, "--worker-id", "w2", env=env)
        await session.send("say hello")
        await seen(session, "turn.settled", turn="2", outcome="failed")
        await session.send("hold gate", message_id="held-1")
        await seen(session, "agent.running", turn="3")
        await session.send("say later", message_id="later-1")
        async with session.guard():
            for line in block.lines:
                await asyncio.to_thread(check_redis_command, line, server.url)
        await coord.kernel.store.redis.set("coord:scripted:gate", "1")
        await session.wait_idle(timeout=15)


def check_redis_command(line: str, url: str) -> None:
    program, *arguments = shlex.split(line, comments=True)
    assert program == "redis-cli"
    told = ask_redis(arguments, url)
    key = next((argument for argument in arguments if argument.startswith("coord:")), "")
    expected = [word for end, word in SHOWN.items() if key.endswith(end)]
    if arguments[0] == "XPENDING":
        assert told.splitlines()[0].isdigit(), line
    else:
        assert expected, f"no answer is known for {line}"
        assert all(word in told for word in expected), f"{line}\n{told}"


def ask_redis(arguments: list[str], url: str) -> str:
    """Ask through redis-cli where it is installed, and through the client library elsewhere."""
    if program := shutil.which("redis-cli"):
        done = subprocess.run(
            [program, "-e", "-u", url, *arguments], capture_output=True, text=True, timeout=10, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
    with redis.Redis.from_url(url, decode_responses=True) as client:
        if arguments[0] == "--scan":
            return "\n".join(client.scan_iter(match=arguments[2]))
        answer: Any = client.execute_command(*arguments)
        return "\n".join(map(str, answer.values() if arguments[0] == "XPENDING" else [answer]))


async def test_the_rights_are_enough(spawn: Spawn, server: EmbeddedServer, tmp_path: Path) -> None:
    (rights,) = (block for block in blocks("Running it for real") if block.language == "sh")
    _, *arguments = shlex.split(rights.text)
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        client.execute_command(*arguments)
        try:
            client.execute_command("ACL", "LOG", "RESET")
            url = server.url.replace("redis://", "redis://coordinator:SECRET@")
            env = {"COORDINATOR_REDIS_URL": url, **HURRIED}
            await spawn("orchestrator", env=env)
            killed = await spawn("worker", "--agent", SCRIPTED, env=env)
            assert await run("coordinator", "send", "a", "say hello", "--wait", url=url, cwd=tmp_path) == "hello\n"
            await killed.kill()
            leaving = await spawn("worker", "--agent", SCRIPTED, env=env)
            assert await run("coordinator", "send", "a", "say again", "--wait", url=url, cwd=tmp_path) == "again\n"
            for command in ("doctor", "stats", "ls", "workers", "show a", "tail a", "inbox a", "close a"):
                await run("coordinator", *command.split(), url=url, cwd=tmp_path)
            assert await leaving.terminate() == 0
            assert client.execute_command("ACL", "LOG") == []
        finally:
            client.execute_command("ACL", "DELUSER", "coordinator")
