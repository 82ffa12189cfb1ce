"""Questions that nobody answers: expired, replaced by a later turn, closed; and what their turn's end leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from coordinator.domain.errors import QuestionClosed
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import begun, in_step, of_type, settled, unsettled
from tests.scripts.scene import Scene, unchanged
from tests.scripts.states import owned, record
from tests.scripts.test_questions import answered, ask, asked

if TYPE_CHECKING:
    from coordinator.services import Kernel


async def reasons(scene: Scene) -> list[str]:
    """Why questions expired."""
    return [entry["why"] for entry in await of_type(scene, "question.expired")]


async def over(scene: Scene, why: str) -> None:
    """It is no longer open, for this reason, and nothing of it is left."""
    assert await reasons(scene) == [why]
    assert not {"question_id", "question_turn", "question_waits"} & (await record(scene)).keys()
    assert "question" not in await scene.deadlines()


async def with_question(kernel: Kernel, *, settle: bool = True) -> Scene:
    """A step's turn that has completed with its question open, settled so or not yet."""
    scene = await in_step(kernel)
    await scene.prompted()
    await ask(scene)
    await scene.finished(await owned(scene))
    if settle:
        assert (await settled(scene)).detail == "question"
    return scene


@pytest.mark.parametrize("left", [True, False])
async def test_the_turn_that_is_still_open_is_stopped_silently(kernel: Kernel, left: bool) -> None:
    """Not parked, not evaluated; the agent that looks again learns that it is gone."""
    scene = await asked(kernel, left=left)
    assert await scene.expired("question") == "OK"
    await over(scene, "timeout")
    view = await scene.view()
    assert (view.cancel_kind, view.cancel_id, view.park_mark) == ("silent", "q", 0)
    assert "cancel" in await scene.deadlines()
    async with unchanged(kernel):
        assert (await ask(scene)).verdict is Verdict.GONE
        with pytest.raises(QuestionClosed):
            await answered(scene)
        assert (await kernel.deadlines.expire("question", scene.sid, "1")).verdict is Verdict.NOT_DUE
    await scene.sent("after")
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.RESTARTED


async def test_a_turn_that_is_being_stopped_already_is_not_stopped_again(kernel: Kernel) -> None:
    """The operation and its kind stay."""
    scene = await asked(kernel)
    await kernel.stops.cancel(scene.sid, operation_id="o")
    revision = (await scene.view()).cancel_revision
    assert await scene.expired("question") == "OK"
    view = await scene.view()
    assert (view.cancel_id, view.cancel_kind, view.cancel_revision) == ("o", "user", revision)
    await over(scene, "timeout")


async def test_a_turn_that_ended_with_its_question_open_is_evaluated_when_that_has_expired(kernel: Kernel) -> None:
    """The ready once more, for the same turn; evaluated once, and only then."""
    scene = await with_question(kernel)
    assert ((await scene.view()).step, (await scene.view()).unsettled_turn) == ("plan", 0)
    assert await scene.expired("question") == "OK"
    await over(scene, "timeout")
    (first, event), (second, again) = await scene.readies()
    assert (again.claim_id, again.turn, again.reason) == (event.claim_id, event.turn, event.reason)
    assert ((await scene.view()).unsettled_turn, (await record(scene))["last_entry"]) == (1, second)
    assert "settlement" in await scene.deadlines()
    async with unchanged(kernel):
        for entry in (first, second):
            assert (await kernel.settlements.settle(event, entry)).verdict is Verdict.EVALUATE
    guard, seen = await begun(scene)
    assert (seen.evaluates, seen.step) == ("evaluate", "plan")
    assert (await settled(scene, "build", seen=seen, guard=guard)).detail == "advanced"
    await scene.delivered()
    async with unchanged(kernel, {"*:log", "*:counters", "*:events"}):
        assert (await kernel.settlements.settle(event, first)).verdict is Verdict.STALE
    outcomes = [entry["outcome"] for entry in await of_type(scene, "turn.settled")]
    assert (outcomes, (await scene.view()).step) == (["question", "advanced"], "build")


async def test_a_turn_that_waits_for_its_evaluation_after_all_holds_the_next_one_up(kernel: Kernel) -> None:
    """As any unsettled turn; a ready that is lost is written again."""
    scene = await with_question(kernel)
    await scene.sent("next")
    assert await scene.expired("question") == "OK"
    assert (await scene.claimed()).verdict is Verdict.UNSETTLED
    await kernel.store.redis.xdel(scene.keys["events"], (await scene.readies())[-1][0])
    assert await scene.expired("settlement") == "OK"
    assert (await settled(scene)).detail == "stayed"
    assert (await scene.claimed()).verdict is Verdict.OK


async def test_an_unsettled_turn_is_evaluated_by_the_ready_that_it_has(kernel: Kernel) -> None:
    """Nothing is announced twice; what was seen before has changed."""
    scene = await with_question(kernel, settle=False)
    guard, seen = await begun(scene)
    assert seen.evaluates == "question"
    assert await scene.expired("question") == "OK"
    assert len(await scene.readies()) == 1
    async with unchanged(kernel):
        assert (await settled(scene, seen=seen, guard=guard)).verdict is Verdict.EVALUATE
    assert (await settled(scene, "build")).detail == "advanced"


async def test_how_an_earlier_turn_was_settled_does_not_count(kernel: Kernel) -> None:
    """Its question stopped its evaluation; the next turn's is still to be settled, by the ready that it has."""
    scene = await with_question(kernel)
    await answered(scene)
    await scene.claimed()
    await ask(scene, "q2")
    await scene.finished(await owned(scene))
    assert await scene.expired("question") == "OK"
    assert len(await scene.readies()) == 2


