"""One turn after another: claim, output, step, finish, settle, and what each refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.records import Ownership
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, unchanged
from tests.support.keyspace import dump

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def test_a_turn_is_logged_from_send_to_settlement_in_order(kernel: Kernel) -> None:
    """The log tells the whole turn, and a turn ends in exactly one ready."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    finish = await scene.finished(ownership, number=2, text="bye")
    await scene.settled()
    assert finish.verdict is Verdict.GONE
    assert await scene.types() == [
        "session.opened", "inbox.inserted", "running", "agent.boot_ready", "turn.started", "inbox.claimed",
        "agent.running", "output", "turn.ended", "idle", "turn.settled",
    ]  # fmt: skip
    assert len(await scene.readies()) == 1


async def test_three_prompts_in_a_row_get_generations_1_2_3(kernel: Kernel) -> None:
    """A1: every dispatch attempt has its own number, whatever the status."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted()
    await scene.sent("two")
    await scene.sent("three")
    generations = [ownership.generation]
    while (await scene.finished(ownership)).verdict is Verdict.GO_ON:
        ownership = (await scene.claimed()).ownership or ownership
        generations.append(ownership.generation)
    assert generations == [1, 2, 3]


async def test_a_burst_is_one_turn_each_in_send_order_in_one_running_interval(kernel: Kernel) -> None:
    """Wake-latch A2: n messages are n turns 1..n, one running and one idle in total."""
    scene = await Scene(kernel).opened(settlement="none")
    sent = [await scene.sent(f"m{number}") for number in range(5)]
    await scene.booted()
    seen = []
    verdict = Verdict.GO_ON
    while verdict is Verdict.GO_ON:
        claim = await scene.claimed()
        assert claim.ownership
        seen.append((claim.turn, *(message.message_id for message in claim.messages)))
        verdict = (await scene.finished(claim.ownership)).verdict
    assert seen == [(number + 1, message_id) for number, message_id in enumerate(sent)]
    types = await scene.types()
    assert (types.count("running"), types.count("idle")) == (1, 1)


async def test_next_step_comes_before_next_turn_and_only_one_next_turn_is_taken(kernel: Kernel) -> None:
    """Wake-latch 7 and the batch rule: all next-step, then at most one next-turn."""
    scene = await Scene(kernel).opened()
    await scene.sent("inject", list="next-step", wake=False)
    await scene.sent("first")
    await scene.sent("second")
    await scene.booted()
    claim = await scene.claimed()
    assert [message.body for message in claim.messages] == ["inject", "first"]
    view = await scene.view()
    assert [entry.body for entry in view.inbox.next_turn] == ["second"]
    assert [entry.body for entry in view.inbox.in_flight] == ["inject", "first"]


async def test_a_repeated_claim_gets_the_first_answer_and_an_ended_one_is_finished(kernel: Kernel) -> None:
    """F10: a late duplicate of a claim never opens a turn that nobody drives."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.sent("one")
    await scene.sent("two")
    await scene.booted()
    claim = await scene.claimed("c1")
    before = await dump(kernel.store.redis)
    assert await scene.claimed("c1") == claim
    assert await dump(kernel.store.redis) == before
    assert claim.ownership
    await scene.finished(claim.ownership)
    before = await dump(kernel.store.redis)
    assert (await scene.claimed("c1")).verdict is Verdict.FINISHED
    assert await dump(kernel.store.redis) == before


async def test_a_second_claim_while_one_is_owed_is_refused_and_changes_nothing(kernel: Kernel) -> None:
    """Invariant 1: at most one prompt of a session is owed."""
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await scene.sent("next")
    before = await dump(kernel.store.redis)
    assert (await scene.claimed()).verdict is Verdict.OWED
    assert await dump(kernel.store.redis) == before


