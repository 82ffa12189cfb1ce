"""How a prompt ends: late, repeated and failed completions, and the empty turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.events import AgentBootReady
from coordinator.domain.records import Ownership
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import COUNTED, Scene, ownership_of, unchanged
from tests.support.keyspace import dump

if TYPE_CHECKING:
    from coordinator.services import Kernel


@pytest.mark.parametrize(
    ("stranger", "why"),
    [
        (Ownership("e0", 2, "c2"), "execution"),
        (Ownership("e1", 1, "c1"), "generation"),
        (Ownership("e1", 2, "other"), "claim"),
    ],
)
async def test_a_completion_of_another_prompt_changes_only_a_counter_and_the_log(
    kernel: Kernel, stranger: Ownership, why: str
) -> None:
    """A3, A16, A23, invariant 4: generation 1 while 2 runs, a replaced execution, the right number, another claim."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.settled()
    await scene.prompted("second")
    before = await dump(kernel.store.redis, ignoring={"*:counters", "*:log"})
    for times in (1, 2):
        assert (await scene.finished(stranger, number=9, text="late")).verdict is Verdict.STALE
        assert not await kernel.turns.output(scene.sid, stranger, 9, "late")
        assert await kernel.turns.step(scene.sid, stranger, 9) is None
        assert await dump(kernel.store.redis, ignoring={"*:counters", "*:log"}) == before
        counters = await kernel.store.redis.hgetall(scene.keys["counters"])  # type: ignore[misc]
        assert (counters["stale"], counters[f"stale.{why}"]) == (str(times), str(times))
    assert (await scene.log())[-1] == {
        "type": "ready.stale", "why": why,
        "generation": str(stranger.generation), "execution_id": stranger.execution_id,
    }  # fmt: skip


async def test_a_finish_repeated_after_a_lost_reply_gets_the_first_answer(kernel: Kernel) -> None:
    """A4: the same completion twice publishes one ready, and the driver is told the same thing."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await scene.sent("more")
    first = await scene.finished(ownership, number=2, text="bye")
    before = await dump(kernel.store.redis)
    assert await scene.finished(ownership, number=2, text="bye") == first
    assert await dump(kernel.store.redis) == before
    assert first.verdict is Verdict.GO_ON
    assert len(await scene.readies()) == 1


async def test_a_restart_repeated_after_a_lost_reply_names_the_same_new_activity(kernel: Kernel) -> None:
    """A finish that restarts the session answers its repeat with the same token."""
    scene = await Scene(kernel).opened(after_error="continue")
    ownership = await scene.prompted()
    await scene.sent("more")
    first = await scene.finished(ownership, "error", error="boom")
    assert (first.verdict, first.token) == (Verdict.RESTARTED, f"{scene.token}+")
    before = await dump(kernel.store.redis)
    assert await scene.finished(ownership, "error", error="boom") == first
    assert await dump(kernel.store.redis) == before


async def test_an_error_parks_the_queue_and_the_next_wake_runs_it_in_order(kernel: Kernel) -> None:
    """Wake-latch B17, B19: after an error the rest stays pending; the next wake runs everything, first in first out."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted("bad")
    await scene.sent("parked")
    finish = await scene.finished(ownership, "error", error="boom")
    assert finish.verdict is Verdict.GONE
    view = await scene.view()
    assert (view.status, view.park_mark, view.inbox.next_turn[0].awake) == ("idle", 2, False)
    await scene.sent("wake")
    claim = await scene.claimed()
    assert [message.body for message in claim.messages] == ["parked"]
    assert (await scene.view()).park_mark == 0


async def test_an_empty_turn_is_written_by_its_claim_alone(kernel: Kernel) -> None:
    """Section 5.1: the messages are gone before the claim: a turn opens and ends, no generation, no ready."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    redis = kernel.store.redis
    await redis.delete(scene.keys["next_turn"], scene.keys["awake"], scene.keys["messages"], scene.keys["message_info"])
    assert (await scene.claimed("c1")).verdict is Verdict.EMPTY
    assert (await scene.claimed("c1")).verdict is Verdict.FINISHED
    view = await scene.view()
    assert (view.status, view.turn, view.generation, view.unsettled_turn) == ("idle", 1, 0, 0)
    assert (await scene.types())[-3:] == ["turn.started", "turn.ended", "idle"]
    assert await scene.readies() == []


async def test_boot_ready_is_written_once_and_settles_nothing(kernel: Kernel) -> None:
    """A13, A24: a repeated boot publishes nothing, and boot ready never ends a turn."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    before = await dump(kernel.store.redis)
    assert await kernel.executions.boot(scene.sid, "e1", "resume-2")
    assert not await kernel.executions.boot(scene.sid, "e2")
    assert await dump(kernel.store.redis) == before
    boots = [event for _, event in await scene.events() if isinstance(event, AgentBootReady)]
    assert len(boots) == 1
    assert (await scene.view()).turn == 0


async def test_a_ready_settles_its_turn_once_and_another_copy_of_it_is_stale(kernel: Kernel) -> None:
    """Invariants 3 and 13: written twice, delivered twice, one effect."""
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    entry, event = (await scene.readies())[0]
    assert ownership_of(event) == Ownership("e1", 1, "c1")
    assert (await kernel.settlements.settle(event, entry)).verdict is Verdict.OK
    async with unchanged(kernel, COUNTED):
        again = await kernel.settlements.settle(event, "9-9")
    assert (again.verdict, again.detail) == (Verdict.STALE, "settled")


async def test_a_dispatch_that_failed_uses_up_its_generation_and_goes_back_first_in_line(kernel: Kernel) -> None:
    """A2 and section 8, a failed dispatch: attempt + 1, no mark until the third failure, which parks."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted("first", accept=False)
    await scene.sent("second")
    generations = []
    view = await scene.view()
    for attempt in (1, 2, 3):
        generations.append(ownership.generation)
        finish = await scene.finished(ownership, "error", error="no route", undelivered=True)
        view = await scene.view()
        assert [(entry.body, entry.attempt) for entry in view.inbox.next_turn] == [("first", attempt), ("second", 0)]
        if finish.verdict is Verdict.RESTARTED:
            scene.token = finish.token
            claim = await scene.claimed()
            assert claim.ownership
            assert claim.attempt == attempt + 1
            ownership = claim.ownership
    assert generations == [1, 2, 3]
    assert (view.status, view.park_mark) == ("idle", 2)
