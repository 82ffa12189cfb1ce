"""Placements, starts, suspects and settlements that nobody attended to, and sessions that nobody used."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import AgentLost
from coordinator.domain.records import SessionPolicy
from coordinator.domain.verdicts import Verdict
from coordinator.store.keys import GROUP
from tests.scripts.scene import Scene, heard

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def offers(kernel: Kernel) -> list[str]:
    """The job ids in the queue."""
    found: list[str] = await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1)
    return found


async def left(scene: Scene, kind: str) -> int:
    """Milliseconds until a deadline, about."""
    now: int = (await scene.kernel.store.redis.time())[0] * 1000
    return (await scene.deadlines())[kind] - now


async def test_a_placement_that_nobody_took_is_offered_again_at_doubling_intervals(kernel: Kernel) -> None:
    """Section 9: job ids are never used again; the interval doubles from 10 s up to a minute."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    for offer, seconds in enumerate((20, 40, 60, 60), 1):
        assert await scene.expired("placement") == "PLACE"
        assert f"-{scene.token}-{offer}" in " ".join(await offers(kernel))
        assert (seconds - 2) * 1000 < await left(scene, "placement") <= (seconds + 1) * 1000
    assert len(set(await offers(kernel))) == 5
    assert (await scene.view()).waiting_for == "placement"


async def test_an_activity_of_a_live_execution_is_hinted_again_and_not_placed(kernel: Kernel) -> None:
    """Affinity: a lost hint is repeated by the placement deadline, if no heartbeat was quicker."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.sent("again")
    before, control = await offers(kernel), kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        assert await scene.expired("placement") == "OK"
        assert await so_far() == [(control, f"run s {scene.token}")]
    assert await offers(kernel) == before


async def test_a_start_that_takes_too_long_voids_the_execution_and_parks(kernel: Kernel) -> None:
    """A failed start: mark raised, execution suspect; what the slow one reports later is superseded."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    assert await scene.expired("start") == "OK"
    view = await scene.view()
    assert (view.status, view.park_mark, view.suspects, view.execution_id) == ("idle", 1, ("e1",), "")
    assert set(await scene.deadlines()) == {"suspect", "retention"}
    assert [event.reason for _, event in await scene.events() if isinstance(event, AgentLost)] == [
        "did not start in time"
    ]
    assert not await kernel.executions.boot(scene.sid, "e1")
    assert await scene.pending() == ["hello"]


async def test_a_started_execution_no_longer_waits_for_its_start(kernel: Kernel) -> None:
    """Boot takes the deadline away."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    assert set(await scene.deadlines()) == {"lease"}


async def test_suspects_that_nobody_names_are_forgotten_together(kernel: Kernel) -> None:
    """Section 6: after self_stop + one lease their own workers must have stopped them."""
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await scene.expired("lease")
    assert 24_000 <= await left(scene, "suspect") <= 26_000
    assert await scene.expired("suspect") == "OK"
    assert ((await scene.view()).suspects, "suspect" in await scene.deadlines()) == ((), False)


async def ended(kernel: Kernel) -> tuple[Scene, str]:
    """A turn that has ended and is unsettled, and its entry."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    return scene, (await scene.readies())[-1][0]


@pytest.mark.parametrize("state", ["undelivered", "pending", "no group"])
async def test_a_ready_that_is_on_its_way_is_not_written_again(kernel: Kernel, state: str) -> None:
    """Section 7: an entry that is not delivered yet, or pending for a replica, is somebody's already."""
    scene, entry = await ended(kernel)
    if state == "pending":
        await scene.delivered()
    elif state == "no group":
        await kernel.store.redis.xgroup_destroy(scene.keys["events"], GROUP)
    assert await scene.expired("settlement") == "OK"
    assert [found for found, _ in await scene.readies()] == [entry]
    assert 13_000 <= await left(scene, "settlement") <= 16_000


@pytest.mark.parametrize("state", ["trimmed", "stream gone", "acknowledged", "skipped by the group"])
async def test_a_ready_that_nobody_will_act_on_is_written_again(kernel: Kernel, state: str) -> None:
    """F14: the same payload, from the record; whichever copy is settled first counts, the other is stale."""
    scene, entry = await ended(kernel)
    redis, events = kernel.store.redis, scene.keys["events"]
    first = (await scene.readies())[-1][1]
    if state == "trimmed":
        await redis.xdel(events, entry)
    elif state == "stream gone":
        await redis.delete(events)
    elif state == "acknowledged":
        await scene.delivered()
        await redis.xack(events, GROUP, entry)
    else:
        await redis.xgroup_setid(events, GROUP, "$")
    assert await scene.expired("settlement") == "OK"
    again, event = (await scene.readies())[-1]
    assert again != entry
    assert event == first
    assert await scene.expired("settlement") == "OK"
    assert (await scene.readies())[-1][0] == again
    assert (await kernel.settlements.settle(event, again)).verdict is Verdict.OK
    stale = await kernel.settlements.settle(event, entry)
    assert (stale.verdict, stale.detail) == (Verdict.STALE, "settled")
    assert "settlement" not in await scene.deadlines()


async def test_a_ready_written_again_asks_for_settlement_whatever_the_policy_is_by_then(kernel: Kernel) -> None:
    """Its turn is unsettled, so somebody has to settle it, also after the policy became `none`."""
    scene, entry = await ended(kernel)
    await kernel.sessions.open(scene.sid, SessionPolicy(settlement="none"))
    await kernel.store.redis.xdel(scene.keys["events"], entry)
    await scene.expired("settlement")
    assert (await scene.readies())[-1][1].settlement == "required"


async def test_an_idle_session_is_closed_visibly_and_then_removed_to_its_last_key(kernel: Kernel) -> None:
    """Section 3: retention closes first; what is left after the second time is the partition's and the receipts."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.sent("quiet", list="next-step", wake=False)
    await scene.settled()
    await scene.expired("lease")
    await kernel.guards.acquire(scene.sid, "somebody")
    assert await left(scene, "retention") // 86_400_000 == 30
    assert await scene.expired("retention") == "OK"
    view = await scene.view()
    assert (view.lifecycle, await scene.pending()) == ("closed", [])
    assert (await scene.log())[-2]["why"] == "expired"
    assert (await scene.types())[-2:] == ["inbox.discarded", "session.closed"]
    assert await left(scene, "retention") // 86_400_000 == 7
    hint = kernel.store.keys.hint(scene.sid)
    async with heard(kernel, hint) as so_far:
        assert await scene.expired("retention") == "OK"
        assert await so_far() == [(hint, "removed")]
    redis = kernel.store.redis
    assert {name async for name in redis.scan_iter() if ":session:" in name and ":receipt:" not in name} == set()
    receipts = [name async for name in redis.scan_iter() if ":receipt:" in name]
    assert all([await redis.pttl(name) > 0 for name in receipts])
    assert await redis.zrange(scene.keys["deadlines"], 0, -1) == []
    assert await redis.zrange(scene.keys["sessions"], 0, -1) == []


async def test_a_removed_session_can_be_opened_anew_and_begins_at_one(kernel: Kernel) -> None:
    """Nothing of the one before is left in the new one."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    for _ in range(2):
        await scene.expired("retention")
    assert await kernel.sessions.open(scene.sid, SessionPolicy())
    view = await scene.view()
    assert (view.turn, view.generation, view.sequence, view.lifecycle) == (0, 0, 0, "open")
    assert await scene.types() == ["session.opened"]
