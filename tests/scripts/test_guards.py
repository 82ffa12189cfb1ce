"""The per-session guard: one holder, a rising number, and nothing for strangers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, heard, unchanged

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def expire(scene: Scene) -> None:
    """The guard's lease, over: it has one, and a server takes the key away when it ends."""
    redis = scene.kernel.store.redis
    assert 0 < await redis.pttl(scene.keys["guard"]) <= 10_000
    await redis.pexpireat(scene.keys["guard"], 1)
    assert not await redis.exists(scene.keys["guard"])


async def test_every_holder_gets_a_higher_number(kernel: Kernel) -> None:
    """Section 2, guard: a number drawn from a counter in the record; released or run out makes no difference."""
    scene = await Scene(kernel).opened()
    first = await kernel.guards.acquire(scene.sid, "a")
    assert await kernel.guards.release(scene.sid, "a", first.number)
    second = await kernel.guards.acquire(scene.sid, "b")
    await expire(scene)
    third = await kernel.guards.acquire(scene.sid, "a")
    assert [first.number, second.number, third.number] == [1, 2, 3]
    view = await scene.view()
    assert (view.guard_owner, view.guard_number) == ("a", 3)
    assert 0 < view.guard_ms <= 10_000


async def test_the_holder_s_own_repeat_extends_its_lease_and_keeps_its_number(kernel: Kernel) -> None:
    """A reply can be lost: the owner's id, made by the caller, tells its repeat from another's attempt."""
    scene = await Scene(kernel).opened()
    first = await kernel.guards.acquire(scene.sid, "a")
    await kernel.store.redis.pexpire(scene.keys["guard"], 500)
    async with unchanged(kernel):
        again = await kernel.guards.acquire(scene.sid, "a")
    assert again == first
    assert await kernel.store.redis.pttl(scene.keys["guard"]) > 500


async def test_who_finds_it_held_is_told_by_whom_and_for_how_long(kernel: Kernel) -> None:
    """GUARD_BUSY writes nothing, and does not touch the holder's lease."""
    scene = await Scene(kernel).opened()
    await kernel.guards.acquire(scene.sid, "a")
    await kernel.store.redis.pexpire(scene.keys["guard"], 700)
    async with unchanged(kernel):
        busy = await kernel.guards.acquire(scene.sid, "b")
    assert (busy.verdict, busy.owner, busy.number) == (Verdict.GUARD_BUSY, "a", 0)
    assert 0 < busy.ms_left <= 700
    assert await kernel.store.redis.pttl(scene.keys["guard"]) <= 700


async def test_only_the_holder_with_its_number_extends_or_releases(kernel: Kernel) -> None:
    """Invariant 12: a holder that lost its guard writes nothing; owner and number are both compared."""
    scene = await Scene(kernel).opened()
    old = await kernel.guards.acquire(scene.sid, "a")
    await expire(scene)
    async with unchanged(kernel):
        assert not await kernel.guards.extend(scene.sid, "a", old.number)
        assert not await kernel.guards.release(scene.sid, "a", old.number)
    new = await kernel.guards.acquire(scene.sid, "a")
    await kernel.store.redis.pexpire(scene.keys["guard"], 700)
    async with unchanged(kernel):
        for owner, number in (("a", old.number), ("b", new.number), ("", new.number), ("a", 0)):
            assert not await kernel.guards.extend(scene.sid, owner, number)
            assert not await kernel.guards.release(scene.sid, owner, number)
    assert await kernel.store.redis.pttl(scene.keys["guard"]) <= 700
    assert await kernel.guards.extend(scene.sid, "a", new.number)
    assert await kernel.store.redis.pttl(scene.keys["guard"]) > 700


async def test_a_released_guard_is_free_and_its_repeat_finds_it_lost(kernel: Kernel) -> None:
    """A second release changes nothing, also when another holds it by then."""
    scene = await Scene(kernel).opened()
    guard = await kernel.guards.acquire(scene.sid, "a")
    assert await kernel.guards.release(scene.sid, "a", guard.number)
    async with unchanged(kernel):
        assert not await kernel.guards.release(scene.sid, "a", guard.number)
    await kernel.guards.acquire(scene.sid, "b")
    async with unchanged(kernel):
        assert not await kernel.guards.release(scene.sid, "a", guard.number)


async def test_there_is_no_guard_without_a_session(kernel: Kernel) -> None:
    """Nothing is minted from nothing."""
    async with unchanged(kernel):
        assert (await kernel.guards.acquire("nobody", "a")).verdict is Verdict.NO_SESSION
        assert not await kernel.guards.extend("nobody", "a", 1)
        assert not await kernel.guards.release("nobody", "a", 1)


async def test_a_guard_works_on_a_closed_session(kernel: Kernel) -> None:
    """Section 4: on a closing or closed session guards work as usual."""
    scene = await Scene(kernel).opened()
    await kernel.sessions.close(scene.sid)
    guard = await kernel.guards.acquire(scene.sid, "a")
    assert await kernel.guards.extend(scene.sid, "a", guard.number)
    assert await kernel.guards.release(scene.sid, "a", guard.number)


async def test_its_release_tells_waiters_and_the_driver_that_it_held_up(kernel: Kernel) -> None:
    """Section 8: release hints; a worker hears of it only when its driver has nothing open."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    guard = await kernel.guards.acquire(scene.sid, "a")
    assert (await scene.claimed()).verdict is Verdict.GUARDED
    hint, control = kernel.store.keys.hint(scene.sid), kernel.store.keys.control("w1")
    async with heard(kernel, hint, control) as so_far:
        await kernel.guards.release(scene.sid, "a", guard.number)
        assert await so_far() == [(hint, "OK"), (control, f"run s {scene.token}")]
        await scene.claimed()
        guard = await kernel.guards.acquire(scene.sid, "a")
        await so_far()
        await kernel.guards.release(scene.sid, "a", guard.number)
        assert await so_far() == [(hint, "OK")]


async def test_send_output_step_finish_and_renew_never_look_at_the_guard(kernel: Kernel) -> None:
    """Section 8: nobody waits under a guard for the end of a prompt that it must not hold up."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted(accept=False)
    await kernel.guards.acquire(scene.sid, "a")
    await scene.sent("more", list="next-step")
    assert await kernel.turns.output(scene.sid, ownership, 1, "text")
    assert await kernel.turns.step(scene.sid, ownership, 1)
    assert await scene.renewed(claim="c1") == "held"
    assert (await scene.finished(ownership)).verdict is Verdict.GONE
    await scene.sent("next")
    assert (await scene.claimed()).verdict is Verdict.GUARDED
    assert (await scene.view()).waiting_for == "guard"
    assert await scene.expired("lease") == "OK"