async def test_one_that_was_answered_before_its_turn_was_settled_stops_no_evaluation(kernel: Kernel) -> None:
    """It is no longer pending then; the answer is the next prompt."""
    scene = await with_question(kernel, settle=False)
    await answered(scene)
    assert (await settled(scene, "build")).detail == "advanced"
    assert await scene.pending() == ["so"]


async def test_after_the_answer_or_a_later_turn_nothing_is_evaluated_any_more(kernel: Kernel) -> None:
    """At most once a turn: neither by the deadline, which is gone, nor by a forgotten one."""
    scene = await with_question(kernel)
    await answered(scene)
    await scene.claimed()
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"question:s": 1})
    async with unchanged(kernel, {"*:deadlines"}):
        assert (await kernel.deadlines.expire("question", scene.sid, "1")).verdict is Verdict.GONE
    assert len(await scene.readies()) == 1
    assert "question" not in await scene.deadlines()


async def test_a_turn_that_was_settled_otherwise_is_not_evaluated_by_its_question_s_end(kernel: Kernel) -> None:
    """A move came first, and it is over."""
    scene = await with_question(kernel, settle=False)
    await kernel.workflows.move(scene.sid, "review")
    assert (await settled(scene)).detail == "moved"
    assert await scene.expired("question") == "OK"
    assert (len(await scene.readies()), (await scene.view()).unsettled_turn) == (1, 0)
    await over(scene, "timeout")


@pytest.mark.parametrize("kind", ["send", "direct"])
async def test_a_later_turn_ends_it(kernel: Kernel, kind: str) -> None:
    """Its answer would be another conversation's; an empty turn does not."""
    scene = await asked(kernel, ended="completed")
    message = await scene.sent("wake")
    await kernel.inbox.remove(scene.sid, message)
    assert (await scene.claimed()).verdict is Verdict.EMPTY
    assert (await scene.view()).question == "q"
    if kind == "send":
        await scene.sent("next")
    else:
        await kernel.stops.put_direct(scene.sid, "next", wait=30)
        scene.token = (await scene.view()).activity
    assert (await scene.claimed()).verdict is Verdict.OK
    await over(scene, "turn")
    with pytest.raises(QuestionClosed):
        await answered(scene)


@pytest.mark.parametrize("state", ["open", "ended", "retention"])
async def test_a_session_that_closes_ends_it(kernel: Kernel, state: str) -> None:
    """At once, not when it is closed."""
    scene = await asked(kernel, ended="" if state == "open" else "completed")
    if state == "retention":
        assert await scene.expired("retention") == "OK"
    else:
        await kernel.sessions.close(scene.sid)
    await over(scene, "closed")
    assert (await scene.view()).lifecycle == ("closing" if state == "open" else "closed")
    if state == "open":
        async with unchanged(kernel):
            assert (await ask(scene)).verdict is Verdict.GONE


@pytest.mark.parametrize("how", ["lease", "cancel", "interrupted"])
async def test_it_outlives_the_loss_of_its_turn(kernel: Kernel, how: str) -> None:
    """Answered, it is the next prompt; its deadline goes on."""
    scene = await asked(kernel)
    if how == "interrupted":
        await scene.finished(await owned(scene), "interrupted")
    else:
        if how == "cancel":
            await kernel.stops.cancel(scene.sid)
        await scene.expired(how)
    assert ((await scene.view()).question, "question" in await scene.deadlines()) == ("q", True)
    assert (await answered(scene)).placement == "started"


async def test_a_person_s_late_stop_does_not_evaluate_what_waits_for_its_question(kernel: Kernel) -> None:
    """Section 6: never with a pending question of that turn."""
    scene = await with_question(kernel, settle=False)
    await kernel.stops.cancel(scene.sid)
    assert (await settled(scene, "build")).detail == "question"


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("kind", ["user", "parent"])
async def test_a_turn_that_was_stopped_with_its_question_open_is_not_evaluated_when_that_expires(
    kernel: Kernel, kind: Literal["user", "parent"], late: bool
) -> None:
    """Section 6: never with a pending question of that turn. A stop must not lead on when an hour is over."""
    scene = await in_step(kernel)
    await scene.prompted()
    await ask(scene)
    owner = await owned(scene)
    if late:
        await scene.finished(owner)
    if kind == "user":
        await kernel.stops.cancel(scene.sid)
    else:
        await kernel.stops.put_first(scene.sid, "from above", kind="parent")
    if not late:
        await scene.finished(owner, "cancelled")
    assert (await settled(scene, "build")).detail == "question"
    assert await scene.expired("question") == "OK"
    await over(scene, "timeout")
    assert (len(await scene.readies()), (await scene.view()).unsettled_turn) == (1, 0)


async def test_another_turn_s_question_stops_no_evaluation(kernel: Kernel) -> None:
    """Compared by turn: the next one opened, so there is none."""
    scene, _, _ = await unsettled(kernel)
    await kernel.store.redis.hset(scene.keys["session"], mapping={"question_id": "q", "question_turn": "9"})  # type: ignore[misc]
    _, seen = await begun(scene)
    assert seen.evaluates == "evaluate"


async def test_a_removed_session_s_deadline_is_only_taken_away(kernel: Kernel) -> None:
    """Nothing is minted from nothing."""
    scene = await Scene(kernel).opened()
    await kernel.store.redis.delete(scene.keys["session"])
    for kind in ("question", "entry", "reset"):
        await kernel.store.redis.zadd(scene.keys["deadlines"], {f"{kind}:s": 1})
        assert (await kernel.deadlines.expire(kind, scene.sid, "1")).verdict is Verdict.GONE
    assert not await kernel.store.redis.exists(scene.keys["session"])
