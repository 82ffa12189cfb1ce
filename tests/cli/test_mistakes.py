"""A user's mistakes: the exit code, the error's name, one sentence, no traceback, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coordinator.cli import main
from tests.cli.conftest import Run

USAGE = [
    (),
    ("nope",),
    ("send",),
    ("send", "s"),
    ("send", "s", "text", "more"),
    ("send", "s", "text", "--on-busy", "replace-it"),
    ("send", "s", "text", "--on"),
    ("send", "s", "text", "--timeout", "3"),
    ("wait", "s", "--timeout", "soon"),
    ("wait", "s", "--timeout", "-1"),
    ("worker",),
    ("worker", "--agent", "a:b", "--max-sessions", "0"),
    ("open", "s", "--lost-turns", "maybe"),
    ("ls", "--redis"),
    ("orchestrator", "--workflow"),
    ("cancel", "s", "--kind", "replace"),
    ("cancel", "s", "--keep-inbox", "--clear-inbox"),
    ("cancel", "s", "--timeout", "3"),
    ("cancel", "s", "--expected-turn", "0"),
    ("replace", "s"),
    ("replace", "s", "text", "--entry", "m"),
    ("interrupt", "s"),
    ("inbox", "s", "shuffle"),
    ("inbox", "s", "remove"),
    ("inbox", "s", "replace", "m"),
]


@pytest.mark.parametrize("arguments", USAGE, ids=" ".join)
def test_a_wrong_command_line_is_exit_2_and_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("coordinator: Usage: ")
    assert said.err.count("\n") == 1
    assert "--help" in said.err
    assert main((*arguments, "--json")) == 2
    assert set(json.loads(capsys.readouterr().err)) == {"error", "message"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("send", "s", "--mesage-id", "a", "hi"), "--mesage-id is unknown here, did you mean --message-id?; see `"),
        (("send", "s", "hi", "there"), "there is unknown here; see `"),
        (("ls", "--nothing-like-it=3"), "--nothing-like-it is unknown here; see `"),
    ],
)
def test_a_misspelt_option_is_named_with_what_was_meant(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    """Not the words that it has left without a place; the help is the command's."""
    assert main(arguments) == 2
    assert capsys.readouterr().err == f"coordinator: Usage: {says}coordinator {arguments[0]} --help`\n"


def test_a_process_with_a_wrong_command_line_exits_with_2(run_alone: Run) -> None:
    ran = run_alone("--json", "nope")
    assert (ran.code, ran.out, ran.error["error"]) == (2, "", "Usage")


def test_help_and_version_need_no_server(run_alone: Run) -> None:
    for arguments in (("--help",), ("send", "--help"), ("--version",)):
        ran = run_alone(*arguments)
        assert (ran.code, ran.err) == (0, "")
        assert ran.out


@pytest.mark.parametrize("command", ["ls", "doctor", "send s text", "worker --agent a:b", "tail s -f"])
def test_an_unreachable_redis_is_exit_3(run_alone: Run, command: str) -> None:
    url = "redis://user:geheim@127.0.0.1:1/0"
    if command.startswith("worker"):
        command = "worker --agent workers.agents.scripted:agent"
    ran = run_alone(*command.split(), "--redis", url)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith("coordinator: StoreUnavailable: ")
    again = run_alone("--redis", url, "--json", *command.split())
    assert (again.code, again.error["error"]) == (3, "StoreUnavailable")
    assert "geheim" not in ran.err + again.err


SETTINGS = [
    ({"COORDINATOR_LEASE": "long"}, "COORDINATOR_LEASE"),
    ({"COORDINATOR_REDIS_URL": "http://127.0.0.1"}, "COORDINATOR_REDIS_URL"),
    ({"COORDINATOR_PARTITIONS": "0"}, "COORDINATOR_PARTITIONS"),
    ({"COORDINATOR_NAMESPACE": "a{b}"}, "COORDINATOR_NAMESPACE"),
]


