"""Several clients at once on real servers: whoever comes first, one effect."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import COUNTED, Scene, unchanged
from tests.support.servers import KINDS

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from tests.support.faulty import FaultyStore

pytestmark = pytest.mark.parametrize("backend_kind", KINDS, indirect=True)
MANY = 12


async def count(scene: Scene, kind: str) -> int:
    """Entries of one type in the log."""
    return (await scene.types()).count(kind)


async def test_a_burst_of_wakes_starts_one_driver_and_keeps_one_order(kernel: Kernel) -> None:
    """Wake-latch A2, A4, A5: one activity and one offer; log, sequence numbers and inbox agree on the order."""
    scene = await Scene(kernel).opened()
    receipts = await asyncio.gather(*(kernel.inbox.send(scene.sid, f"m{number}") for number in range(MANY)))
    assert sorted(receipt.sequence for receipt in receipts) == list(range(1, MANY + 1))
    assert sorted(receipt.placement for receipt in receipts) == ["queued"] * (MANY - 1) + ["started"]
    assert await kernel.store.redis.zcard(kernel.store.keys.queue) == 1
    ordered = [receipt.message_id for receipt in sorted(receipts, key=lambda one: one.sequence)]
    assert [entry.message_id for entry in (await scene.view()).inbox.next_turn] == ordered
    assert [entry["message_id"] for entry in await scene.log() if entry["type"] == "inbox.inserted"] == ordered


async def test_the_same_message_sent_many_times_at_once_is_one(kernel: Kernel) -> None:
    """Wake-latch A13, G16: an impatient client has one message and one answer."""
    scene = await Scene(kernel).opened()
    sends = (kernel.inbox.send(scene.sid, "hello", message_id="m") for _ in range(MANY))
    receipts = await asyncio.gather(*sends)
    assert sorted(receipt.duplicate for receipt in receipts) == [False] + [True] * (MANY - 1)
    assert {(receipt.sequence, receipt.placement) for receipt in receipts} == {(1, "started")}
    assert await scene.pending() == ["hello"]


async def test_one_of_many_workers_takes_an_activity(kernel: Kernel) -> None:
    """F13, A22: whoever picks the job up, one execution."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    answers = await asyncio.gather(
        *(kernel.executions.accept(scene.sid, scene.token, f"e{number}", f"w{number}") for number in range(MANY))
    )
    verdicts = [answer.verdict for answer in answers]
    assert (verdicts.count(Verdict.OK), verdicts.count(Verdict.TAKEN)) == (1, MANY - 1)
    assert (await scene.view()).execution_id == f"e{verdicts.index(Verdict.OK)}"


async def test_one_of_many_claims_opens_the_turn(kernel: Kernel) -> None:
    """Invariant 1; and L1, the same start twice is one turn."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.sent("next")
    await scene.booted()
    claims = await asyncio.gather(*(scene.claimed(f"c{number % 3}") for number in range(MANY)))
    verdicts = [claim.verdict for claim in claims]
    assert (verdicts.count(Verdict.OK), verdicts.count(Verdict.OWED)) == (MANY // 3, MANY * 2 // 3)
    assert len({claim.ownership for claim in claims if claim.verdict is Verdict.OK}) == 1
    assert (await count(scene, "turn.started"), (await scene.view()).generation) == (1, 1)


async def test_a_ready_that_many_replicas_have_is_settled_once(kernel: Kernel) -> None:
    """Section 7: delivered to several, one effect."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    entry, event = (await scene.readies())[-1]
    await asyncio.gather(*(kernel.settlements.settle(event, entry) for _ in range(MANY)))
    assert (await count(scene, "turn.settled"), await count(scene, "ready.stale")) == (1, 0)
    counters = await kernel.store.redis.hgetall(scene.keys["counters"])  # type: ignore[misc]
    assert counters["settled"] == "1"


async def test_a_guard_goes_from_hand_to_hand_with_rising_numbers(kernel: Kernel) -> None:
    """One holder at a time, however many want it."""
    scene = await Scene(kernel).opened()
    numbers: list[int] = []

    async def holder(owner: str) -> None:
        while (guard := await kernel.guards.acquire(scene.sid, owner)).verdict is not Verdict.OK:
            assert guard.verdict is Verdict.GUARD_BUSY
        numbers.append(guard.number)
        assert await kernel.guards.release(scene.sid, owner, guard.number)

    await asyncio.gather(*(holder(f"o{number}") for number in range(5)))
    assert numbers == [1, 2, 3, 4, 5]


