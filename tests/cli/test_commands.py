"""Each command's happy path and the shape of its objects, with a worker and an orchestrator at work."""

from __future__ import annotations

import asyncio
import signal

import pytest

from coordinator import Coordinator, Snapshot
from coordinator.store.embedded import EmbeddedServer
from tests.cli.conftest import Ran, Run
from tests.conftest import Spawn

SCRIPTED = "workers.agents.scripted:agent"


@pytest.fixture
async def deployment(spawn: Spawn, server: EmbeddedServer) -> None:
    env = {"COORDINATOR_REDIS_URL": server.url}
    worker = ("worker", "--agent", SCRIPTED, "--worker-id", "w1", "--max-sessions", "5")
    await asyncio.gather(spawn("orchestrator", env=env), spawn(*worker, env=env))


async def _run(run: Run, *arguments: str, stdin: bytes = b"") -> Ran:
    return await asyncio.to_thread(run, *arguments, stdin=stdin)


def test_open_says_whether_the_session_is_new_and_sets_its_policy(run: Run) -> None:
    ran = run("open", "s", "--lost-turns", "retry", "--retries", "5", "--json")
    assert ran.code == 0
    assert ran.object == {
        "session_id": "s",
        "created": True,
        "policy": {
            "settlement": "required",
            "lost_turns": "retry",
            "retries": 5,
            "after_error": "park",
            "on_handler_failure": "continue",
        },
    }
    again = run("open", "s", "--settlement", "none")
    assert again.code == 0
    assert "policy" in again.out
    assert run("show", "s", "--json").object["policy"]["settlement"] == "none"


def test_send_opens_an_unknown_session_and_leaves_a_known_ones_policy_alone(run: Run) -> None:
    ran = run("send", "new", "hello", "--message-id", "m-1", "--json")
    assert ran.object == {"message_id": "m-1", "sequence": 1, "duplicate": False, "placement": "started"}
    assert run("--json", "send", "--message-id", "m-1", "new", "hello").object["duplicate"] is True
    run("open", "s", "--settlement", "none")
    run("send", "s", "hello")
    assert run("show", "s", "--json").object["policy"]["settlement"] == "none"


def test_text_comes_from_the_last_argument_or_stdin_as_it_is(run: Run) -> None:
    run("send", "s", "--no-wake", "one line")
    run("send", "s", "-", "--no-wake", stdin="zwei\nZeilen ✓\n".encode())
    run("send", "s", "--no-wake", "--", "--not an option")
    run("inject", "s", "a note")
    run("steer", "s", "turn left", "--message-id", "m-s")
    rows = run("inbox", "s", "--json").objects
    assert [row["body"] for row in rows] == ["a note", "turn left", "one line", "zwei\nZeilen ✓", "--not an option"]
    assert [row["list"] for row in rows] == ["next-step"] * 2 + ["next-turn"] * 3
    assert [row["wake"] for row in rows] == [False, True, False, False, False]
    assert {row["in_flight"] for row in rows} == {False}
    table = run("inbox", "s").out
    assert table.splitlines()[0].split() == ["PLACE", "SEQUENCE", "MESSAGE", "STATE", "ATTEMPT", "SENDER", "TEXT"]
    assert "zwei\\nZeilen" in table


async def test_a_message_sent_with_wait_prints_what_the_agent_said(deployment: None, run: Run) -> None:
    ran = await _run(run, "send", "s", "say hello\nsay there", "--wait", "--timeout", "20", "--json")
    assert ran.code == 0
    assert ran.object | {"message_id": ""} == {
        "message_id": "", "sequence": 1, "duplicate": False, "placement": "started",
        "turn": 1, "generation": 1, "reason": "completed", "text": ran.object["text"], "error": "",
    }  # fmt: skip
    assert "hello" in ran.object["text"]
    plain = await _run(run, "send", "s", "say again", "--wait")
    assert (plain.code, plain.out.strip()) == (0, "again")
    failed = await _run(run, "send", "s", "fail no such file", "--wait")
    assert failed.code == 1
    assert failed.err == "coordinator: TurnFailed: turn 3 ended error: no such file\n"


async def test_inspection_shows_what_happened(deployment: None, run: Run) -> None:
    await _run(run, "send", "s", "say hello", "--wait")
    assert (await _run(run, "wait", "s", "--timeout", "10", "--json")).object == {
        "session_id": "s", "lifecycle": "open", "status": "idle", "phase": "idle",
        "turn": 1, "generation": 1, "last_reason": "completed",
    }  # fmt: skip
    shown = (await _run(run, "show", "s", "--json")).object
    assert set(shown) == set(Snapshot.__struct_fields__)
    assert (shown["status"], shown["worker_id"], shown["inbox"]["next_turn"]) == ("idle", "w1", [])
    assert "execution_id" in (await _run(run, "show", "s")).out
    (row,) = (await _run(run, "ls", "--json")).objects
    assert (row["session_id"], row["status"], row["turn"], row["pending"]) == ("s", "idle", 1, 0)
    assert (await _run(run, "ls", "--status", "running", "--json")).out == ""
    (worker,) = (await _run(run, "workers", "--json")).objects
    assert (worker["worker_id"], worker["capacity"], worker["hosted"]) == ("w1", 5, 1)
    assert worker["lease_ms"] > 0
    stats = (await _run(run, "stats", "--json")).object
    assert (stats["sessions"], stats["workers"], stats["counters"]["turns"]) == (1, 1, 1)
    assert 0 <= stats["unswept_ms"] < 30_000
    for command in ("ls", "workers", "stats"):
        assert (await _run(run, command)).code == 0
    doctor = await _run(run, "doctor", "--json")
    assert doctor.code == 0, doctor.out
    assert all(check["ok"] for check in doctor.objects)
    assert set(doctor.objects[0]) == {"name", "ok", "severity", "found", "advice"}
    assert "all is well" in (await _run(run, "doctor")).out


