"""Bugs of queues, steps and questions that another system had: right here, wrong in a version without the rule."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from coordinator.client import Coordinator
from coordinator.domain.errors import GuardBusy, Reentry
from coordinator.domain.verdicts import Verdict
from coordinator.services.reentry import inside
from coordinator.settings import Settings
from tests.flows import naive as rules
from tests.scripts.flow import advanced, begun, entered, in_step, settled, unsettled

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from coordinator.store.embedded import EmbeddedServer
    from tests.flows.conftest import Naive


async def test_a_ready_that_comes_late_moves_nothing(kernel: Kernel, naive: Naive) -> None:
    """Bug 8 of kandev: delayed behind the guard, it completed the turn after its own, and advanced the step."""
    is_naive = naive(rules.ANY_READY)
    scene, entry, late = await unsettled(kernel)
    guard = await kernel.guards.acquire(scene.sid, "parent")
    await kernel.stops.put_direct(scene.sid, "instead", wait=30, guard_number=guard.number)
    scene.token = (await scene.view()).activity
    assert (await scene.claimed("second")).verdict is Verdict.OK
    await kernel.guards.release(scene.sid, "parent", guard.number)
    number = (await kernel.guards.acquire(scene.sid, "replica")).number
    seen = await kernel.settlements.begin(late, entry, number)
    answer = await kernel.settlements.settle(late, entry, number, seen=seen, step_to="build")
    assert (answer.verdict, (await scene.view()).step) == (
        (Verdict.OK, "build") if is_naive else (Verdict.STALE, "plan")
    )


async def test_what_was_queued_before_a_stop_stays_parked(kernel: Kernel, naive: Naive) -> None:
    """Bug 17 of kandev: it started right after the stop; and it has a way out, the next wake."""
    is_naive = naive(rules.NO_PARKING)
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await scene.sent("queued")
    await kernel.stops.cancel(scene.sid)
    end = await scene.finished(ownership, "cancelled")
    assert end.verdict is (Verdict.RESTARTED if is_naive else Verdict.GONE)
    if not is_naive:
        await settled(scene)
        await scene.sent("wake")
        assert [message.body for message in (await scene.claimed("c9")).messages] == ["queued"]


async def test_an_agent_that_is_up_again_has_ended_no_turn(kernel: Kernel, naive: Naive) -> None:
    """Bug 18 of kandev: its boot was taken for a turn's end, and the last turn evaluated once more."""
    scene, _, _ = await unsettled(kernel)
    await advanced(scene)
    is_naive = naive(*rules.BOOT_IS_READY)
    await entered(scene)
    await kernel.executions.release(scene.sid, "e1")
    await scene.sent("resume")
    await scene.booted("e2")
    assert (len(await scene.readies()) > 1) is is_naive
    assert bool((await scene.view()).unsettled_turn) is is_naive


async def test_a_runtime_that_dies_in_a_transition_strands_nothing(kernel: Kernel, naive: Naive) -> None:
    """Bug 19 of kandev: nobody drained the queue when no ready came after it (81 minutes idle)."""
    is_naive = naive(rules.NO_DRAIN, rules.NOBODY_STARTS)
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await scene.sent("queued")
    assert (await scene.finished(ownership)).verdict is Verdict.GO_ON
    await scene.delivered()
    await advanced(scene)
    assert (await scene.claimed("c8")).verdict is Verdict.ENTERING
    await scene.expired("lease")
    await entered(scene)
    view = await scene.view()
    assert [one.awake for one in view.inbox.next_turn] == [True]
    assert (view.status == "idle") is is_naive


async def test_a_step_s_prompt_starts_the_session_that_is_idle(kernel: Kernel, naive: Naive) -> None:
    """Bug 20 of kandev: it was queued against a stale running pointer, and nobody drained it."""
    is_naive = naive(rules.NOBODY_STARTS)
    scene, _, _ = await unsettled(kernel)
    await advanced(scene)
    await entered(scene, "go")
    view = await scene.view()
    assert (view.status, [one.body for one in view.inbox.next_turn]) == ("idle" if is_naive else "running", ["go"])


async def test_a_message_runs_while_a_question_is_open(kernel: Kernel, naive: Naive) -> None:
    """Bug 25 of kandev: a peer's message waited on a session that waited for a person."""
    is_naive = naive(rules.QUESTION_BLOCKS)
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.questions.ask(scene.sid, ownership, "q", "which?")
    await kernel.questions.leave(scene.sid, "q")
    await scene.finished(ownership)
    await scene.delivered()
    assert (await settled(scene)).detail == "question"
    await scene.sent("from a peer")
    assert ((await scene.view()).status == "idle") is is_naive


async def test_a_pending_question_of_the_turn_keeps_the_step(kernel: Kernel, naive: Naive) -> None:
    """Bug 30 of kandev: the workflow advanced over it; a barrier for the current turn only."""
    is_naive = naive(rules.QUESTION_PASSES)
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.questions.ask(scene.sid, ownership, "q", "which?")
    await scene.finished(ownership)
    await scene.delivered()
    assert (await settled(scene, "build")).detail == ("advanced" if is_naive else "question")
    assert (await scene.view()).step == ("build" if is_naive else "plan")


@pytest.mark.parametrize("kind", ["silent", "parent", "system"])
async def test_only_a_person_s_stop_may_complete_a_step(kernel: Kernel, naive: Naive, kind: str) -> None:
    """Bug 31 of kandev: a naive flag fired for silent stops as well."""
    is_naive = naive(rules.ANY_STOP_COUNTS)
    scene = await in_step(kernel)
    ownership = await scene.prompted()
    await kernel.stops.cancel(scene.sid, kind=kind)  # type: ignore[arg-type]
    await scene.finished(ownership, "cancelled")
    await scene.delivered()
    _, seen = await begun(scene)
    assert (seen.evaluates == "evaluate") is is_naive


@pytest.mark.parametrize("is_naive", [False, True], ids=["product", "naive"])
async def test_a_hook_under_the_guard_is_told_at_once(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, *, is_naive: bool
) -> None:
    """Bug 41 of kandev: an action that ran under the guard waited for the guard, until its time was over."""
    if is_naive:
        monkeypatch.setattr("coordinator.guard.refuse", lambda *_: None)
    async with Coordinator.connect(Settings(redis_url=server.url)) as coord:
        session = coord.session("s")
        await session.open()
        await coord.kernel.guards.acquire("s", "replica")
        began = time.monotonic()
        with inside("handler", "s"), pytest.raises(GuardBusy if is_naive else Reentry):
            async with session.guard(timeout=0.3):
                pass
        assert (time.monotonic() - began >= 0.3) is is_naive
