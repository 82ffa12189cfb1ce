"""Executions: starting, resuming, and how many a worker takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.settings import Settings
from tests.workers.rig import Puppet, hold, replaced, rig, until
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd
from workers.heartbeat import logger as heartbeat_logger

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


async def test_a_failed_start_parks_the_message_and_the_next_one_starts_again(settings: Settings) -> None:
    """The error is in the log; the next wake is another try, with a new execution."""
    puppet = Puppet()

    async def fails(execution: Execution) -> None:
        raise OSError("no such binary")

    puppet.on_start = fails
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        (error,) = await deployment.until("s", "error")
        assert (error.fields["where"], error.fields["message"]) == ("start", "OSError: no such binary")
        assert (await deployment.coord.session("s").snapshot()).status == "idle"
        puppet.on_start = None
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
    assert puppet.stopped == 2


async def test_a_start_that_takes_too_long_is_a_failed_start(settings: Settings) -> None:
    """Bounded by `start_timeout`; the agent that hangs is cancelled and stopped."""
    puppet = Puppet()

    async def hangs(execution: Execution) -> None:
        await asyncio.sleep(60)

    puppet.on_start = hangs
    async with rig(replaced(settings, start_timeout=0.2), puppet) as deployment:
        await deployment.send("s", "one")
        (error,) = await deployment.until("s", "error")
        assert "did not start within 0.2 seconds" in error.fields["message"]
        await until(lambda: puppet.stopped == 1)


async def test_an_execution_resumes_from_what_the_one_before_left(settings: Settings) -> None:
    """The token may come from the start, and from a turn's end."""
    puppet = Puppet()

    async def start(execution: Execution) -> None:
        tokens.append(execution.resume_token)
        execution.resume_token = execution.resume_token or "booted"

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        return TurnEnd(prompt.ownership, resume_token="" if prompt.text == "one" else "prompted")

    tokens: list[str] = []
    puppet.on_start, puppet.on_prompt = start, prompt
    async with rig(replaced(settings, idle_execution=0.2), puppet) as deployment:
        for count, word in enumerate(("one", "two", "three"), 1):
            await deployment.send("s", word)
            await deployment.ends("s", count)
            await deployment.until("s", "agent.stopped", count)
    assert tokens == ["", "booted", "prompted"]
    assert puppet.stopped == 3


async def test_a_worker_takes_no_more_than_it_may(settings: Settings) -> None:
    """What is over waits in the queue until there is room, and then runs at once."""
    puppet = Puppet()
    puppet.on_prompt = hold
    async with rig(replaced(settings, idle_execution=0.1), puppet, max_sessions=2) as deployment:
        for name in ("a", "b", "c"):
            await deployment.send(name, "x")
        await until(lambda: len(puppet.prompts) == 2)
        await asyncio.sleep(0.3)
        assert len(puppet.prompts) == 2
        for turn in puppet.turns:
            turn.cancelled.set()
        await until(lambda: len(puppet.prompts) == 3)
        (row,) = await deployment.coord.workers()
        assert row.capacity == 2


async def test_a_blocked_loop_is_noticed(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    """An agent that computes without waiting endangers all leases of its worker: its owner is told."""

    async def blocks(prompt: Prompt, turn: Turn) -> None:
        end = asyncio.get_running_loop().time() + 0.3
        while asyncio.get_running_loop().time() < end:
            pass

    async with rig(settings, blocks) as deployment:
        with caplog.at_level("WARNING", logger=heartbeat_logger.name):
            await deployment.send("s", "one")
            assert await deployment.ends("s") == ["completed"]
            await until(lambda: "event loop was blocked" in caplog.text)
