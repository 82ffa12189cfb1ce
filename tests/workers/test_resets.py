"""Context resets on a worker: the agent is called once, between turns, and what it says is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.errors import Reentry, ResetFailed
from coordinator.settings import Settings
from tests.workers.contexts import Contextual, begin, in_call, in_start, no_suspects, resume_token, used
from tests.workers.rig import Rig, hold, replaced, rig, until
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2, "provider_reset": 5.0}


async def test_a_live_execution_gets_a_fresh_context_and_stays(settings: Settings) -> None:
    """Its new resume token is stored with the commit."""
    puppet = Contextual()
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        await begin(deployment)
        assert await resume_token(deployment) == "reset-1"
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        await begin(deployment, "r-2")
    assert (puppet.resets, len(puppet.started), len(puppet.prompts)) == (2, 1, 2)


async def test_what_runs_is_stopped_first_and_what_waits_runs_in_the_fresh_context(settings: Settings) -> None:
    """No prompt reaches the agent between."""
    puppet = Contextual()
    puppet.on_prompt = hold
    puppet.go.clear()
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.until("s", "agent.running")
        resetting = begin(deployment)
        await puppet.called.wait()
        assert puppet.turns[0].cancel_cause == "system"
        puppet.on_prompt = None
        await deployment.send("s", "two")
        await asyncio.sleep(3 * settings.heartbeat)
        assert (len(puppet.prompts), puppet.resets) == (1, 1)
        puppet.go.set()
        await resetting
        assert await deployment.ends("s", 2) == ["cancelled", "completed"]
        types = [entry.type for entry in await deployment.log("s", "turn.ended", "reset.committed", "turn.started")]
        assert types == ["turn.started", "turn.ended", "reset.committed", "turn.started", "turn.ended"]


async def test_a_reset_that_the_agent_refuses_ends_its_execution(settings: Settings) -> None:
    """The reason is told, the next execution resumes the old context, and nobody is left."""
    puppet = Contextual()

    async def refuses() -> None:
        raise OSError("no provider")

    puppet.on_reset = refuses
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        with pytest.raises(ResetFailed, match="OSError: no provider"):
            await begin(deployment)
        await until(lambda: puppet.stopped == 1)
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        await until(lambda: no_suspects(deployment))
    assert puppet.tokens == ["", "first"]


async def test_a_reset_that_takes_too_long_has_failed(settings: Settings) -> None:
    """By the worker's clock; the agent that hangs is cancelled, and called no more."""
    puppet = Contextual()
    puppet.go.clear()
    async with rig(replaced(settings, provider_reset=0.3), puppet) as deployment:
        await used(deployment)
        with pytest.raises(ResetFailed, match=r"did not reset its context within 0\.3 seconds"):
            await begin(deployment)
        await until(lambda: puppet.stopped == 1)
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
    assert (puppet.tokens, puppet.resets) == (["", "first"], 1)


async def test_the_agent_is_called_once_however_often_it_is_told(settings: Settings) -> None:
    """By hints and by heartbeats, while it is at it and afterwards."""
    puppet = Contextual()
    async with in_call(settings, puppet, worker_id="w") as (deployment, resetting):
        await again(deployment)
        await asyncio.sleep(3 * settings.heartbeat)
        puppet.go.set()
        await resetting
        await again(deployment)
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        await asyncio.sleep(2 * settings.heartbeat)
        assert await resume_token(deployment) == "reset-1"
    assert (puppet.resets, len(puppet.started)) == (1, 1)


async def test_a_hint_that_comes_late_calls_no_agent(settings: Settings) -> None:
    """Of a reset that has ended, or of nobody's: the agent's context would be gone for nothing."""
    puppet = Contextual()
    async with rig(settings, puppet, worker_id="w") as deployment:
        await used(deployment)
        store = deployment.kernel.store
        await store.redis.publish(store.keys.control("w"), "reset s r-old")
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
    assert (puppet.resets, len(puppet.started)) == (0, 1)


async def test_a_heartbeat_tells_what_a_lost_hint_would_have(settings: Settings, monkeypatch: Any) -> None:
    """Without hints at all."""
    monkeypatch.setattr("workers.telling.Telling.reset", lambda *_: None)
    puppet = Contextual()
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        await begin(deployment)
    assert puppet.resets == 1


async def test_an_execution_that_is_starting_is_reset_when_it_is_up(settings: Settings) -> None:
    """And takes what was sent before in the fresh context."""
    puppet, go = Contextual(), asyncio.Event()
    async with in_start(settings, puppet, go) as (deployment, resetting):
        await asyncio.sleep(2 * settings.heartbeat)
        assert puppet.resets == 0
        go.set()
        await resetting
        assert await deployment.ends("s") == ["completed"]
        types = [
            entry.type for entry in await deployment.log("s", "agent.boot_ready", "reset.committed", "turn.started")
        ]
        assert types == ["agent.boot_ready", "reset.committed", "turn.started"]
    assert (puppet.resets, len(puppet.started)) == (1, 1)


async def test_a_start_that_fails_under_a_reset_leaves_nothing_to_reset(settings: Settings) -> None:
    """The next execution begins without a context, so the reset is made."""
    puppet, go = Contextual(), asyncio.Event()

    async def fails(execution: Execution) -> None:
        await go.wait()
        puppet.on_start = None
        raise OSError("no such binary")

    async with rig(replaced(settings, idle_execution=0.2), puppet) as deployment:
        await used(deployment)
        await deployment.until("s", "agent.stopped")
        puppet.on_start = fails
        await deployment.send("s", "two")
        await until(lambda: len(puppet.started) == 2)
        resetting = begin(deployment)
        await deployment.until("s", "reset.started")
        go.set()
        await resetting
        assert await deployment.ends("s", 2) == ["completed"] * 2
    assert (puppet.tokens, puppet.resets) == (["", "first", ""], 0)


async def test_an_agent_that_sets_no_token_has_none_after_a_reset(settings: Settings) -> None:
    """What a plain function gave to resume from is dropped as well."""

    async def agent(prompt: Prompt, turn: Turn) -> TurnEnd:
        return TurnEnd(prompt.ownership, resume_token=prompt.text)

    async with rig(settings, agent) as deployment:
        await used(deployment)
        assert await resume_token(deployment) == "one"
        await begin(deployment)
        assert await resume_token(deployment) == ""
        await deployment.send("s", "one")
        await deployment.ends("s", 2)
        assert await resume_token(deployment) == "one"


async def test_a_reset_cannot_wait_for_itself(settings: Settings) -> None:
    """As in a turn of the session."""
    puppet = Contextual()

    async def resets() -> None:
        session = deployment.coord.session("s")
        for call in (session.reset, session.wait_idle):
            with pytest.raises(Reentry):
                await call(timeout=1)

    puppet.on_reset = resets
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        await begin(deployment)


async def again(deployment: Rig) -> None:
    """Repeat the reset's hint, and one of a session that is not there."""
    for session_id in ("s", "other"):
        await deployment.kernel.store.redis.publish("coord:control:w", f"reset {session_id} r")
