"""Replicas as processes of their own: killed, paused, stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.store.keys import GROUP
from tests.conftest import Spawn
from tests.orchestrator.conftest import eventually, pending, settled
from tests.orchestrator.player import Player
from tests.support.processes import Process

Make = Callable[[str], Player]
pytestmark = pytest.mark.parametrize("server_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"settlement": 1.0, "handler_timeout": 0.8, "guard_ttl": 0.6}


@pytest.fixture
def start(coord: Coordinator, spawn: Spawn, settings_options: dict[str, Any]) -> Callable[..., Any]:
    env = {f"COORDINATOR_{name.upper()}": str(value) for name, value in settings_options.items()}

    async def start(*arguments: str) -> Process:
        return await spawn("orchestrator", "--redis", coord.settings.redis_url, *arguments, env=env)

    return start


async def test_a_killed_replicas_turn_is_settled_by_another(
    coord: Coordinator, player: Make, start: Callable[..., Any]
) -> None:
    """Killed in its handler: its entry is pending and its guard held. The other one runs the handler again."""
    first = await start("--app", "tests.orchestrator.app:hang_once")
    session = player("s")
    await session.open()
    claim = await session.turn()
    assert claim.ownership is not None

    async def handling() -> bool:
        return bool((await coord.kernel.snapshots.read("s")).inbox.next_turn)

    await eventually(handling)
    second = await start("--app", "tests.orchestrator.app:hang_once")
    await first.kill()
    await settled(coord, "s", 1)
    assert len(await session.log("turn.settled")) == 1
    assert await session.log("error") == []
    inbox = (await coord.kernel.snapshots.read("s")).inbox
    assert [entry.message_id for entry in inbox.next_turn] == [f"first-{claim.ownership.claim_id}"]
    assert await second.terminate() == 0


async def test_a_paused_replica_changes_nothing_when_it_goes_on(
    coord: Coordinator, player: Make, start: Callable[..., Any]
) -> None:
    """Its entry was taken over, its turn settled; what it does with them later is stale or refused."""
    first = await start("--app", "tests.orchestrator.app:hang_once")
    session = player("s")
    await session.open()
    await session.turn()

    async def handling() -> bool:
        return bool((await coord.kernel.snapshots.read("s")).inbox.next_turn)

    await eventually(handling)
    first.pause()
    second = await start("--app", "tests.orchestrator.app:hang_once")
    await settled(coord, "s", 1)
    before = await session.log("turn.settled", "error")
    first.resume()
    assert await first.terminate() == 0
    assert await session.log("turn.settled", "error") == before
    assert await pending(coord.kernel, "s") == []
    assert await second.terminate() == 0


async def test_an_entry_that_kills_every_replica_is_given_up(
    coord: Coordinator, player: Make, start: Callable[..., Any]
) -> None:
    """Nobody lives to count the failure, so the deliveries are counted."""
    poison = player("poison")
    await poison.open()
    await poison.turn()
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.session("poison")["events"]
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    ((_, entries),) = await redis.xreadgroup(GROUP, "dead:1:x", {events: ">"})
    entry_id = entries[-1][0]
    await redis.xclaim(events, GROUP, "dead:1:x", 0, [entry_id], retrycount=14)
    killed = await start("--app", "tests.orchestrator.app:kill")
    assert await killed.ended() == -signal.SIGKILL
    survivor = await start("--app", "tests.orchestrator.app:kill")
    await settled(coord, "poison", 1)
    assert [entry["outcome"] for entry in await poison.log("turn.settled")] == ["failed"]
    dead = await redis.xrange(coord.kernel.store.keys.session("poison")["dead"])
    assert "every replica was gone" in dead[0][1]["error"]
    assert await survivor.terminate() == 0
