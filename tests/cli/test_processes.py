"""Commands that are processes: up, demo, and how they end."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest

from coordinator import Coordinator
from coordinator.store.embedded import EmbeddedServer
from tests.cli.conftest import Run
from tests.conftest import Spawn

FLOW = """
[workflow.chat]
start = "talk"
[[workflow.chat.step]]
name = "talk"
prompt = "say hello"
auto_start = true
on_turn_complete = "next"
[[workflow.chat.step]]
name = "end"
terminal = true
"""


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def _gone(*pids: int) -> None:
    async with asyncio.timeout(10):
        while any(_lives(pid) for pid in pids):  # noqa: ASYNC110 - they are nobody's children here
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_up_serves_other_commands_and_takes_everything_with_it(spawn: Spawn, run_alone: Run, end: int) -> None:
    process = await spawn("up", "--json", "--redis", "embedded:", ready='"ready": true')
    told = json.loads(process.lines[-1])
    assert set(told) == {"ready", "redis_url", "namespace", "pids"}
    url = told["redis_url"]
    ran = await asyncio.to_thread(run_alone, "send", "s", "say hello", "--wait", "--redis", url)
    assert (ran.code, ran.out) == (0, "hello\n")
    process.signal(end)
    assert await process.ended(20) == (0 if end != signal.SIGKILL else -signal.SIGKILL)
    await _gone(*told["pids"].values())
    assert (await asyncio.to_thread(run_alone, "ls", "--redis", url)).code == 3


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
async def test_up_ends_soon_although_a_turn_runs(spawn: Spawn, run_alone: Run, end: int) -> None:
    process = await spawn("up", "--json", "--redis", "embedded:", ready='"ready": true')
    told = json.loads(process.lines[-1])
    async with Coordinator.connect(told["redis_url"]) as coord:
        await coord.session("s").open()
        await coord.session("s").send("hold never")
        async with asyncio.timeout(10):
            async for entry in coord.session("s").follow():
                if entry.type == "agent.running":
                    break
    process.signal(end)
    await process.ended(20)
    await _gone(*told["pids"].values())


async def test_up_names_a_worker_that_cannot_start(run_alone: Run) -> None:
    ran = await asyncio.to_thread(run_alone, "up", "--agent", "no_such:agent", "--redis", "embedded:")
    assert ran.code == 1
    assert ran.err.splitlines()[-1].startswith("coordinator: ChildFailed: worker ended at once: AgentInvalid")


async def test_up_runs_a_workflow(spawn: Spawn, run_alone: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(FLOW)
    arguments = ("--workflow", str(tmp_path / "flow.toml"), "--redis", "embedded:")
    process = await spawn("up", "--json", *arguments, ready='"ready": true')
    url = json.loads(process.lines[-1])["redis_url"]
    async with Coordinator.connect(url) as coord:
        session = coord.session("s")
        await session.open(workflow="chat")
        async with asyncio.timeout(20):
            await session.wait_idle()
        view = await session.snapshot()
        assert (view.step, view.turn) == ("end", 1)
    process.signal(signal.SIGINT)
    assert await process.ended(20) == 0


async def test_up_ends_when_its_worker_dies(spawn: Spawn) -> None:
    process = await spawn("up", "--json", "--redis", "embedded:", ready='"ready": true')
    os.kill(json.loads(process.lines[-1])["pids"]["worker"], signal.SIGKILL)
    assert await process.ended(20) == 1
    assert "ChildFailed" in process.output


@pytest.mark.parametrize("command", [("orchestrator",), ("worker", "--agent", "workers.agents.scripted:agent")])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
async def test_a_process_that_is_asked_to_end_ends_well(
    spawn: Spawn, server: EmbeddedServer, command: tuple[str, ...], end: int
) -> None:
    process = await spawn(*command, env={"COORDINATOR_REDIS_URL": server.url})
    process.signal(end)
    assert await process.ended(15) == 0


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_ends_although_its_agent_sits_in_a_thread(
    spawn: Spawn, server: EmbeddedServer, end: int
) -> None:
    """The turn has ended in Redis; the interpreter would wait for the thread."""
    env = {"COORDINATOR_REDIS_URL": server.url, "COORDINATOR_DRAIN": "0.2"}
    process = await spawn("worker", "--agent", "tests.cli.going_on:in_a_thread", env=env)
    async with Coordinator.connect(server.url) as coord:
        session = coord.session("s")
        await session.open()
        receipt = await session.send("go")
        async with asyncio.timeout(15):
            async for entry in session.follow():
                if entry.type == "output":
                    break
        process.signal(end)
        assert await process.ended(20) == 0
        assert (await session.result(receipt.message_id, timeout=5)).reason == "interrupted"
    assert "1 threads of agents or handlers go on" in process.output


@pytest.mark.parametrize("app", ["threading", "swallowing"])
async def test_an_orchestrator_ends_although_its_handler_does_not(
    spawn: Spawn, server: EmbeddedServer, app: str
) -> None:
    env = {"COORDINATOR_REDIS_URL": server.url, "COORDINATOR_DRAIN": "0.2", "COORDINATOR_HANDLER_TIMEOUT": "1"}
    process = await spawn("orchestrator", "--app", f"tests.cli.going_on:{app}", env=env)
    await spawn("worker", "--agent", "workers.agents.scripted:agent", env=env)
    async with Coordinator.connect(server.url) as coord:
        await coord.session("s").open()
        await coord.session("s").send("say hello")
        await process.says("^begun$")
    assert await process.terminate(20) == 0


async def test_an_interrupted_follower_ends_without_a_traceback(spawn: Spawn, server: EmbeddedServer) -> None:
    async with Coordinator.connect(server.url) as coord:
        await coord.session("s").open()
        process = await spawn("tail", "s", "-f", env={"COORDINATOR_REDIS_URL": server.url}, ready="session.opened")
        process.signal(signal.SIGINT)
        assert await process.ended() == 130
    assert len(process.lines) == 1


def test_the_demo_shows_its_story_and_loses_nothing(run_alone: Run) -> None:
    ran = run_alone("demo", env={"COORDINATOR_REDIS_URL": "redis://127.0.0.1:1", "COORDINATOR_LEASE": "senseless"})
    assert ran.code == 0, ran.out + ran.err
    last = ran.out.splitlines()[-1]
    counts = re.fullmatch(r"sessions=(\d+) turns=(\d+) stale=(\d+) lost_messages=0", last)
    assert counts is not None
    assert int(counts[3]) >= 1
    assert "ended 'lost'" in ran.out
    assert "answered STALE" in ran.out
    assert "each step was entered once: implement, check" in ran.out
    assert "the context was reset" in ran.out
    assert "asks: which database?" in ran.out


def test_the_demo_speaks_json(run_alone: Run) -> None:
    ran = run_alone("demo", "--json")
    assert ran.code == 0, ran.out + ran.err
    *story, summary = ran.objects
    assert all(set(line) == {"scene", "text"} for line in story)
    assert (summary["lost_messages"], summary["problems"]) == (0, [])
