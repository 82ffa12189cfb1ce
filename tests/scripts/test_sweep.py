"""What is due: found in order, moved once after an outage, and ended by compare-and-set only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from coordinator.services.deadlines import KINDS, OUTAGE_MS
from tests.scripts.scene import Scene, unchanged

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from coordinator.services.deadlines import Sweep

LEASE_MS = 5000


async def swept(scene: Scene) -> Sweep:
    """The session's partition, swept once."""
    return await scene.kernel.deadlines.sweep(scene.kernel.store.keys.partition_of(scene.sid))


async def attended(kernel: Kernel) -> Scene:
    """An open prompt in a partition that was swept just now."""
    scene = await Scene(kernel).opened()
    await scene.prompted(accept=False)
    await swept(scene)
    return scene


async def unattended(scene: Scene, ms: int) -> None:
    """The last sweep of its partition, `ms` ago."""
    seconds, micros = await scene.kernel.store.redis.time()
    counters = scene.keys["counters"]
    await scene.kernel.store.redis.hset(counters, "swept_ms", str(seconds * 1000 + micros // 1000 - ms))  # type: ignore[misc]


async def test_an_empty_partition_has_nothing_due_and_no_next(kernel: Kernel) -> None:
    """Nothing to wait for: only the interval bounds the next sweep."""
    found = await kernel.deadlines.sweep(3)
    assert (found.due, found.next_ms) == ((), None)


async def test_a_sweep_says_how_long_until_the_earliest_deadline(kernel: Kernel) -> None:
    """Section 10: sweep to the earliest deadline; here the lease, before acceptance."""
    scene = await attended(kernel)
    found = await swept(scene)
    assert found.due == ()
    assert found.next_ms is not None
    assert LEASE_MS - 2000 < found.next_ms <= LEASE_MS


async def test_what_is_due_is_answered_in_order_with_the_score_to_compare(kernel: Kernel) -> None:
    """The member names kind and session, the score goes back to `expire` unchanged."""
    scene = await attended(kernel)
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"acceptance:s": 2, "lease:s": 1})
    found = await swept(scene)
    assert [(due.kind, due.session_id, float(due.score)) for due in found.due] == [
        ("lease", "s", 1), ("acceptance", "s", 2),
    ]  # fmt: skip
    assert found.next_ms == 0
    due = found.due[1]
    assert (await kernel.deadlines.expire(due.kind, due.session_id, due.score)).verdict is Verdict.OK


async def test_a_sweep_answers_at_most_a_hundred(kernel: Kernel) -> None:
    """One sweep holds the server up for a bounded time; what is left is due at once again."""
    scene = await attended(kernel)
    await kernel.store.redis.zadd(scene.keys["deadlines"], {f"suspect:x{number}": 5 for number in range(130)})
    found = await swept(scene)
    assert (len(found.due), found.next_ms) == (100, 0)


@pytest.mark.parametrize("first", [True, False], ids=["no sweep ever", "an old sweep"])
async def test_after_an_outage_every_due_deadline_gets_one_more_lease(kernel: Kernel, *, first: bool) -> None:
    """Section 4, expire: after an outage nobody is declared dead; what is not due yet stays where it is."""
    scene = await attended(kernel)
    acceptance = (await scene.deadlines())["acceptance"]
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"lease:s": 1, "suspect:other": 2})
    if first:
        await kernel.store.redis.hdel(scene.keys["counters"], "swept_ms")  # type: ignore[misc]
    else:
        await unattended(scene, OUTAGE_MS + 200)
    found = await swept(scene)
    assert found.due == ()
    assert found.next_ms is not None
    assert LEASE_MS - 1000 < found.next_ms <= LEASE_MS
    assert (await scene.deadlines())["acceptance"] == acceptance
    scores = await kernel.store.redis.zmscore(scene.keys["deadlines"], ["lease:s", "suspect:other"])
    assert scores[0] == scores[1]
    assert (await kernel.deadlines.expire("lease", scene.sid, "1")).verdict is Verdict.NOT_DUE


