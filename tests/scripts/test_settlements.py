"""A replica settles what an `agent.ready` names: once, acknowledged in the same script, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import COUNTED, Scene, heard, unchanged

if TYPE_CHECKING:
    from coordinator.domain.events import AgentReady
    from coordinator.services import Kernel
    from coordinator.services.settlements import Begun, Settled


async def ended(kernel: Kernel, reason: str = "completed", **policy: object) -> tuple[Scene, str, AgentReady]:
    """A turn whose ready is pending for a replica."""
    scene = await Scene(kernel).opened(**policy)
    await scene.finished(await scene.prompted(), reason)
    await scene.delivered()
    entry, event = (await scene.readies())[-1]
    return scene, entry, event


async def counted(scene: Scene) -> dict[str, str]:
    """The partition's counters of stale events."""
    counters = await scene.kernel.store.redis.hgetall(scene.keys["counters"])  # type: ignore[misc]
    return {name: text for name, text in counters.items() if name.startswith("stale")}


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [("completed", "stayed"), ("max_tokens", "stayed"), ("error", "none"), ("blocked", "none"), ("cancelled", "none")],
)
async def test_settling_is_logged_with_its_outcome_and_acknowledged(kernel: Kernel, reason: str, outcome: str) -> None:
    """Section 7: close the turn, and acknowledge in the same script; what was not completed is not evaluated."""
    scene, entry, event = await ended(kernel, reason)
    assert entry in await scene.delivered()
    settled = await kernel.settlements.settle(event, entry)
    assert (settled.verdict, settled.detail) == (Verdict.OK, outcome)
    assert entry not in await scene.delivered()
    assert (await scene.log())[-1] == {
        "type": "turn.settled", "turn": "1", "generation": "1", "execution_id": "e1", "outcome": outcome,
    }  # fmt: skip
    assert "settlement" not in await scene.deadlines()


async def test_a_settlement_repeated_after_a_lost_reply_gets_the_first_answer(kernel: Kernel) -> None:
    """Section 4: never STALE; the entry that settled the turn is remembered with it, and nothing is written."""
    scene, entry, event = await ended(kernel)
    first = await kernel.settlements.settle(event, entry)
    async with unchanged(kernel):
        assert await kernel.settlements.settle(event, entry) == first
    assert await counted(scene) == {}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"execution_id": "e0"}, "execution"),
        ({"generation": 7}, "generation"),
        ({"claim_id": "c0"}, "claim"),
        ({}, "settled"),
    ],
)
@pytest.mark.parametrize("call", ["settle", "begin"])
async def test_a_ready_of_another_turn_is_counted_logged_and_acknowledged(
    kernel: Kernel, change: dict[str, str | int], why: str, call: str
) -> None:
    """A8, A9, A11, invariants 4 and 13: fail closed on whatever differs first; nothing else changes."""
    scene, entry, event = await ended(kernel)
    if not change:
        await kernel.settlements.settle(event, "0-1")
    other = msgspec.structs.replace(event, **change)
    async with unchanged(kernel, {*COUNTED, "*:events"}):
        if call == "settle":
            answer: Settled | Begun = await kernel.settlements.settle(other, entry)
        else:
            guard = await kernel.guards.acquire(scene.sid, "r")
            answer = await kernel.settlements.begin(other, entry, guard.number)
            await kernel.guards.release(scene.sid, "r", guard.number)
            await kernel.store.redis.hdel(scene.keys["session"], "guard_number")  # type: ignore[misc]
    assert (answer.verdict, answer.detail) == (Verdict.STALE, why)
    assert entry not in await scene.delivered()
    assert await counted(scene) == {"stale": "1", f"stale.{why}": "1"}
    assert (await scene.log())[-1]["why"] == why