async def test_sweepers_and_the_driver_that_they_give_up_end_the_prompt_once(kernel: Kernel) -> None:
    """Invariant 3: whichever comes first, one end and one ready; the other changes nothing."""
    for number in range(5):
        scene = Scene(kernel, f"s{number}")
        await scene.opened()
        ownership = await scene.prompted()
        score = await scene.make_due("lease")
        sweeps = [asyncio.create_task(kernel.deadlines.expire("lease", scene.sid, score)) for _ in range(3)]
        finish = await scene.finished(ownership)
        await asyncio.gather(*sweeps)
        ends = [entry["reason"] for entry in await scene.log() if entry["type"] == "turn.ended"]
        assert ends == ["lost" if finish.verdict is Verdict.STALE else "completed"]
        readies = [event for _, event in await scene.readies() if event.session_id == scene.sid]
        assert len(readies) == 1
        assert (await scene.view()).execution_id == ""


async def held_back(faulty: FaultyStore, script: str) -> tuple[asyncio.Event, asyncio.Event]:
    """The next call of a script waits: it has come that far, and it may go on."""
    arrived, release = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        arrived.set()
        await release.wait()

    faulty.before(script, wait)
    return arrived, release


async def test_an_end_that_was_held_back_does_not_touch_the_prompt_that_began_meanwhile(
    kernel: Kernel, faulty: FaultyStore
) -> None:
    """A5: generation 1's error is half-way when 2 begins elsewhere; 2's status and output survive untouched."""
    scene = await Scene(kernel).opened(settlement="none", lost_turns="retry")
    first = await scene.prompted()
    arrived, release = await held_back(faulty, "finish")
    late = asyncio.create_task(scene.finished(first, "error", error="boom", number=2, text="partial"))
    await arrived.wait()
    await scene.expired("lease")
    await scene.booted("e2", "w2")
    second = (await scene.claimed()).ownership
    assert second
    assert await kernel.turns.output(scene.sid, second, 1, "mine")
    async with unchanged(kernel, COUNTED):
        release.set()
        assert (await late).verdict is Verdict.STALE
    assert [entry["text"] for entry in await scene.log() if entry["type"] == "output"] == ["mine"]
    assert (await scene.finished(second)).verdict is Verdict.GONE


async def test_a_ready_that_was_held_back_still_names_its_own_turn(kernel: Kernel, faulty: FaultyStore) -> None:
    """A6: its settlement is held back until a copy was settled and turn 2 has begun; it says 1, and is stale."""
    scene = await Scene(kernel).opened()
    await scene.sent("first")
    await scene.booted()
    ownership = (await scene.claimed()).ownership
    assert ownership
    await scene.sent("second")
    await scene.finished(ownership)
    entry, event = (await scene.readies())[-1]
    arrived, release = await held_back(faulty, "settle")
    late = asyncio.create_task(kernel.settlements.settle(event, entry))
    await arrived.wait()
    await kernel.store.redis.xdel(scene.keys["events"], entry)
    await scene.expired("settlement")
    await scene.settled()
    second = (await scene.claimed()).ownership
    assert second
    await scene.finished(second)
    async with unchanged(kernel, COUNTED):
        release.set()
        answer = await late
    assert (answer.verdict, answer.detail, event.generation) == (Verdict.STALE, "generation", 1)
    assert (await scene.view()).unsettled_turn == 2


async def test_a_claim_that_was_held_back_by_a_close_opens_nothing(kernel: Kernel, faulty: FaultyStore) -> None:
    """Wake-latch E71, X12: the claim was sent before the close, and arrives after it."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    arrived, release = await held_back(faulty, "claim")
    late = asyncio.create_task(scene.claimed())
    await arrived.wait()
    assert await kernel.sessions.close(scene.sid) == "closed"
    async with unchanged(kernel):
        release.set()
        assert (await late).verdict is Verdict.SUPERSEDED
