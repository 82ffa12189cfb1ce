"""Executions and workers: starting, leaving, being told to stop, losing Redis or their right to a session."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.domain.errors import Superseded
from coordinator.domain.records import SessionPolicy
from coordinator.services.executions import Executions
from coordinator.settings import Settings
from coordinator.store.embedded import EmbeddedServer
from tests.workers.rig import BOUND, SELF_SETTLED, Puppet, rig, until
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd
from workers.heartbeat import logger as heartbeat_logger

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)

FAST: dict[str, Any] = {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return dict(FAST)


@pytest.fixture
async def ends() -> AsyncIterator[asyncio.Event]:
    """Lets the stubborn agents of a test go, at its end at the latest."""
    event = asyncio.Event()
    yield event
    event.set()


def stubborn(ends: asyncio.Event) -> Puppet:
    """An agent that swallows every cancellation until `ends`."""
    puppet = Puppet()

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = prompt
    return puppet


async def hold(prompt: Prompt, turn: Turn) -> TurnEnd:
    """An agent that works until it is told to stop, and stops."""
    await turn.accepted()
    await turn.cancelled.wait()
    return TurnEnd(prompt.ownership, "cancelled")


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


async def test_a_lost_execution_is_stopped_and_its_successor_takes_over(settings: Settings) -> None:
    """A worker that was taken for dead learns it at its next heartbeat, stops its agent, and reports that."""
    puppet = Puppet()
    puppet.on_prompt = hold
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one", SessionPolicy(settlement="none", lost_turns="retry"))
        await deployment.until("s", "agent.running")
        puppet.on_prompt = None
        await expire_lease(deployment.kernel, "s")
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
        await expire_lease(deployment.kernel, "s")
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


def replaced(settings: Settings, **changes: Any) -> Settings:
    """The settings, with some changed."""
    from msgspec.structs import replace

    return replace(settings, **changes)


async def expire_lease(kernel: Any, session_id: str) -> None:
    """Let a session's lease be over, as a sweeper finds it after a worker was silent for too long."""
    store = kernel.store
    partition = store.keys.partition_of(session_id)
    # A sweep that finds the last one long ago gives grace: this one makes the next count.
    await kernel.deadlines.sweep(partition)
    async with asyncio.timeout(BOUND):
        while True:
            deadlines = store.keys.partition(partition)["deadlines"]
            score = await store.redis.zscore(deadlines, f"lease:{session_id}")
            assert score is not None
            await store.redis.zadd(deadlines, {f"lease:{session_id}": 1})
            expired = await kernel.deadlines.expire("lease", session_id, 1, "")
            if expired.verdict == "OK":
                return


async def no_suspects(kernel: Any) -> bool:
    return not (await kernel.snapshots.read("s")).suspects


async def subscribed(redis: Any) -> bool:
    ((_, count),) = await redis.pubsub_numsub("coord:control:w")
    return bool(count)