@pytest.mark.parametrize("call", ["settle", "begin"])
async def test_a_ready_of_no_session_is_counted_and_acknowledged(kernel: Kernel, call: str) -> None:
    """`NO_SESSION` is stale too: nothing is minted from nothing, not even a log."""
    scene, entry, event = await ended(kernel)
    for _ in range(2):
        await scene.expired("retention")
    async with unchanged(kernel, {"*:counters", "*:events"}):
        if call == "settle":
            answer: Settled | Begun = await kernel.settlements.settle(event, entry)
        else:
            answer = await kernel.settlements.begin(event, entry, 1)
    assert answer.verdict is Verdict.NO_SESSION
    assert entry not in await scene.delivered()
    assert await counted(scene) == {"stale": "1", "stale.session": "1"}


@pytest.mark.parametrize("call", ["settle", "begin", "failed"])
async def test_a_held_guard_holds_a_settlement_up_and_says_for_how_long(kernel: Kernel, call: str) -> None:
    """A25, section 7: busy is no failure, and the entry stays pending; nothing is written."""
    scene, entry, event = await ended(kernel)
    await kernel.guards.acquire(scene.sid, "somebody")
    async with unchanged(kernel):
        answer = await called(kernel, call, event, entry, 0)
    assert answer.verdict is Verdict.GUARDED
    assert 0 < answer.ms_left <= 10_000
    assert entry in await scene.delivered()


@pytest.mark.parametrize("call", ["settle", "begin", "failed"])
@pytest.mark.parametrize("taken", [True, False], ids=["taken", "free"])
async def test_a_replica_that_lost_its_guard_writes_nothing(kernel: Kernel, call: str, *, taken: bool) -> None:
    """Invariant 12: the number is compared, whether another holds the guard by then or nobody does."""
    scene, entry, event = await ended(kernel)
    guard = await kernel.guards.acquire(scene.sid, "r")
    await kernel.store.redis.delete(scene.keys["guard"])
    if taken:
        await kernel.guards.acquire(scene.sid, "r")
    async with unchanged(kernel):
        assert (await called(kernel, call, event, entry, guard.number)).verdict is Verdict.GUARD_LOST
    assert entry in await scene.delivered()


async def called(kernel: Kernel, call: str, event: AgentReady, entry: str, guard: int) -> Settled | Begun:
    """One of the settlement's scripts."""
    if call == "settle":
        return await kernel.settlements.settle(event, entry, guard)
    if call == "begin":
        return await kernel.settlements.begin(event, entry, guard)
    return await kernel.settlements.failed(event, entry, guard, "boom", 5)


async def test_beginning_under_the_guard_only_looks(kernel: Kernel) -> None:
    """It answers the failures so far; the settlement under the same guard follows."""
    scene, entry, event = await ended(kernel)
    guard = await kernel.guards.acquire(scene.sid, "r")
    async with unchanged(kernel):
        begun = await kernel.settlements.begin(event, entry, guard.number)
    assert (begun.verdict, begun.failures, begun.evaluates, begun.cancel) == (Verdict.OK, 0, "evaluate", "")
    assert (await kernel.settlements.settle(event, entry, guard.number, seen=begun)).verdict is Verdict.OK


async def test_a_settlement_tells_the_driver_that_waits_for_it(kernel: Kernel) -> None:
    """Section 1, hints wake: the worker hears of it at once, not only at its next heartbeat."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await scene.sent("next")
    await scene.finished(ownership)
    control = kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        await scene.settled()
        assert await so_far() == [(control, f"run s {scene.token}")]


async def test_under_policy_none_the_end_settles_the_turn_and_tells_its_own_driver_nothing(kernel: Kernel) -> None:
    """Section 5.7: `turn.settled outcome=none` in the same script, the ready still published, no claim waits."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted()
    await scene.sent("next")
    control = kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        assert (await scene.finished(ownership)).verdict is Verdict.GO_ON
        assert await so_far() == []
    assert (await scene.log())[-1]["outcome"] == "none"
    assert [event.settlement for _, event in await scene.readies()] == ["none"]
    assert (await scene.claimed()).verdict is Verdict.OK