@pytest.mark.parametrize(("env", "named"), SETTINGS, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_setting_is_named(run_alone: Run, env: dict[str, str], named: str) -> None:
    ran = run_alone("ls", env=env)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coordinator: SettingsError: ")
    assert named in ran.err


def test_another_partition_count_is_refused(run: Run) -> None:
    assert run("open", "s").code == 0
    ran = run("ls", "--json", env={"COORDINATOR_PARTITIONS": "4"})
    assert (ran.code, ran.error["error"]) == (1, "StoreMisconfigured")
    assert "16" in ran.error["message"]


@pytest.mark.parametrize(
    "command",
    ["show", "tail", "inbox", "wait", "close", "steer", "inject", "cancel", "interrupt", "explain", "replace"],
)
def test_an_unknown_session_is_named(run: Run, command: str) -> None:
    text = ["text"] if command in {"steer", "inject", "interrupt"} else []
    text = ["--entry", "m"] if command == "replace" else text
    ran = run(command, "nobody", *text)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("coordinator: SessionUnknown: ")
    assert "nobody" in ran.err
    assert run("ls", "--json").out == ""


def test_refused_messages_are_named_and_change_nothing(run: Run) -> None:
    assert run("send", "a b", "text").err.startswith("coordinator: InvalidId: ")
    assert run("send", "s", "text", "--message-id", "a b").err.startswith("coordinator: InvalidId: ")
    assert run("send", "s", "").code == 1
    assert run("send", "s", "-", stdin=b"").code == 1
    assert run("send", "s", "-", stdin=b"\xff\xfe").err.startswith("coordinator: UsageError: stdin is not UTF-8")
    small = {"COORDINATOR_MAX_BODY": "10", "COORDINATOR_MAX_INBOX": "2"}
    assert run("send", "s", "x" * 11, env=small).err.startswith("coordinator: MessageTooLarge: ")
    assert run("send", "s", "one", "--message-id", "m-1", env=small).code == 0
    assert run("send", "s", "two", "--message-id", "m-1", env=small).err.startswith("coordinator: ConflictingRepeat: ")
    assert run("send", "s", "two", "--on-busy", "reject").err.startswith("coordinator: SessionBusy: ")
    assert run("send", "s", "two", env=small).code == 0
    assert run("send", "s", "three", env=small).err.startswith("coordinator: InboxFull: ")
    assert len(run("inbox", "s", "--json").objects) == 2
    assert run("close", "s").code == 0
    for command in (("send", "s", "late"), ("open", "s"), ("steer", "s", "late")):
        ran = run(*command)
        assert ran.code == 1
        assert ran.err.startswith("coordinator: SessionClosed: ")
    assert run("tail", "s", "--after", "yesterday").err.startswith("coordinator: InvalidId: ")


def test_a_wait_that_takes_too_long_is_exit_1_and_says_so_while_it_waits(run: Run) -> None:
    run("send", "s", "nobody works")
    ran = run("wait", "s", "--timeout", "1.3")
    assert ran.code == 1
    first, last = ran.err.splitlines()
    assert first.startswith("coordinator: waiting until s is idle")
    assert last.startswith("coordinator: TimeoutError: ")
    again = run("wait", "s", "--timeout", "1.3", "--json")
    assert (again.code, again.error["error"]) == (1, "TimeoutError")


AGENTS = [("nocolon", "AgentInvalid"), ("no_such_module:agent", "AgentInvalid"), ("json:no_such_name", "AgentInvalid")]


@pytest.mark.parametrize(("agent", "name"), [*AGENTS, ("json:dumps", "AgentInvalid"), ("broken:agent", "AgentInvalid")])
def test_an_agent_that_is_none_is_named(run: Run, tmp_path: Path, agent: str, name: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    ran = run("worker", "--agent", agent, cwd=tmp_path)
    assert ran.code == 1
    assert ran.err.startswith(f"coordinator: {name}: ")


@pytest.mark.parametrize("app", ["nocolon", "no_such_module:app", "json:no_such_name", "json:__name__", "broken:app"])
def test_an_app_that_is_none_is_named(run: Run, tmp_path: Path, app: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    ran = run("orchestrator", "--app", app, cwd=tmp_path)
    assert ran.code == 1
    assert ran.err.startswith(f"coordinator: UsageError: --app {app}")


@pytest.mark.parametrize("command", ["orchestrator", "up"])
def test_a_workflow_file_that_is_none_is_named(run: Run, tmp_path: Path, command: str) -> None:
    (tmp_path / "flow.toml").write_text('[workflow.flow]\nstart = "nowhere"\n')
    ran = run(command, "--workflow", "flow.toml", "--json", cwd=tmp_path)
    assert (ran.code, ran.out, ran.error["error"]) == (1, "", "WorkflowInvalid")


def test_a_workflow_that_would_not_be_published_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text('[workflow.flow]\nstart = "a"\n[[workflow.flow.step]]\nname = "a"\n')
    (tmp_path / "own.py").write_text("def make(given):\n    return type(given)(given._coord)\n")
    ran = run("orchestrator", "--workflow", "flow.toml", "--app", "own:make", "--json", cwd=tmp_path)
    assert (ran.code, ran.error["error"]) == (1, "UsageError")
    assert "--workflow" in ran.error["message"]


def test_the_demo_refuses_somebody_elses_server(run: Run) -> None:
    assert run("demo", "--redis", "redis://127.0.0.1:6379/0").code == 1
