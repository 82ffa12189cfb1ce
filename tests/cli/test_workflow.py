"""workflow check and workflow show as a user runs them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from coordinator import Coordinator, Step, Workflow
from coordinator.cli import main
from coordinator.store.embedded import EmbeddedServer
from tests.cli.conftest import Run

FLOW = """\
[workflow.review]
start = "implement"

[[workflow.review.step]]
name = "implement"
prompt = "say it"
on_turn_complete = "next"
requires_signal = true
cancel_triggers_turn_complete = true

[[workflow.review.step]]
name = "check"
prompt = "say checked"
auto_start = true
reset_agent_context = true
terminal = true

[workflow.chat]
start = "talk"

[[workflow.chat.step]]
name = "talk"
"""
TABLES = """\
review starts at implement
STEP       ON ENTRY                         AT A TURN'S END  NEEDS A SIGNAL  A PERSON'S STOP
implement  waits, its prompt is not sent    leads to check   yes             counts as its turn's end
check      fresh context, sends its prompt  terminal         no              leads nowhere

chat starts at talk
STEP  ON ENTRY  AT A TURN'S END  NEEDS A SIGNAL  A PERSON'S STOP
talk  waits     stays            no              leads nowhere
"""
WRONG = FLOW.replace('start = "talk"', 'start = "walk"').replace("auto_start = true", "auto_start = 1")
USAGE = [
    ("workflow",),
    ("workflow", "look"),
    ("workflow", "check"),
    ("workflow", "check", "a", "b"),
    ("workflow", "show"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_a_wrong_command_line_is_exit_2(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("coordinator: Usage: ")


def test_a_right_file_is_shown_without_a_server(run_alone: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(FLOW)
    nowhere = {"COORDINATOR_REDIS_URL": "redis://127.0.0.1:1/0"}
    ran = run_alone("workflow", "check", "flow.toml", cwd=tmp_path, env=nowhere)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == TABLES
    ran = run_alone("workflow", "check", "flow.toml", "--json", cwd=tmp_path, env=nowhere)
    assert [(step["workflow"], step["name"], step["start"], step["leads_to"]) for step in ran.objects] == [
        ("review", "implement", "implement", "check"),
        ("review", "check", "implement", ""),
        ("chat", "talk", "talk", ""),
    ]
    assert all(ran.objects[1][name] is True for name in ("auto_start", "reset_agent_context", "terminal"))
    assert set(ran.objects[2]) == {"workflow", "start", "leads_to", *Step.__struct_fields__}


def test_a_wrong_file_is_exit_1_and_a_line_for_each_mistake(run_alone: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(WRONG)
    problems = [
        "flow.toml:14: step 'check' of workflow 'review': auto_start is a number, and has to be true or false.",
        "flow.toml:19: workflow 'chat': start names 'walk', which is no step; there are talk.",
    ]
    ran = run_alone("workflow", "check", "flow.toml", cwd=tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.removeprefix("coordinator: WorkflowInvalid: ").splitlines() == problems
    ran = run_alone("workflow", "check", "flow.toml", "--json", cwd=tmp_path)
    assert (ran.code, ran.out, ran.error) == (1, "", {"error": "WorkflowInvalid", "message": "\n".join(problems)})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.toml", "nowhere.toml can't be read: No such file"),
        (".", "can't be read: Is a dir"),
        ("bin", "bin:1: "),
    ],
)
def test_what_is_no_file_of_workflows_is_named(run_alone: Run, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "bin").write_bytes(b"\xff\x00")
    ran = run_alone("workflow", "check", name, cwd=tmp_path)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coordinator: WorkflowInvalid: ")
    assert said in ran.err


def test_terminal_controls_of_a_file_are_shown_and_not_obeyed(run_alone: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(
        '[workflow."\\u001b[2J"]\nstart = "\\u001b[31m"\n[[workflow."\\u001b[2J".step]]\n'
    )
    ran = run_alone("workflow", "check", "flow.toml", cwd=tmp_path)
    assert ran.code == 1
    assert "\x1b" not in ran.err


async def test_a_session_is_shown_at_its_step(run: Run, server: EmbeddedServer) -> None:
    async def show(*options: str, session: str = "s") -> str:
        return (await asyncio.to_thread(run, "workflow", "show", session, *options)).out

    steps = (Step(name="a", on_turn_complete="next"), Step(name="b", prompt="x", auto_start=True))
    async with Coordinator.connect(server.url) as coord:
        session = coord.session("s")
        assert await coord.session("bare").open()
        assert "an orchestrator with --workflow publishes some" in await show(session="bare")
        await coord.kernel.workflows.publish([Workflow(name="w", start="a", steps=steps)])
        assert await show(session="bare") == (
            "bare is on no workflow; `coordinator open bare --workflow NAME`; published: w\n"
        )
        await session.open(workflow="w")
        assert "a (being entered)" in await show()
        entry = (await session.snapshot()).entering
        assert await coord.kernel.workflows.enter_end("s", entry, "1-1")
        await session.signal()
        told = [line.split() for line in (await show()).splitlines()]
        assert ["workflow", "w"] in told
        assert ["step", "a", "(entered)"] in told
        assert ["signalled", "yes"] in told
        assert [line[0] for line in told[-3:]] == ["STEP", "*", "b"]
        seen = (await asyncio.to_thread(run, "workflow", "show", "s", "--json")).object
        assert {name: seen[name] for name in ("workflow", "step", "entering", "pending_move", "signalled")} == {
            "workflow": "w",
            "step": "a",
            "entering": "",
            "pending_move": "",
            "signalled": True,
        }
        assert (seen["published"], seen["step_entry"], seen["step_failed"]) == (True, entry, False)
        assert [(step["name"], step["present"], step["leads_to"]) for step in seen["steps"]] == [
            ("a", True, "b"),
            ("b", False, ""),
        ]
        assert await session.move("b") == "applied"
        assert await session.move("a") == "pending"
        told = [line.split() for line in (await show()).splitlines()]
        assert ["step", "b", "(being", "entered)"] in told
        assert ["pending", "move", "a"] in told
        await coord.kernel.workflows.publish([Workflow(name="w", start="z", steps=(Step(name="z"),))])
        assert "is no step any more" in await show()
        assert "step b is signalled, but is no published step" in (await asyncio.to_thread(run, "signal", "s")).out
        await coord.kernel.store.redis.delete(coord.kernel.store.keys.workflows)
        assert "its workflow is not published" in await show()
        assert (await asyncio.to_thread(run, "workflow", "show", "s", "--json")).object["steps"] == []


def test_an_unknown_session_is_named(run: Run) -> None:
    ran = run("workflow", "show", "nobody")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coordinator: SessionUnknown: ")
    assert run("workflow", "show", "a b").err.startswith("coordinator: InvalidId: ")
