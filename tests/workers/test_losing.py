"""Executions and workers that lose Redis, hints, or their right to a session."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from coordinator.domain.errors import Superseded
from coordinator.domain.records import SessionPolicy
from coordinator.services import Kernel
from coordinator.settings import Settings
from coordinator.store.embedded import EmbeddedServer
from tests.workers.rig import SELF_SETTLED, Puppet, expire, hold, replaced, rig, stubborn, until
from workers.agents.protocol import Prompt, Turn, TurnEnd

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


async def test_a_lost_execution_is_stopped_and_its_successor_takes_over(settings: Settings) -> None:
    """A worker that was taken for dead learns it at its next heartbeat, stops its agent, and reports that."""
    puppet = Puppet()
    puppet.on_prompt = hold
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one", SessionPolicy(settlement="none", lost_turns="retry"))
        await deployment.until("s", "agent.running")
        puppet.on_prompt = None
        await expire(deployment.kernel, "lease", "s")
        assert await deployment.ends("s", 2) == ["lost", "completed"]
        assert puppet.turns[0].cancelled.is_set()
        assert puppet.turns[0].cancel_cause == "superseded"
        with pytest.raises(Superseded):
            await puppet.turns[0].emit("too late")
        await until(lambda: no_suspects(deployment.kernel))
    assert len({prompt.ownership.execution_id for prompt in puppet.prompts}) == 2


async def test_a_lost_agent_that_ignores_it_stays_a_suspect(settings: Settings, ends: asyncio.Event) -> None:
    """The session goes on without it; what it reports in the end is stale; only then is it gone."""
    puppet = stubborn(ends)
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one", SELF_SETTLED)
        await deployment.until("s", "agent.running")
        await expire(deployment.kernel, "lease", "s")
        puppet.on_prompt = None
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["lost", "completed"]
        # Longer than an unnamed suspect is remembered.
        await asyncio.sleep(settings.self_stop + settings.lease + 0.3)
        assert len((await deployment.kernel.snapshots.read("s")).suspects) == 1
        ends.set()
        await until(lambda: no_suspects(deployment.kernel))
        turn = puppet.turns[0]
        assert not await turn.report(TurnEnd(turn.ownership))
        (stale,) = await deployment.log("s", "ready.stale")
        assert stale.fields["generation"] == "1"


async def test_a_flushed_redis_ends_the_executions_and_not_the_worker(settings: Settings) -> None:
    """Nobody knows the sessions any more; new ones are served."""
    puppet = Puppet()
    puppet.on_prompt = hold
    async with rig(settings, puppet) as deployment:
        await deployment.send("running", "one")
        await deployment.until("running", "agent.running")
        await deployment.kernel.store.redis.flushall()
        await puppet.turns[0].emit("are you there")
        await until(lambda: puppet.stopped == 1)
        puppet.on_prompt = None
        await deployment.send("s", "one")
        assert await deployment.ends("s") == ["completed"]


async def test_a_restarted_redis_loses_no_turn_and_no_worker(settings: Settings, server: EmbeddedServer) -> None:
    """What was decided while it was away is reported when it is back, and the next messages run."""
    puppet = Puppet()
    go = asyncio.Event()

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        await go.wait()
        await turn.emit("made it")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = prompt
    async with rig(replaced(settings, redis_url=server.url, lease=5, self_stop=20), puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.until("s", "agent.running")
        await asyncio.to_thread(server.kill)
        go.set()
        await asyncio.sleep(0.3)
        await asyncio.to_thread(server.start)
        assert await deployment.ends("s") == ["completed"]
        assert await deployment.said("s") == "made it"
        puppet.on_prompt = None
        await deployment.send("s", "two")
        await deployment.send("other", "one")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        assert await deployment.ends("other") == ["completed"]
        assert deployment.task is not None
        assert not deployment.task.done()


async def test_a_worker_that_cannot_renew_ends_its_own_agents(settings: Settings, server: EmbeddedServer) -> None:
    """By its own clock, while Redis hangs; so at most `self_stop` seconds with two agents of one session."""
    puppet = Puppet()
    puppet.on_prompt = hold
    async with rig(replaced(settings, redis_url=server.url), puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.send("idle", "x")
        await until(lambda: len(puppet.turns) == 2)
        os.kill(server.pid, signal.SIGSTOP)
        try:
            await until(lambda: all(turn.cancelled.is_set() for turn in puppet.turns))
            assert puppet.turns[0].cancel_cause == "self-stop"
        finally:
            os.kill(server.pid, signal.SIGCONT)
        assert await deployment.ends("s") == ["interrupted"]
        puppet.on_prompt = None
        await deployment.send("s", "two")
        assert (await deployment.ends("s", 2))[1] == "completed"


async def test_a_lost_hint_costs_one_heartbeat(settings: Settings) -> None:
    """Hints are cut off; the heartbeat says what they would have."""
    puppet = Puppet()
    async with rig(settings, puppet, worker_id="w") as deployment:
        await deployment.send("s", "one")
        await deployment.ends("s")
        redis = deployment.kernel.store.redis
        await redis.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        await deployment.send("s", "two")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        await until(lambda: subscribed(redis))


async def no_suspects(kernel: Kernel) -> bool:
    return not (await kernel.snapshots.read("s")).suspects


async def subscribed(redis: Any) -> bool:
    ((_, count),) = await redis.pubsub_numsub("coord:control:w")
    return bool(count)
