"""cancel, replace, interrupt, inbox edits and explain as a user runs them."""

from __future__ import annotations

import asyncio

import pytest
import redis

from coordinator import Coordinator, Settings
from coordinator.store.embedded import EmbeddedServer
from coordinator.store.keys import Keys
from tests.cli.conftest import Ran, Run
from tests.conftest import Spawn

SCRIPTED = "workers.agents.scripted:agent"


@pytest.fixture
async def deployment(spawn: Spawn, server: EmbeddedServer) -> None:
    env = {"COORDINATOR_REDIS_URL": server.url}
    await asyncio.gather(
        spawn("orchestrator", env=env), spawn("worker", "--agent", SCRIPTED, "--worker-id", "w1", env=env)
    )


async def _run(run: Run, *arguments: str) -> Ran:
    return await asyncio.to_thread(run, *arguments)


async def running(server: EmbeddedServer, run: Run, *lines: str) -> None:
    """Start a turn of session s and wait until its agent is at work."""
    await _run(run, "send", "s", "\n".join(("say at work", *lines)))
    async with Coordinator.connect(server.url) as coord, asyncio.timeout(15):
        async for entry in coord.session("s").follow():
            if entry.type == "output":
                return


async def test_cancel_answers_at_once_and_with_wait_tells_how_it_ended(
    deployment: None, run: Run, server: EmbeddedServer
) -> None:
    await running(server, run, "hold never")
    await _run(run, "send", "s", "queued")
    refused = await _run(run, "cancel", "s", "--expected-turn", "9")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("coordinator: TurnChanged: ")
    ran = await _run(run, "cancel", "s", "--expected-turn", "1", "--wait", "--operation-id", "op-1", "--json")
    assert (ran.code, ran.object) == (0, {"session_id": "s", "id": "op-1", "outcome": "cancelled"})
    assert [row["awake"] for row in (await _run(run, "inbox", "s", "--json")).objects] == [False]
    told = await _run(run, "explain", "s")
    assert "1 messages wait for one that wakes it" in told.out
    assert "coordinator send s TEXT" in told.out
    again = await _run(run, "cancel", "s")
    assert again.out.startswith("s had nothing to stop (idle)\n  1 queued messages are parked until one that wakes")
    again = await _run(run, "cancel", "s", "--clear-inbox")
    assert (again.code, again.out) == (0, "s had nothing to stop (idle)\n")
    assert (await _run(run, "inbox", "s")).out == "the inbox is empty\n"


async def test_replace_stops_what_runs_and_prints_what_comes_instead(
    deployment: None, run: Run, server: EmbeddedServer
) -> None:
    ran = await _run(run, "replace", "s", "say opened", "--wait")
    assert (ran.code, ran.out) == (0, "opened\n")
    await running(server, run, "hold never")
    ran = await _run(run, "replace", "s", "say this instead", "--wait", "--json")
    assert (ran.object["reason"], ran.object["text"], ran.object["placement"]) == (
        "completed", "this instead", "latched",
    )  # fmt: skip
    await _run(run, "send", "s", "hold never", "--message-id", "m-1")
    await _run(run, "send", "s", "say two", "--message-id", "m-2")
    await _run(run, "send", "s", "say three", "--message-id", "m-3")
    ran = await _run(run, "replace", "s", "--entry", "m-3", "--message-id", "r-1", "--json")
    assert ran.object["message_id"] == "r-1"
    assert (await _run(run, "wait", "s", "--timeout", "20")).code == 0
    told = "".join(one["fields"].get("text", "") for one in (await _run(run, "tail", "s", "--json")).objects)
    assert told.index("three") < told.index("two")


async def test_interrupt_names_the_generation_that_it_means(deployment: None, run: Run, server: EmbeddedServer) -> None:
    await running(server, run, "hold never")
    assert (await _run(run, "interrupt", "s", "x", "--expected-generation", "7")).err.startswith(
        "coordinator: TurnChanged: "
    )
    ran = await _run(run, "interrupt", "s", "say the parent", "--expected-generation", "1", "--sender", "parent")
    assert ran.out.split()[1] == "latched"
    assert (await _run(run, "wait", "s", "--timeout", "20")).code == 0
    assert any("the parent" in line for line in (await _run(run, "tail", "s")).out.splitlines())