async def test_the_grace_after_an_outage_is_given_once(kernel: Kernel) -> None:
    """The next sweep finds what it moved where it put it, and acts on what is due by then."""
    scene = await attended(kernel)
    await unattended(scene, OUTAGE_MS + 200)
    await scene.make_due("lease")
    await swept(scene)
    moved = (await scene.deadlines())["lease"]
    await swept(scene)
    assert (await scene.deadlines())["lease"] == moved
    await scene.make_due("lease")
    assert [due.kind for due in (await swept(scene)).due] == ["lease"]


async def test_a_short_pause_between_sweeps_is_no_outage(kernel: Kernel) -> None:
    """A sweeper that was late by less than the bound declares the dead dead."""
    scene = await attended(kernel)
    await unattended(scene, OUTAGE_MS - 500)
    await scene.make_due("lease")
    assert [due.kind for due in (await swept(scene)).due] == ["lease"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_deadline_that_was_moved_or_is_not_over_is_not_due(kernel: Kernel, kind: str) -> None:
    """Each ending compares the score that was read, and the server's clock: a late sweeper ends nothing."""
    scene = await attended(kernel)
    redis, member = kernel.store.redis, f"{kind}:s"
    far = (await redis.time())[0] * 1000 + 90_000
    async with unchanged(kernel):
        assert (await kernel.deadlines.expire(kind, scene.sid, "7")).verdict is Verdict.NOT_DUE
    await redis.zadd(scene.keys["deadlines"], {member: far})
    async with unchanged(kernel):
        assert (await kernel.deadlines.expire(kind, scene.sid, "7")).verdict is Verdict.NOT_DUE
        assert (await kernel.deadlines.expire(kind, scene.sid, str(far))).verdict is Verdict.NOT_DUE
    await redis.zrem(scene.keys["deadlines"], member)
    async with unchanged(kernel):
        assert (await kernel.deadlines.expire(kind, scene.sid, str(far))).verdict is Verdict.NOT_DUE


@pytest.mark.parametrize("kind", ["placement", "lease", "start", "acceptance", "settlement"])
async def test_a_deadline_without_its_reason_is_only_taken_away(kernel: Kernel, kind: str) -> None:
    """GONE: nothing waits for it, so it goes and nothing else changes."""
    scene = await Scene(kernel).opened()
    await kernel.store.redis.zadd(scene.keys["deadlines"], {f"{kind}:s": 1})
    async with unchanged(kernel, {"*:deadlines"}):
        assert (await kernel.deadlines.expire(kind, scene.sid, "1")).verdict is Verdict.GONE
    assert set(await scene.deadlines()) == {"retention"}


async def test_the_retention_of_a_session_that_runs_is_only_taken_away(kernel: Kernel) -> None:
    """GONE: a running session has no retention deadline; a forgotten one does nothing."""
    scene = await attended(kernel)
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"retention:s": 1})
    async with unchanged(kernel, {"*:deadlines"}):
        assert (await kernel.deadlines.expire("retention", scene.sid, "1")).verdict is Verdict.GONE
    assert set(await scene.deadlines()) == {"lease", "acceptance"}


@pytest.mark.parametrize("state", ["reserved", "starting", "ready", "open", "accepted", "unsettled", "restarted"])
async def test_a_running_session_always_has_a_deadline(kernel: Kernel, state: str) -> None:
    """Invariant 10: a running session always has a deadline that ends or moves it, other than retention."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    if state == "starting":
        await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    elif state != "reserved":
        await scene.booted()
    if state in {"open", "accepted", "unsettled", "restarted"}:
        ownership = (await scene.claimed()).ownership
        assert ownership
        if state != "open":
            await kernel.turns.output(scene.sid, ownership, 1, "")
        await scene.sent("next")
        if state == "unsettled":
            await scene.finished(ownership)
        elif state == "restarted":
            await scene.finished(ownership, "interrupted")
    assert (await scene.view()).status == "running"
    assert set(await scene.deadlines()) & {"placement", "lease"}
    assert "retention" not in await scene.deadlines()
