"""Executions and workers that leave: drained, idle, of closed sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.records import SessionPolicy
from coordinator.services.executions import Executions
from coordinator.settings import Settings
from tests.workers.rig import Puppet, hold, replaced, rig, stubborn
from workers.agents.protocol import Prompt, Turn, TurnEnd

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


async def test_sigterm_lets_a_running_turn_end_and_takes_no_further_one(settings: Settings) -> None:
    """What is behind it is left for another worker, at once."""
    puppet = Puppet()
    done = asyncio.Event()

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        await done.wait()
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = prompt
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.send("s", "two")
        await deployment.send("idle", "x")
        await deployment.until("s", "agent.running")
        deployment.stop.ask()
        await asyncio.sleep(0.1)
        done.set()
        await deployment.end()
        assert [prompt.text for prompt in puppet.prompts if prompt.session_id == "s"] == ["one"]
        assert await deployment.coord.workers() == []
        await deployment.start(puppet)
        assert await deployment.ends("s", 2) == ["completed"] * 2
    assert [prompt.text for prompt in puppet.prompts if prompt.session_id == "s"] == ["one", "two"]


@pytest.mark.parametrize("hurry", [False, True])
async def test_a_drain_ends_what_still_runs_as_interrupted(settings: Settings, hurry: bool) -> None:
    """After `drain` seconds, or at the second signal; the agent is told why."""
    puppet = Puppet()
    puppet.on_prompt = hold
    async with rig(replaced(settings, drain=60 if hurry else 0.2), puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.until("s", "agent.running")
        deployment.stop.ask()
        if hurry:
            deployment.stop.ask()
        await deployment.end()
        assert await deployment.ends("s") == ["interrupted"]
        assert puppet.turns[0].cancel_cause == "draining"
        seen = await deployment.kernel.snapshots.read("s")
        assert (seen.execution_id, seen.suspects) == ("", ())


async def test_a_drain_does_not_wait_for_an_agent_that_ignores_it(settings: Settings, ends: asyncio.Event) -> None:
    """Its turn is ended for it; under `lost_turns: retry` the message runs again elsewhere."""
    puppet = stubborn(ends)
    async with rig(replaced(settings, drain=0.1), puppet) as deployment:
        await deployment.send("s", "one", SessionPolicy(settlement="none", lost_turns="retry"))
        await deployment.until("s", "agent.running")
        await deployment.end()
        assert await deployment.ends("s") == ["interrupted"]
        other = Puppet()
        await deployment.start(other)
        assert await deployment.ends("s", 2) == ["interrupted", "completed"]
        assert other.prompts[0].attempt == 2


async def test_a_message_that_meets_a_leaving_execution_runs_at_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its placement comes while the old execution is on its way out, and must not wait for a deadline."""
    release = Executions.release

    async def slow(self: Executions, session_id: str, execution_id: str, reason: str = "") -> bool:
        released = await release(self, session_id, execution_id, reason)
        if not puppet.stopped and len(puppet.prompts) == 1:
            await deployment.send("s", "two")
            await asyncio.sleep(0.2)
        return released

    monkeypatch.setattr(Executions, "release", slow)
    puppet = Puppet()
    async with rig(replaced(settings, idle_execution=0.1), puppet) as deployment:
        await deployment.send("s", "one")
        async with asyncio.timeout(settings.placement / 2):
            assert await deployment.ends("s", 2) == ["completed"] * 2
    assert len(puppet.started) == 2


async def test_the_execution_of_a_closed_session_is_given_up(settings: Settings) -> None:
    """The next heartbeat says so."""
    puppet = Puppet()
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.ends("s")
        await deployment.coord.session("s").close()
        await deployment.until("s", "agent.stopped")
    assert puppet.stopped == 1
