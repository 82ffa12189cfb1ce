"""prompt, reset, move, signal, answer and open --workflow as a user runs them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis

from coordinator import Coordinator, Settings
from coordinator.cli import main
from coordinator.domain.records import LogEntry
from coordinator.store.embedded import EmbeddedServer
from coordinator.store.keys import Keys
from tests.cli.conftest import Ran, Run
from tests.conftest import Spawn

FLOW = """
[workflow.review]
start = "implement"

[[workflow.review.step]]
name = "implement"
on_turn_complete = "next"
requires_signal = true

[[workflow.review.step]]
name = "check"
prompt = "say checked"
auto_start = true
reset_agent_context = true
terminal = true
"""
USAGE = [
    ("prompt", "s"),
    ("prompt", "s", "text", "--timeout", "0"),
    ("reset",),
    ("reset", "s", "--timeout", "soon"),
    ("move", "s"),
    ("signal",),
    ("answer", "s", "q-1"),
    ("answer", "s", "q-1", "text", "--timeout", "3"),
]


@pytest.fixture
async def deployment(spawn: Spawn, server: EmbeddedServer, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(FLOW)
    env = {"COORDINATOR_REDIS_URL": server.url}
    await asyncio.gather(
        spawn("orchestrator", "--workflow", str(tmp_path / "flow.toml"), env=env),
        spawn("worker", "--agent", "workers.agents.scripted:agent", "--worker-id", "w1", env=env),
    )


async def _run(run: Run, *arguments: str) -> Ran:
    return await asyncio.to_thread(run, *arguments)


async def until(server: EmbeddedServer, kind: str, **fields: str) -> LogEntry:
    """Wait for a log entry of session s."""
    async with Coordinator.connect(server.url) as coord, asyncio.timeout(15):
        async for entry in coord.session("s").follow():
            if entry.type == kind and fields.items() <= entry.fields.items():
                return entry
    raise AssertionError(kind)


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_a_wrong_command_line_is_exit_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("coordinator: Usage: ")


@pytest.mark.parametrize("command", ["reset", "move", "signal", "answer"])
def test_an_unknown_session_is_named_and_not_opened(run: Run, command: str) -> None:
    ran = run(command, "nobody", *{"move": ["a"], "answer": ["q-1", "text"]}.get(command, []))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coordinator: SessionUnknown: ")
    assert run("ls", "--json").out == ""


def test_without_workers_each_says_what_is_so(run: Run) -> None:
    ran = run("prompt", "s", "-", "--timeout", "0.3", "--json", stdin=b"from stdin\n")
    assert (ran.code, ran.error["error"]) == (1, "PredecessorPending")
    assert "coordinator explain s" in ran.error["message"]
    assert run("show", "s", "--json").object["status"] == "running"
    assert run("reset", "t", "--json").error["error"] == "SessionUnknown"
    assert run("open", "t", "--workflow", "review").err.startswith("coordinator: WorkflowUnknown: ")
    assert run("open", "t", "--json").object["created"] is True
    ran = run("reset", "t", "--operation-id", "r-1", "--json")
    assert (ran.code, ran.object) == (0, {"session_id": "t", "reset_outcome": "committed"})
    assert run("reset", "t", "--operation-id", "r-1").out == "t has a fresh context\n"
    assert run("move", "t", "check").err.startswith("coordinator: UnknownStep: ")
    assert run("signal", "t").err.startswith("coordinator: UnknownStep: ")
    assert run("answer", "t", "q-1", "x").err.startswith("coordinator: QuestionClosed: ")
    assert "last reset committed (r-1)" in run("explain", "t").out


def test_doctor_finds_what_nothing_will_end(run: Run, server: EmbeddedServer) -> None:
    keys, record = Keys("coord", Settings().partitions), redis.Redis.from_url(server.url)
    for name, field in (
        ("resetting", "reset_id"),
        ("entering", "entering"),
        ("asking", "question_id"),
        ("well", "step"),
    ):
        run("open", name)
        record.hset(keys.session(name)["session"], field, "x-1")
    record.close()
    found = {one["name"]: one for one in run("doctor", "--json").objects}
    assert found["sessions"]["found"] == "3 are busy without a deadline: asking, entering, resetting"
    assert found["orchestrators"]["found"] == "no orchestrator has swept yet; 1 sessions under way"
    assert (found["orchestrators"]["ok"], found["workers"]["ok"]) == (False, True)
    states = {row[0]: row[1] for row in map(str.split, run("ls").out.splitlines()[1:])}
    assert states == {"resetting": "resetting", "entering": "entering", "asking": "asking", "well": "idle"}


async def test_a_prompt_returns_at_acceptance_and_names_its_turn(
    deployment: None, run: Run, server: EmbeddedServer
) -> None:
    ran = await _run(run, "prompt", "s", "hold never", "--message-id", "p-1", "--sender", "ada", "--json")
    assert (ran.code, ran.object) == (0, {"session_id": "s", "message_id": "p-1", "turn": 1, "generation": 1})
    quick = {"COORDINATOR_PREDECESSOR_WAIT": "0.4"}
    ran = await asyncio.to_thread(run, "prompt", "s", "say next", env=quick)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coordinator: PredecessorPending: ")
    assert "generation 1 of execution" in ran.err
    await _run(run, "cancel", "s", "--wait")
    ran = await _run(run, "prompt", "s", "say next", "--message-id", "p-2")
    assert ran.out == "p-2 accepted: turn 2, generation 2\n"


async def test_a_reset_stops_what_runs_and_what_is_sent_meanwhile_runs_afterwards(
    deployment: None, run: Run, server: EmbeddedServer
) -> None:
    await _run(run, "prompt", "s", "hold never")
    ran = await _run(run, "reset", "s", "--timeout", "20")
    assert (ran.code, ran.out) == (0, "s has a fresh context\n")
    assert (await until(server, "turn.ended", turn="1")).fields["reason"] == "cancelled"
    assert (await _run(run, "send", "s", "say afterwards", "--wait")).out == "afterwards\n"


async def test_a_workflow_is_walked_by_signals_and_moves(deployment: None, run: Run, server: EmbeddedServer) -> None:
    ran = await _run(run, "open", "s", "--workflow", "review", "--json")
    assert (ran.object["created"], ran.object["workflow"]) == (True, "review")
    assert (await _run(run, "wait", "s", "--timeout", "20")).code == 0
    shown = (await _run(run, "show", "s", "--json")).object
    assert (shown["workflow"], shown["step"], shown["entering"]) == ("review", "implement", "")
    assert (await _run(run, "send", "s", "say stays", "--wait")).out == "stays\n"
    assert (await _run(run, "move", "s", "nowhere")).err.startswith("coordinator: UnknownStep: ")
    ran = await _run(run, "signal", "s", "--json")
    assert (ran.code, ran.object) == (0, {"session_id": "s", "signalled": True})
    assert "step implement (entered), signalled" in (await _run(run, "explain", "s")).out
    assert (await _run(run, "send", "s", "say goes on", "--wait")).out == "goes on\n"
    await until(server, "turn.ended", turn="3", reason="completed")
    assert (await _run(run, "wait", "s", "--timeout", "20")).code == 0
    shown = (await _run(run, "show", "s", "--json")).object
    assert (shown["step"], shown["turn"], shown["reset_outcome"]) == ("check", 3, "committed")
    assert (await _run(run, "move", "s", "check")).out == "s is at step check already, and does not enter it again\n"
    assert "waits for no signal" in (await _run(run, "signal", "s")).out
    ran = await _run(run, "move", "s", "implement", "--json")
    assert ran.object == {"session_id": "s", "step": "implement", "outcome": "applied"}
    assert (await _run(run, "wait", "s", "--timeout", "20")).code == 0
    await _run(run, "prompt", "s", "hold never")
    ran = await _run(run, "move", "s", "check", "--defer")
    assert ran.out == "s moves to step check as soon as what is under way is settled\n"
    assert (await _run(run, "show", "s", "--json")).object["pending_move"] == "check"
    assert (await _run(run, "ls")).out.splitlines()[0].split()[5] == "STEP"


async def test_a_question_is_shown_answered_and_then_closed(deployment: None, run: Run, server: EmbeddedServer) -> None:
    await _run(run, "send", "s", "ask which one?")
    question = (await until(server, "question.asked")).fields["question_id"]
    told = (await _run(run, "explain", "s", "--json")).object
    assert (told["question"], told["question_text"], told["waiting_for"]) == (question, "which one?", "question")
    assert "which one?" in (await _run(run, "explain", "s")).out
    ran = await _run(run, "answer", "s", question, "that one", "--wait", "--timeout", "20")
    assert (ran.code, ran.out) == (0, "answer: that one\n")
    assert (await _run(run, "answer", "s", question, "x")).err.startswith("coordinator: QuestionClosed: ")
