"""How resets end when replies are lost, deadlines pass, or workers leave: an agent's word counts while Redis waits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.errors import ResetFailed, StoreUnavailable
from coordinator.services.resets import Resets
from coordinator.settings import Settings
from tests.workers.contexts import Contextual, begin, in_call, in_start, no_suspects, resume_token, used
from tests.workers.rig import expire, replaced, rig, until

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2, "provider_reset": 5.0}


async def test_a_lost_reply_repeats_the_report_and_not_the_call(settings: Settings, monkeypatch: Any) -> None:
    """Redis has the first one already."""
    told = []
    end = Resets.end

    async def loses(self: Resets, *args: Any, **options: Any) -> bool:
        answer = await end(self, *args, **options)
        told.append((options["committed"], answer))
        if len(told) == 1:
            raise StoreUnavailable("the reply is lost")
        return answer

    monkeypatch.setattr(Resets, "end", loses)
    puppet = Contextual()
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        await begin(deployment)
        await until(lambda: len(told) == 2)
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
    assert (told, puppet.resets, len(puppet.started)) == ([(True, True)] * 2, 1, 1)


async def test_an_answer_after_the_deadline_is_thrown_away(settings: Settings) -> None:
    """The reset has failed, and the execution with the new context is never used."""
    puppet = Contextual()
    async with in_call(settings, puppet) as (deployment, resetting):
        await expire(deployment.kernel, "reset", "s")
        puppet.go.set()
        with pytest.raises(ResetFailed, match="not answered in time"):
            await resetting
        await until(lambda: puppet.stopped == 1)
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        assert await deployment.log("s", "reset.committed") == []
        await until(lambda: no_suspects(deployment))
    assert puppet.tokens == ["", "first"]


async def test_a_report_that_does_not_count_ends_the_execution(settings: Settings, monkeypatch: Any) -> None:
    """Nobody else has to tell the worker so."""

    async def refuses(*_: Any, **__: Any) -> bool:
        return False

    monkeypatch.setattr(Resets, "end", refuses)
    puppet = Contextual()
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        await begin(deployment)
        assert puppet.stopped == 1
        (committed,) = await deployment.log("s", "reset.committed")
        assert committed.fields["why"] == "no execution"


async def test_a_lease_that_is_lost_during_the_call_fails_it_at_once(settings: Settings) -> None:
    """The agent is told to stop although its call goes on."""
    puppet = Contextual()
    async with in_call(settings, puppet) as (deployment, resetting):
        await expire(deployment.kernel, "lease", "s")
        with pytest.raises(ResetFailed, match="its worker is gone"):
            await resetting
        await until(lambda: puppet.stopped == 1)


async def test_an_execution_is_not_idle_while_it_resets(settings: Settings) -> None:
    """It is given up a while after."""
    puppet = Contextual()
    async with in_call(replaced(settings, idle_execution=0.6), puppet) as (_, resetting):
        await asyncio.sleep(0.9)
        assert puppet.stopped == 0
        puppet.go.set()
        await resetting
        await asyncio.sleep(0.2)
        assert puppet.stopped == 0
        await until(lambda: puppet.stopped == 1)


async def test_a_drain_lets_a_reset_end(settings: Settings) -> None:
    """Then the execution is given up, with its new context for the next."""
    puppet = Contextual()
    async with in_call(settings, puppet) as (deployment, resetting):
        deployment.stop.ask()
        await asyncio.sleep(0.3)
        assert puppet.stopped == 0
        puppet.go.set()
        await resetting
        await deployment.end()
        assert await resume_token(deployment) == "reset-1"


async def test_a_drain_that_is_over_fails_a_reset(settings: Settings) -> None:
    """The worker leaves no suspect behind."""
    puppet = Contextual()
    async with in_call(replaced(settings, drain=0.2), puppet) as (deployment, resetting):
        await deployment.end()
        with pytest.raises(ResetFailed, match="its worker had to leave"):
            await resetting
        assert await resume_token(deployment) == "first"
        assert await no_suspects(deployment)


async def test_a_worker_that_leaves_before_the_call_leaves_no_context_behind(settings: Settings) -> None:
    """With no execution there is nothing to reset: it is made, by the release."""
    puppet, go = Contextual(), asyncio.Event()
    async with in_start(settings, puppet, go) as (deployment, resetting):
        deployment.stop.ask()
        await asyncio.sleep(0.1)
        go.set()
        await resetting
        await deployment.end()
        assert await resume_token(deployment) == ""
        await deployment.start(puppet)
        assert await deployment.ends("s") == ["completed"]
    assert (puppet.tokens, puppet.resets) == (["", ""], 0)
