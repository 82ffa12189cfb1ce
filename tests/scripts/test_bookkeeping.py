"""What the scripts write beside the turn itself: counters, the list of sessions, texts of the log, resume tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import AgentBootReady
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, unchanged
from tests.scripts.story import Story

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def counters(scene: Scene) -> dict[str, int]:
    """What the partition has counted."""
    found = await scene.kernel.store.redis.hgetall(scene.keys["counters"])  # type: ignore[misc]
    return {name: int(text) for name, text in found.items() if not name.endswith("_ms")}


async def test_everything_is_counted_once(kernel: Kernel) -> None:
    """The counters of a whole life, summed up over the partitions elsewhere; one turn is settled twice."""
    story = Story(kernel)
    await story.tell()
    log = [fields["type"] for _, fields in await kernel.store.redis.xrange(story.scene.keys["log"])]
    assert log == []
    assert await counters(story.scene) == {
        "opened": 1, "turns": 18, "ready": 18, "settled": 19, "ready_again": 2, "lost": 7, "closed": 1, "removed": 1,
        "cancel.cancelled": 3, "cancel.escalated": 3, "escalations": 2, "reset.committed": 2, "reset.failed": 4,
        "entry.failed": 1, "dead": 1,
    }  # fmt: skip


async def test_an_empty_turn_and_a_dead_letter_are_counted_as_such(kernel: Kernel) -> None:
    """Neither a turn nor a ready; and dead beside settled."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    await kernel.store.redis.delete(scene.keys["next_turn"], scene.keys["awake"])
    assert (await scene.claimed()).verdict is Verdict.EMPTY
    assert await counters(scene) == {"opened": 1, "empty_turns": 1}
    await scene.finished(await scene.prompted())
    entry, event = (await scene.readies())[-1]
    await kernel.settlements.failed(event, entry, (await kernel.guards.acquire(scene.sid, "r")).number, "boom", 1)
    assert (await counters(scene))["dead"] == (await counters(scene))["settled"] == 1


async def test_sessions_are_listed_by_their_last_change_of_status(kernel: Kernel) -> None:
    """Newest last, by the server's clock; the record says the same time."""
    scenes = [await Scene(kernel, name).opened() for name in same_partition(kernel)]
    redis, sessions = kernel.store.redis, scenes[0].keys["sessions"]
    view = await scenes[0].view()
    assert await redis.zscore(sessions, scenes[0].sid) == view.status_ms == view.opened_ms > 1
    for scene in scenes:
        await redis.zadd(sessions, {scene.sid: 1})
        await redis.hset(scene.keys["session"], "status_ms", "1")  # type: ignore[misc]
    await scenes[0].sent()
    assert await redis.zrange(sessions, 0, -1) == [scenes[1].sid, scenes[0].sid]
    assert await redis.zscore(sessions, scenes[0].sid) == (await scenes[0].view()).status_ms > 1


def same_partition(kernel: Kernel) -> list[str]:
    """Two session ids of one partition."""
    partition_of = kernel.store.keys.partition_of
    return [name for name in (f"n{number}" for number in range(500)) if partition_of(name) == 0][:2]


async def test_the_log_tells_attempts_and_errors_of_turns(kernel: Kernel) -> None:
    """`turn.started` and `turn.ended` have the attempt, `turn.ended` the error if there was one."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted(accept=False)
    end = await scene.finished(ownership, "error", error="no route", undelivered=True)
    scene.token = end.token
    ownership = (await scene.claimed()).ownership or ownership
    await scene.finished(ownership)
    turns = [entry for entry in await scene.log() if entry["type"] in {"turn.started", "turn.ended"}]
    assert [entry["attempt"] for entry in turns] == ["1", "1", "2", "2"]
    assert [entry.get("error") for entry in turns] == [None, "no route", None, None]


async def test_the_newest_resume_token_is_given_to_the_next_execution(kernel: Kernel) -> None:
    """Boot and finish may give one; an empty one leaves what is there."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted()
    await scene.finished(ownership, resume_token="resume-2")
    await kernel.executions.release(scene.sid, "e1")
    await scene.sent()
    accepted = await kernel.executions.accept(scene.sid, scene.token, "e2", "w1")
    assert accepted.resume_token == "resume-2"
    await kernel.executions.boot(scene.sid, "e2")
    assert (await scene.view()).resume_token == "resume-2"
    boots = [event.reason for _, event in await scene.events() if isinstance(event, AgentBootReady)]
    assert boots == ["resumable", "started"]


async def test_a_claim_on_a_live_execution_accepts_its_activity(kernel: Kernel) -> None:
    """Section 4, claim: nobody else can take it from then on, and it no longer waits for a placement."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await scene.sent("again")
    assert "placement" in await scene.deadlines()
    claim = await scene.claimed()
    assert claim.ownership
    assert set(await scene.deadlines()) == {"lease", "acceptance"}
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.TAKEN
    await scene.finished(claim.ownership)
    async with unchanged(kernel):
        assert (await kernel.executions.accept(scene.sid, scene.token, "e2", "w2")).verdict is Verdict.SUPERSEDED


async def test_nothing_is_claimed_before_the_execution_is_up(kernel: Kernel) -> None:
    """A claim of an execution that has not booted is not a driver's."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    scene.execution = "e1"
    await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    async with unchanged(kernel):
        assert (await scene.claimed()).verdict is Verdict.SUPERSEDED


async def test_an_activity_counts_its_own_offers(kernel: Kernel) -> None:
    """The interval of the next activity begins at its start, and so does that of one which lost its worker."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    for _ in range(3):
        await scene.expired("placement")
    await scene.booted()
    await kernel.turns.retire(scene.sid, scene.token, "e1", next_token="next")
    scene.token = "next"
    await scene.expired("placement")
    assert await kernel.store.redis.hget(scene.keys["session"], "offers") == "1"  # type: ignore[misc]


@pytest.mark.parametrize("by", ["lease", "release"])
async def test_an_activity_placed_elsewhere_waits_no_longer_than_a_first_offer(kernel: Kernel, by: str) -> None:
    """Its placement deadline begins anew when the live execution that was told of it is lost, or given up."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await scene.sent("again")
    now: int = (await kernel.store.redis.time())[0] * 1000
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"placement:s": now + 60_000})
    if by == "lease":
        await scene.expired("lease")
    else:
        await kernel.executions.release(scene.sid, "e1")
    assert (await scene.deadlines())["placement"] <= now + 12_000
