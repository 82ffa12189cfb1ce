"""Bugs of resets and of the gate that another system had: right here, and wrong in a version without the rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.verdicts import Verdict
from tests.flows import naive as rules
from tests.scripts.resetting import begun, ended, outcome
from tests.scripts.scene import Scene

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from tests.flows.conftest import Naive


async def test_a_reset_waits_for_the_turn_that_runs(kernel: Kernel, naive: Naive) -> None:
    """Bug 1 of kandev: the provider's session was replaced under a running turn."""
    is_naive = naive(rules.RUNS_ON)
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await begun(scene)
    view = await scene.view()
    assert (view.phase == "maintenance" and view.open_turn == 1) is is_naive
    if not is_naive:
        assert (view.cancel_pending, view.reset_pending) == (True, True)
        await scene.finished(ownership, "cancelled")
        assert (await scene.view()).phase == "maintenance"


async def test_a_reset_of_an_idle_session_leaves_no_gate(kernel: Kernel, naive: Naive) -> None:
    """Bug 2 of kandev: after it every prompt waited for a completion that had come."""
    is_naive = naive(rules.GATE_STAYS)
    scene = await Scene(kernel).opened()
    await scene.finished(await scene.prompted())
    await scene.settled()
    await begun(scene)
    await ended(scene)
    await scene.sent("next")
    assert ((await scene.claimed("next")).verdict is not Verdict.OK) is is_naive


async def test_an_escalated_stop_fails_the_reset(kernel: Kernel, naive: Naive) -> None:
    """Bug 3 of kandev: it ran against a live turn, since the stop's return was taken for quiet."""
    is_naive = naive(*rules.ESCALATED_IS_QUIET)
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await begun(scene)
    assert await scene.expired("cancel") == "OK"
    assert (await scene.view()).suspects == ("e1",)
    assert (await outcome(scene))[0] == ("committed" if is_naive else "failed")


async def test_no_prompt_that_passed_the_marker_reaches_the_agent(kernel: Kernel, naive: Naive) -> None:
    """Bug 4 of kandev: a claim is parked between its test and its write, and a reset starts there."""
    is_naive = naive(rules.TESTED_BEFORE)
    scene = await Scene(kernel).opened()
    await scene.sent("hello")
    await scene.booted()
    await begun(scene)
    claim = await scene.claimed("parked")
    assert (claim.verdict is Verdict.OK) is is_naive
    if not is_naive:
        assert claim.verdict is Verdict.SUPERSEDED
        await ended(scene)
        again = await scene.claimed("again")
        # Once, and by itself: the message was never taken out of line.
        assert [message.body for message in again.messages] == ["hello"]


async def test_a_stop_waits_for_the_completion_that_is_owed(kernel: Kernel, naive: Naive) -> None:
    """Bug 6 of kandev: it was escalated at once, and the completion came a moment later."""
    is_naive = naive(rules.IMPATIENT)
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    stop = await kernel.stops.cancel(scene.sid)
    end = await scene.finished(ownership, "cancelled")
    assert (end.verdict is Verdict.STALE) is is_naive
    assert await kernel.stops.outcome(scene.sid, stop.ticket) == ("escalated" if is_naive else "cancelled")


async def test_an_escalation_opens_the_gate(kernel: Kernel, naive: Naive) -> None:
    """Bug 7 of kandev: a lost completion, a stop, an escalation, and still no prompt could run."""
    is_naive = naive(rules.ESCALATION_KEEPS_GATE)
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await kernel.stops.cancel(scene.sid)
    await scene.expired("cancel")
    if not is_naive:
        await scene.settled()
    await scene.sent("next")
    await scene.booted("e2")
    assert ((await scene.claimed("next")).verdict is Verdict.OWED) is is_naive


async def test_a_session_that_never_ran_is_reset_by_nothing(kernel: Kernel, naive: Naive) -> None:
    """Bug 21 of kandev: its runtime was started for the reset, and again for the prompt."""
    is_naive = naive(rules.ALWAYS_CALLS)
    scene = await Scene(kernel).opened()
    assert await begun(scene) == ("running" if is_naive else "committed")
    await scene.sent("hello")
    if not is_naive:
        await scene.booted()
        assert (await scene.claimed()).verdict is Verdict.OK
        assert (await scene.types()).count("agent.boot_ready") == 1


async def test_what_ends_a_turn_never_waits_for_the_guard(kernel: Kernel, naive: Naive) -> None:
    """Bug 10 of kandev: the guard's holder waited for the end of a stop, and that for the guard."""
    is_naive = naive(*rules.FINISH_TAKES_GUARD)
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    guard = await kernel.guards.acquire(scene.sid, "holder")
    stop = await kernel.stops.cancel(scene.sid, guard_number=guard.number)
    await scene.finished(ownership, "cancelled")
    assert await kernel.stops.outcome(scene.sid, stop.ticket) == (None if is_naive else "cancelled")


async def test_a_stop_s_deadline_ends_the_turn_too(kernel: Kernel, naive: Naive) -> None:
    """Bug 12 of kandev: an agent that ignored the stop left its session running for ever."""
    is_naive = naive(rules.NO_RECONCILE)
    scene = await Scene(kernel).opened()
    await scene.prompted()
    await kernel.stops.cancel(scene.sid)
    await scene.expired("cancel")
    view = await scene.view()
    assert (view.status, view.open_turn) == (("running", 1) if is_naive else ("idle", 0))