async def test_top_looks_again_and_again_at_everything(
    deployment: None, run: Run, server: EmbeddedServer, spawn: Spawn
) -> None:
    await _run(run, "send", "s", "say hello", "--wait")
    async with Coordinator.connect(server.url) as coord:
        store = coord.kernel.store
        await store.redis.hset(store.keys.session("busy")["session"], mapping={"lifecycle": "open", "phase": "running"})  # type: ignore[misc]
        await store.redis.zadd(store.keys.session("busy")["sessions"], {"busy": 1})
    first, second = (await _run(run, "top", "--interval", "0.2", "-n", "2", "--json")).objects
    assert set(first) == {"stats", "by_status", "per_second", "overdue", "busy", "workers"}
    assert (first["by_status"], first["per_second"]) == ({"idle": 1, "running": 1}, {})
    assert (second["per_second"]["turns"], [row["session_id"] for row in second["busy"]]) == (0.0, ["busy"])
    assert [row["worker_id"] for row in second["workers"]] == ["w1"]
    told = (await _run(run, "top", "-n", "1")).out
    assert "sessions  2: 1 idle, 1 running" in told
    assert "workers   1 alive, " in told
    assert "replicas  an orchestrator swept " in told
    watcher = await spawn("top", "--json", env={"COORDINATOR_REDIS_URL": server.url}, ready="by_status")
    watcher.signal(signal.SIGINT)
    assert await watcher.ended(10) == 130


async def test_tail_prints_the_log_from_anywhere_and_follows_it(
    deployment: None, run: Run, server: EmbeddedServer, spawn: Spawn
) -> None:
    await _run(run, "send", "s", "say hello", "--wait")
    await _run(run, "wait", "s")
    whole = (await _run(run, "tail", "s", "--json")).objects
    assert [set(entry) for entry in whole] == [{"id", "type", "fields"}] * len(whole)
    assert whole[0]["type"] == "session.opened"
    assert whole[-1]["type"] == "turn.settled"
    assert (await _run(run, "tail", "s", "--after", whole[3]["id"], "--json")).objects == whole[4:]
    assert (await _run(run, "tail", "s", "-n", "2", "--json")).objects == whole[-2:]
    assert len((await _run(run, "tail", "s")).out.splitlines()) == len(whole)
    follower = await spawn(
        "tail", "s", "-f", "-n", "1", env={"COORDINATOR_REDIS_URL": server.url}, ready=r"turn\.settled"
    )
    async with Coordinator.connect(server.url) as coord:
        await coord.session("s").send("say live")
    await follower.says(r"output .*text=live")


async def test_close_ends_a_session(deployment: None, run: Run) -> None:
    await _run(run, "send", "s", "say hello", "--wait")
    assert (await _run(run, "close", "s", "--json")).object == {"session_id": "s", "lifecycle": "closed"}
    assert (await _run(run, "wait", "s")).out == "s is closed, turn 1\n"
    assert (await _run(run, "close", "s")).code == 0


async def test_an_apps_handlers_run_for_every_turn(
    run: Run, spawn: Spawn, server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("app")
    (folder / "demo_app.py").write_text(
        "def app(orchestrator):\n"
        "    @orchestrator.on_turn_complete\n"
        "    async def after(turn, session):\n"
        "        if turn.turn == 1:\n"
        "            await session.send('say from the handler', message_id=turn.key)\n"
    )
    env = {"COORDINATOR_REDIS_URL": server.url, "PYTHONPATH": f"{folder}"}
    from tests.support.processes import ROOT

    env["PYTHONPATH"] = f"{ROOT}:{folder}"
    await spawn("orchestrator", "--app", "demo_app:app", env=env)
    await spawn("worker", "--agent", SCRIPTED, env=env)
    await _run(run, "send", "s", "say first", "--wait")
    await _run(run, "wait", "s", "--timeout", "10")
    texts = [entry["fields"].get("text") for entry in (await _run(run, "tail", "s", "--json")).objects]
    assert "from the handler" in texts


def test_control_characters_in_a_log_reach_no_terminal(run: Run) -> None:
    run("send", "s", "\x1b[2Jhello\x07")
    assert "\x1b" not in run("inbox", "s").out
    assert run("inbox", "s", "--json").object["body"] == "\x1b[2Jhello\x07"
