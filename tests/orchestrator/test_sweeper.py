"""Sweeping: what is due is acted on, by one of many, and a failing act stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.services.deadlines import Deadlines, Due, Sweep
from coordinator.services.executions import Held
from coordinator.store.keys import GROUP
from coordinator.sweeper import Sweeper
from tests.orchestrator.conftest import Replica, eventually, settled
from tests.orchestrator.player import Player
from tests.support.faulty import EVERY, FaultyStore

Make = Callable[[str], Player]


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {
        "heartbeat": 0.1, "lease": 0.4, "self_stop": 0.8, "placement": 0.3, "settlement": 0.6, "handler_timeout": 0.5,
    }  # fmt: skip


async def test_a_lost_worker_ends_its_turn_within_the_lease(coord: Coordinator, player: Make, replica: Replica) -> None:
    """The execution is lost, the turn is settled, and the message is back in line or reported."""
    await replica()
    session = player("s")
    await session.open()
    claim = await session.begin()
    assert claim.ownership is not None
    await coord.kernel.turns.output("s", claim.ownership, 1, "taken")
    await settled(coord, "s", 1)
    assert [entry["reason"] for entry in await session.log("turn.ended")] == ["lost"]
    assert await session.outcomes() == ["none"]


async def test_a_renewed_lease_does_not_run_out(coord: Coordinator, player: Make, replica: Replica) -> None:
    await replica()
    session = player("s")
    await session.open()
    claim = await session.begin()
    assert claim.ownership is not None
    held = [Held("s", session.execution_id, session.token, claim.ownership.claim_id)]
    for _ in range(12):
        await coord.kernel.executions.renew("w1", held)
        await asyncio.sleep(0.1)
    assert (await coord.kernel.snapshots.read("s")).open_turn == 1
    assert await session.log("turn.ended") == []


async def test_a_placement_that_nobody_took_is_offered_again(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    faults = FaultyStore(coord.kernel.store)
    await replica()
    session = player("s")
    await session.open()
    await session.send("work")
    redis, keys = coord.kernel.store.redis, coord.kernel.store.keys
    await redis.delete(keys.queue)

    async def offered_again() -> bool:
        return bool(await redis.zcard(keys.queue))

    await eventually(offered_again)
    assert faults.sent["expire_placement"] >= 1


async def test_a_ready_that_the_stream_has_lost_is_written_again_and_settled(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Acknowledged or trimmed by somebody else: the record still says that the turn is unsettled."""
    session = player("s")
    await session.open()
    await session.turn()
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.session("s")["events"]
    await redis.xgroup_create(events, GROUP, "$", mkstream=True)
    await redis.xtrim(events, maxlen=0, approximate=False)
    await replica()
    await settled(coord, "s", 1)
    assert len(await session.log("turn.settled")) == 1


async def test_a_failing_act_keeps_no_other_from_being_done(coord: Coordinator, player: Make, replica: Replica) -> None:
    coord.kernel.store._patience = 0.05
    faults = FaultyStore(coord.kernel.store)
    faults.drop_call("expire_placement", EVERY)
    await replica()
    stuck, lost = player("stuck"), player("lost")
    await stuck.open()
    await stuck.send("work")
    await lost.open()
    await lost.begin()
    await settled(coord, "lost", 1)
    assert (await coord.kernel.snapshots.read("stuck")).waiting_for == "placement"


async def test_two_sweepers_act_once(coord: Coordinator, player: Make) -> None:
    """Both read the same deadline; the second act meets a moved one."""
    session = player("s")
    await session.open()
    claim = await session.begin()
    assert claim.ownership is not None
    deadlines = coord.kernel.deadlines
    sweepers = [Sweeper(deadlines, coord.settings.partitions, 0.05) for _ in range(2)]

    async def ended() -> bool:
        await asyncio.gather(*(sweeper.once() for sweeper in sweepers))
        return (await coord.kernel.snapshots.read("s")).open_turn == 0

    await eventually(ended)
    assert len(await session.log("turn.ended")) == 1
    assert len(await session.readies()) == 1


class _Scripted(Deadlines):
    """Deadlines that a test makes up."""

    def __init__(self, sweeps: list[Sweep | Exception], fails: bool = False) -> None:
        self.sweeps = sweeps
        self.fails = fails
        self.expired: list[Due] = []

    async def sweep(self, partition: int) -> Sweep:  # noqa: ARG002 - all are alike
        found = self.sweeps.pop(0) if len(self.sweeps) > 1 else self.sweeps[0]
        if isinstance(found, Exception):
            raise found
        return found

    async def expire(self, kind: str, session_id: str, score: str, next_token: str = "") -> Any:  # noqa: ARG002 - the real one's
        self.expired.append(Due(kind, session_id, score))
        if self.fails:
            raise ConnectionError("no answer")


@pytest.mark.parametrize(("next_ms", "seconds"), [(None, 2.0), (900, 0.9), (60_000, 2.0), (0, 0.02)])
async def test_it_sleeps_to_the_earliest_deadline_but_not_longer_than_the_interval(
    next_ms: int | None, seconds: float
) -> None:
    sweeper = Sweeper(_Scripted([Sweep(due=(), next_ms=next_ms)]), 1, 2.0)
    assert await sweeper.once() == seconds


async def test_what_stays_due_and_what_fails_is_backed_off() -> None:
    """Otherwise a deadline that can't be acted on would be swept without pause."""
    due = Sweep(due=(Due("lease", "s", "1"),), next_ms=0)
    stays = Sweeper(_Scripted([due]), 1, 2.0)
    waits = [await stays.once() for _ in range(12)]
    assert waits[0] == 0.02
    assert max(waits) > 0.2
    fails = Sweeper(_Scripted([due], fails=True), 1, 2.0)
    assert max([await fails.once() for _ in range(12)]) > 0.2
    down = Sweeper(_Scripted([ConnectionError("no answer")]), 1, 2.0)
    waits = [await down.once() for _ in range(12)]
    assert 0.2 < max(waits) <= 2.0