async def test_the_next_claim_waits_for_the_settlement_of_the_turn_before(kernel: Kernel) -> None:
    """Section 5.7, policy required: phase stays running, claim answers UNSETTLED until a replica settled."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await scene.sent("next")
    assert (await scene.finished(ownership)).verdict is Verdict.GO_ON
    before = await dump(kernel.store.redis)
    assert (await scene.claimed()).verdict is Verdict.UNSETTLED
    assert await dump(kernel.store.redis) == before
    assert (await scene.view()).waiting_for == "settlement"
    await scene.settled()
    assert (await scene.claimed()).verdict is Verdict.OK


async def test_a_held_guard_holds_a_claim_up_and_says_for_how_long(kernel: Kernel) -> None:
    """Section 8: while the guard is held, a claim whose message does not carry its number waits."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    guard = await kernel.guards.acquire(scene.sid, "someone")
    before = await dump(kernel.store.redis)
    claim = await scene.claimed()
    assert claim.verdict is Verdict.GUARDED
    assert 0 < claim.retry_ms <= 10_000
    assert await dump(kernel.store.redis) == before
    await kernel.guards.release(scene.sid, "someone", guard.number)
    assert (await scene.claimed()).verdict is Verdict.OK


@pytest.mark.parametrize("other", ["token", "execution"])
async def test_a_claim_of_another_owner_is_superseded_and_changes_nothing(kernel: Kernel, other: str) -> None:
    """Every writer proves who it is: the token and the execution id are both compared."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    before = await dump(kernel.store.redis)
    token = "another" if other == "token" else scene.token
    execution = "another" if other == "execution" else scene.execution
    claim = await kernel.turns.claim(scene.sid, token, execution, "c9")
    assert claim.verdict is Verdict.SUPERSEDED
    assert await dump(kernel.store.redis) == before


@pytest.mark.parametrize("messages", [2, 4])
async def test_a_late_copy_of_an_older_claim_opens_nothing(kernel: Kernel, messages: int) -> None:
    """Invariant 3: two claims later it would open a turn that nobody drives, under a claim id that was used."""
    scene = await Scene(kernel).opened(settlement="none")
    for number in range(messages):
        await scene.sent(f"m{number}")
    await scene.booted()
    for claim_id, floor in (("c1", 0), ("c2", 1)):
        claim = await kernel.turns.claim(scene.sid, scene.token, "e1", claim_id, floor=floor)
        assert claim.ownership is not None
        assert await kernel.turns.output(scene.sid, claim.ownership, 1, "")
        await scene.finished(claim.ownership)
    async with unchanged(kernel):
        late = await kernel.turns.claim(scene.sid, scene.token, "e1", "c1", floor=0)
    assert late.verdict is Verdict.SUPERSEDED


async def test_the_floor_lifts_the_next_generation_above_what_the_worker_has_seen(kernel: Kernel) -> None:
    """Invariant 2: after a failover that lost generations, the next claim passes the highest one seen."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    claim = await kernel.turns.claim(scene.sid, scene.token, scene.execution, "c1", floor=41)
    assert claim.ownership == Ownership("e1", 42, "c1")


async def test_the_first_output_accepts_and_a_repeated_one_is_written_once(kernel: Kernel) -> None:
    """Output carries a number that rises by one; a repeat gets the first answer."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted(accept=False)
    assert not (await scene.view()).accepted
    for _ in range(2):
        assert await kernel.turns.output(scene.sid, ownership, 1, "")
    for _ in range(2):
        assert await kernel.turns.output(scene.sid, ownership, 2, "text")
    view = await scene.view()
    assert (view.accepted, view.execution_status) == (True, "running")
    await scene.finished(ownership, number=2, text="text")
    types = await scene.types()
    assert (types.count("agent.running"), types.count("output")) == (1, 1)
    assert (await scene.view()).execution_status == "ready"
    before = await dump(kernel.store.redis)
    assert await kernel.turns.output(scene.sid, ownership, 2, "text")
    assert not await kernel.turns.output(scene.sid, ownership, 3, "too late")
    assert await dump(kernel.store.redis) == before


async def test_a_step_hands_its_batch_over_once_and_again_for_its_repeat(kernel: Kernel) -> None:
    """F12: the repeat of a step's number gets the same batch, not the next one."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await scene.sent("steer 1", list="next-step")
    first = await kernel.turns.step(scene.sid, ownership, 1)
    assert first
    assert [message.body for message in first] == ["steer 1"]
    await scene.sent("steer 2", list="next-step")
    before = await dump(kernel.store.redis)
    assert await kernel.turns.step(scene.sid, ownership, 1) == first
    assert await dump(kernel.store.redis) == before
    second = await kernel.turns.step(scene.sid, ownership, 2)
    assert second
    assert [message.body for message in second] == ["steer 2"]
    assert await kernel.turns.step(scene.sid, ownership, 3) == ()