def test_inbox_edits_say_what_they_did(run: Run) -> None:
    for name in "abc":
        run("send", "s", f"text {name}", "--no-wake", "--message-id", name)
    assert run("inbox", "s", "move", "c", "--before", "a").out == "c moved before a\n"
    assert run("inbox", "s", "replace", "a", "another").out == "a has another text\n"
    assert run("inbox", "s", "replace", "b", "-", stdin=b"from stdin\n").code == 0
    assert run("inbox", "s", "move", "c", "--json").object == {"session_id": "s", "action": "move", "message_id": "c"}
    assert run("inbox", "s", "steer", "c").code == 0
    rows = run("inbox", "s", "--json").objects
    assert [(row["message_id"], row["body"]) for row in rows] == [
        ("c", "text c"),
        ("a", "another"),
        ("b", "from stdin"),
    ]
    assert run("inbox", "s", "remove", "a", "--operation-id", "e-1").code == 0
    assert run("inbox", "s", "remove", "a", "--operation-id", "e-1").code == 0
    ran = run("inbox", "s", "remove", "a")
    assert (ran.code, ran.err) == (
        1,
        "coordinator: MessageNotPending: Message 'a' is not pending in session 's' any more.\n",
    )
    assert run("inbox", "s", "remove", "b", "--operation-id", "e-1").err.startswith("coordinator: ConflictingRepeat: ")
    assert run("inbox", "s", "move", "b", "--before", "b").err.startswith("coordinator: UsageError: ")
    assert run("inbox", "s", "clear").out == "everything pending is discarded\n"
    assert run("inbox", "s").out == "the inbox is empty\n"


def test_without_workers_explain_says_what_is_missing(run: Run) -> None:
    run("send", "s", "hello")
    ran = run("explain", "s")
    assert ran.code == 0
    assert ran.out.startswith("s is running\n  - It waits for a worker")
    assert "No worker lives: start one" in ran.out
    told = run("explain", "s", "--json").object
    assert (told["waiting_for"], told["turn"], told["pending"], told["awake"]) == ("placement", 0, 1, 1)
    assert told["deadlines"][0]["kind"] == "placement"
    assert 0 < told["deadlines"][0]["left_ms"] <= 10_000
    assert len(told["why"]) == len(told["advice"]) == 1
    run("cancel", "s")
    assert "It is idle, and 1 messages wait" in run("explain", "s").out
    run("close", "s")
    assert "It is closed" in run("explain", "s").out


async def test_explain_shows_a_stop_that_is_ignored_and_what_became_of_it(
    deployment: None, run: Run, server: EmbeddedServer
) -> None:
    await running(server, run, "ignore-cancel", "hold never")
    stop, quick = ("cancel", "s", "--operation-id", "op-1"), {"COORDINATOR_CANCEL_TIMEOUT": "6"}
    ran = await asyncio.to_thread(run, *stop, env=quick)
    assert "is being stopped" in ran.out
    told = (await _run(run, "explain", "s", "--json")).object
    assert (told["cancel_pending"], told["cancel_kind"], told["open_turn"], told["worker"]) == (
        True,
        "user",
        1,
        "alive",
    )
    assert {one["kind"] for one in told["deadlines"]} >= {"cancel", "lease"}
    assert "ended as escalated" in told["why"][0]
    assert (await _run(run, "ls")).out.splitlines()[1].split()[1] == "stopping"
    ran = await _run(run, *stop, "--wait", "--json")
    assert ran.object["outcome"] == "escalated"
    lately = (await _run(run, "explain", "s", "--json")).object["refused"]
    assert any("turn 1 ended escalated" in one["why"] for one in lately)
    assert any(one["type"] == "error" for one in lately)
    assert "all is well" in (await _run(run, "doctor")).out


def test_doctor_finds_stops_and_queues_that_nothing_will_end(run: Run, server: EmbeddedServer) -> None:
    keys, record = Keys("coord", Settings().partitions), redis.Redis.from_url(server.url)
    for name in ("asleep", "stopping", "parked"):
        run("send", name, "hello", "--message-id", "m-1")
        run("cancel", name)
    record.hset(keys.session("stopping")["session"], "cancel_id", "op-1")
    record.hdel(keys.session("asleep")["session"], "park_mark")
    record.close()
    found = {one["name"]: one for one in run("doctor", "--json").objects}
    assert (found["queues"]["ok"], found["queues"]["found"]) == (False, "1 are idle with awake messages: asleep")
    assert (found["sessions"]["ok"], found["sessions"]["found"]) == (False, "1 are busy without a deadline: stopping")
    assert "This is not meant to happen" in run("explain", "asleep").out
