"""Worker processes as they are deployed: signals, death, and what becomes of their turns."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from coordinator.domain.records import SessionPolicy
from coordinator.orchestrator import Orchestrator
from coordinator.settings import Settings
from tests.conftest import Spawn
from tests.support.processes import Process
from tests.workers.rig import BOUND, Rig, rig, until

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)

FAST = {"heartbeat": 0.2, "lease": 1.0, "sweep": 0.2}


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return dict(FAST)


@pytest.fixture
async def deployment(settings: Settings) -> AsyncIterator[Rig]:
    """A client and one orchestrator replica; workers are processes that the tests start."""
    async with rig(settings) as found:
        replica = asyncio.create_task(Orchestrator(found.coord).run(handle_signals=False))
        yield found
        replica.cancel()
        await asyncio.gather(replica, return_exceptions=True)


@pytest.fixture
async def process(spawn: Spawn, settings: Settings) -> Process:
    """A worker process."""
    return await start(spawn, settings)


async def start(spawn: Spawn, settings: Settings, agent: str = "workers.agents.scripted:agent", **env: str) -> Process:
    """Start a worker process and wait until it is ready."""
    fast = {f"COORDINATOR_{name.upper()}": str(value) for name, value in FAST.items()}
    return await spawn("worker", "--agent", agent, env={"COORDINATOR_REDIS_URL": settings.redis_url, **fast, **env})


async def test_sigterm_waits_for_the_turn_and_exits_with_0(deployment: Rig, process: Process) -> None:
    """The turn completes; the session has no execution afterwards."""
    await deployment.send("s", "hold go\nsay done", SessionPolicy())
    await deployment.until("s", "agent.running")
    process.signal(signal.SIGTERM)
    await asyncio.sleep(0.3)
    assert process.returncode is None
    await deployment.kernel.store.redis.set("coord:scripted:go", "1")
    assert await process.ended() == 0
    assert await deployment.ends("s") == ["completed"]
    assert (await deployment.kernel.snapshots.read("s")).execution_id == ""


async def test_a_second_sigterm_hurries(deployment: Rig, process: Process) -> None:
    """The turn ends as interrupted, though `drain` is not over."""
    await deployment.send("s", "hold never", SessionPolicy())
    await deployment.until("s", "agent.running")
    process.signal(signal.SIGTERM)
    await asyncio.sleep(0.2)
    assert await process.terminate() == 0
    assert await deployment.ends("s") == ["interrupted"]


async def test_an_agent_that_can_not_be_stopped_does_not_keep_the_process(
    deployment: Rig, spawn: Spawn, settings: Settings
) -> None:
    """Its turn is ended for it, and the process with it, in time and with 0."""
    process = await start(spawn, settings, "tests.workers.stubborn:agent", COORDINATOR_DRAIN="0.1")
    await deployment.send("s", "x", SessionPolicy())
    await deployment.until("s", "agent.running")
    assert await process.terminate() == 0
    assert await deployment.ends("s") == ["interrupted"]


async def test_a_killed_worker_loses_no_message(
    deployment: Rig, process: Process, spawn: Spawn, settings: Settings
) -> None:
    """Its lease runs out, the turn ends as lost, and under `lost_turns: retry` another worker runs it again."""
    await deployment.send("s", "hold go\nsay done", SessionPolicy(lost_turns="retry"))
    await deployment.until("s", "agent.running")
    other = await start(spawn, settings)
    await process.kill()
    await deployment.kernel.store.redis.set("coord:scripted:go", "1")
    assert await deployment.ends("s", 2) == ["lost", "completed"]
    assert (await deployment.coord.workers())[-1].pid in {other.pid, process.pid}


async def test_exit_ends_the_worker_as_a_crash_does(deployment: Rig, spawn: Spawn, settings: Settings) -> None:
    """Only where that is switched on."""
    process = await start(spawn, settings, COORDINATOR_SCRIPTED_EXIT="1")
    await deployment.send("s", "exit", SessionPolicy())
    assert await process.ended() == -signal.SIGKILL
    assert await deployment.ends("s") == ["lost"]


async def test_a_paused_worker_finds_itself_superseded(
    deployment: Rig, process: Process, spawn: Spawn, settings: Settings
) -> None:
    """Stopped past its lease and let go again, it changes nothing, and serves on."""
    await deployment.send("s", "sleep 0.5\nsay once", SessionPolicy(lost_turns="retry"))
    await deployment.until("s", "agent.running")
    process.pause()
    await start(spawn, settings)
    assert await deployment.ends("s", 2) == ["lost", "completed"]
    process.resume()
    await until(lambda: _gone(deployment), BOUND)
    assert await deployment.said("s") == "once"
    assert process.returncode is None


async def _gone(deployment: Rig) -> bool:
    return not (await deployment.kernel.snapshots.read("s")).suspects
