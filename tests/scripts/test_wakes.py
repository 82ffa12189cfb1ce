"""Which messages run, in which turn, and which wait: whole runs of one driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene, bodies

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel


async def opened_turn(scene: Scene) -> Ownership:
    """The next turn, claimed and accepted."""
    claim = await scene.claimed()
    assert claim.ownership, claim
    assert await scene.kernel.turns.output(scene.sid, claim.ownership, 1, "")
    return claim.ownership


async def test_one_message_is_one_turn_between_one_running_and_one_idle(kernel: Kernel) -> None:
    """Wake-latch A1, A3: turn numbers keep rising over separate runs, and the order is kept."""
    scene = await Scene(kernel).opened(settlement="none")
    for number in (1, 2, 3):
        ownership = await scene.prompted(f"m{number}")
        assert (await scene.view()).open_turn == number
        assert (await scene.finished(ownership)).verdict is Verdict.GONE
    types = await scene.types()
    assert (types.count("running"), types.count("idle"), types.count("turn.started")) == (3, 3, 3)


async def test_a_message_sent_by_the_running_agent_is_the_next_turn_after_this_one_closed(kernel: Kernel) -> None:
    """Wake-latch A6, section 5.5: `turn.ended` of one stands before `turn.started` of the next."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted()
    await scene.sent("follow-up")
    assert (await scene.finished(ownership)).verdict is Verdict.GO_ON
    await scene.finished(await opened_turn(scene))
    turns = [
        (entry["type"], entry["turn"]) for entry in await scene.log() if entry["type"] in {"turn.started", "turn.ended"}
    ]
    assert turns == [("turn.started", "1"), ("turn.ended", "1"), ("turn.started", "2"), ("turn.ended", "2")]


async def test_what_arrives_during_a_step_waits_for_its_boundary_in_order(kernel: Kernel) -> None:
    """Wake-latch A8, A10, B22: the first request has the prompt only, the second all that came meanwhile."""
    scene = await Scene(kernel).opened()
    await scene.sent("prompt")
    await scene.booted()
    claim = await scene.claimed()
    assert claim.ownership
    await scene.sent("inject 1", list="next-step", wake=False)
    await scene.sent("steer", list="next-step")
    await scene.sent("inject 2", list="next-step", wake=False)
    assert [message.body for message in claim.messages] == ["prompt"]
    step = await kernel.turns.step(scene.sid, claim.ownership, 1)
    assert step is not None
    assert [message.body for message in step] == ["inject 1", "steer", "inject 2"]
    assert bodies((await scene.view()).inbox.in_flight) == ["prompt", "inject 1", "steer", "inject 2"]


@pytest.mark.parametrize("reason", ["blocked", "error"])
async def test_a_turn_that_was_stopped_consumes_its_message_and_parks_the_rest(kernel: Kernel, reason: str) -> None:
    """Wake-latch B16, B17, B19: the rejected prompt is gone, what was queued runs at the next wake."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted("rejected")
    await scene.sent("queued")
    assert (await scene.finished(ownership, reason)).verdict is Verdict.GONE
    assert [entry.awake for entry in (await scene.view()).inbox.next_turn] == [False]
    await scene.sent("wake")
    seen = []
    verdict = Verdict.GO_ON
    while verdict is Verdict.GO_ON:
        claim = await scene.claimed()
        assert claim.ownership
        seen += [message.body for message in claim.messages]
        verdict = (await scene.finished(claim.ownership)).verdict
    assert seen == ["queued", "wake"]


async def test_what_was_steered_into_a_turn_that_was_stopped_waits_for_the_next_wake(kernel: Kernel) -> None:
    """Wake-latch B18, B20: inject and steer stay in next-step, in order; the next wake's first request has both."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted("rejected")
    await scene.sent("inject", list="next-step", wake=False)
    await scene.sent("steer", list="next-step")
    await scene.finished(ownership, "blocked")
    assert (await scene.view()).status == "idle"
    await scene.sent("wake")
    assert [message.body for message in (await scene.claimed()).messages] == ["inject", "steer", "wake"]


async def test_under_continue_an_error_does_not_hold_the_queue_up(kernel: Kernel) -> None:
    """Policy after_error continue: idle and running, a new activity on the same execution, no placement."""
    scene = await Scene(kernel).opened(settlement="none", after_error="continue")
    ownership = await scene.prompted("bad")
    await scene.sent("good")
    offers = await kernel.store.redis.zcard(kernel.store.keys.queue)
    end = await scene.finished(ownership, "error", error="boom")
    assert end.verdict is Verdict.RESTARTED
    assert await kernel.store.redis.zcard(kernel.store.keys.queue) == offers
    assert (await scene.types())[-2:] == ["idle", "running"]
    scene.token = end.token
    assert [message.body for message in (await scene.claimed()).messages] == ["good"]


async def test_a_quiet_message_alone_does_not_restart_what_did_not_complete(kernel: Kernel) -> None:
    """Section 5.4: after a completed turn anything pending is next; after any other end only what is awake."""
    for reason, verdict in (("completed", Verdict.GO_ON), ("cancelled", Verdict.GONE)):
        scene = Scene(kernel, reason)
        await scene.opened(settlement="none")
        ownership = await scene.prompted()
        await scene.sent("quiet", wake=False)
        assert (await scene.finished(ownership, reason)).verdict is verdict


async def test_how_one_turn_ended_says_nothing_of_the_next(kernel: Kernel) -> None:
    """Wake-latch B27, section 5.5: a token limit goes on with what is pending, and is not inherited."""
    scene = await Scene(kernel).opened(settlement="none")
    ownership = await scene.prompted()
    await scene.sent("next")
    assert (await scene.finished(ownership, "max_tokens")).verdict is Verdict.GO_ON
    await scene.finished(await opened_turn(scene))
    assert [event.reason for _, event in await scene.readies()] == ["max_tokens", "completed"]
    assert (await scene.view()).last_reason == "completed"


async def test_numbers_go_on_where_they_were_on_another_execution(kernel: Kernel) -> None:
    """Wake-latch F82, F83: what was pending is still there, and the first new turn is the last one's plus one."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.finished(await scene.prompted())
    await scene.sent("inject", list="next-step", wake=False)
    await scene.expired("lease")
    assert (await scene.view()).status == "idle"
    await scene.sent("again")
    await scene.booted("e2", "w2")
    claim = await scene.claimed()
    assert claim.ownership
    assert (claim.turn, claim.ownership.generation) == (2, 2)
    assert [message.body for message in claim.messages] == ["inject", "again"]


async def test_parked_messages_wait_through_everything_but_a_wake(kernel: Kernel) -> None:
    """F3, wake-latch 68: idle leases, settlements and quiet messages do not touch the mark; a claim clears it."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted("bad")
    await scene.sent("parked")
    await scene.finished(ownership, "error")
    await scene.settled()
    await scene.expired("lease")
    await scene.sent("quiet", wake=False)
    view = await scene.view()
    assert (view.status, view.park_mark) == ("idle", 2)
    await scene.sent("wake")
    await scene.booted("e2")
    assert (await scene.view()).park_mark == 2
    await scene.claimed()
    assert (await scene.view()).park_mark == 0
