"""Questions of a turn to a person: asked once, answered once, and open no longer than their deadline (section 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from coordinator.domain.errors import ConflictingRepeat, InboxFull, QuestionClosed, SessionClosed, SessionUnknown
from coordinator.domain.events import QuestionAsked
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import of_type
from tests.scripts.scene import Scene, heard, unchanged
from tests.scripts.states import owned, record

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership, Receipt
    from coordinator.services import Kernel
    from coordinator.services.questions import Asked


async def ask(scene: Scene, question_id: str = "q", ownership: Ownership | None = None) -> Asked:
    """Ask, or look again."""
    ownership = ownership or await owned(scene)
    return await scene.kernel.questions.ask(scene.sid, ownership, question_id, "how?")


async def answered(scene: Scene, text: str = "so", **options: Any) -> Receipt:
    """Message a answers question q."""
    receipt = await scene.kernel.questions.answer(scene.sid, "q", text, **{"message_id": "a", **options})
    scene.token = (await scene.view()).activity or scene.token
    return receipt


async def asked(kernel: Kernel, *, left: bool = False, ended: str = "", **policy: object) -> Scene:
    """A turn that has asked q; its agent waits, or has left, or its turn has ended so and was settled."""
    scene = await Scene(kernel).opened(**policy)
    await scene.prompted("first")
    assert (await ask(scene)).verdict is Verdict.OK
    if left:
        await kernel.questions.leave(scene.sid, "q")
    if ended:
        await scene.finished(await owned(scene), ended)
        await scene.settled()
    return scene


async def test_asking_is_logged_and_announced_once_and_looked_at_again_by_its_id(kernel: Kernel) -> None:
    """With a deadline of its own; a repeat writes nothing, nor does leaving another one."""
    scene = await asked(kernel)
    async with unchanged(kernel):
        await kernel.questions.leave(scene.sid, "q9")
        assert (await ask(scene)).verdict is Verdict.OK
    view = await scene.view()
    assert (view.question, view.question_turn, view.waiting_for) == ("q", 1, "question")
    assert await of_type(scene, "question.asked") == [
        {"type": "question.asked", "question_id": "q", "turn": "1", "text": "how?"}
    ]
    events = [event for _, event in await scene.events() if isinstance(event, QuestionAsked)]
    assert [(event.key, event.turn, event.text, event.worker_id) for event in events] == [("q", 1, "how?", "w1")]
    assert 3_590_000 < (await scene.deadlines())["question"] - view.now_ms <= 3_600_000


async def test_an_agent_that_asks_before_it_says_anything_has_taken_its_prompt(kernel: Kernel) -> None:
    """Else the acceptance's deadline would end the turn while it waits for a person."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted(accept=False)
    await ask(scene)
    assert ((await scene.view()).accepted, (await scene.view()).execution_status) == (True, "running")
    assert "acceptance" not in await scene.deadlines()
    assert await kernel.turns.output(scene.sid, ownership, 1, "said")
    assert [entry["type"] for entry in await of_type(scene, "agent.running", "output")] == ["agent.running", "output"]


@pytest.mark.parametrize("change", [{"execution_id": "e9"}, {"generation": 7}, {"claim_id": "c9"}])
async def test_only_the_open_prompt_s_owner_asks(kernel: Kernel, change: dict[str, Any]) -> None:
    """And learns what differs."""
    scene = await Scene(kernel).opened()
    other = msgspec.structs.replace(await scene.prompted(), **change)
    async with unchanged(kernel):
        found = await ask(scene, ownership=other)
    assert (found.verdict, found.why) == (Verdict.SUPERSEDED, next(iter(change)).removesuffix("_id"))


async def test_a_turn_has_one_question_open_and_asks_no_more_when_it_is_stopped(kernel: Kernel) -> None:
    """BUSY; SUPERSEDED by the stop; looking for the first goes on."""
    scene = await asked(kernel)
    async with unchanged(kernel):
        assert (await ask(scene, "q2")).verdict is Verdict.BUSY
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        assert (await ask(scene)).verdict is Verdict.OK
    ownership = await owned(scene)
    await scene.finished(ownership, "cancelled")
    async with unchanged(kernel):
        assert (await ask(scene, ownership=ownership)).verdict is Verdict.SUPERSEDED
    await scene.settled()
    await scene.prompted("next")
    await kernel.stops.cancel(scene.sid)
    async with unchanged(kernel):
        found = await ask(scene, "q3")
    assert (found.verdict, found.why) == (Verdict.SUPERSEDED, "stopping")


async def test_the_agent_that_waits_gets_the_answer_as_a_message_of_its_turn(kernel: Kernel) -> None:
    """Told at once; every look finds it; nothing is stopped, and nothing is left in line."""
    scene = await asked(kernel)
    control = kernel.store.keys.control("w1")
    async with heard(kernel, control) as so_far:
        receipt = await answered(scene)
        assert await so_far() == [(control, "answer s q")]
    view = await scene.view()
    assert (receipt.placement, receipt.sequence, view.sequence) == ("delivered", 2, 2)
    assert (view.cancel_pending, view.question, await scene.pending()) == (False, "", [])
    assert [entry.body for entry in view.inbox.in_flight] == ["first", "so"]
    for _ in range(2):
        async with unchanged(kernel):
            found = await ask(scene)
            assert (found.verdict, found.answer) == (Verdict.ANSWERED, "so")
    assert "question" not in await scene.deadlines()
    (entry,) = await of_type(scene, "question.answered")
    assert (entry["question_id"], entry["message_id"], entry["text"], entry["turn"]) == ("q", "a", "so", "1")
    await scene.finished(await owned(scene))
    for name in ("messages", "message_info", "in_flight", "awake"):
        assert not await kernel.store.redis.exists(scene.keys[name])
    assert not {"open_asked", "open_answered", "open_answer"} & (await record(scene)).keys()


async def test_a_second_question_may_follow_the_answer_to_the_first(kernel: Kernel) -> None:
    """One at a time."""
    scene = await asked(kernel)
    await answered(scene)
    assert (await ask(scene, "q2")).verdict is Verdict.OK
    assert (await kernel.questions.answer(scene.sid, "q2", "and so")).placement == "delivered"
    assert (await ask(scene, "q2")).answer == "and so"


async def test_an_answer_that_was_delivered_goes_back_in_line_with_its_batch(kernel: Kernel) -> None:
    """It is the turn's message: the next attempt gets it too, behind the first; the repeat of the claim does not."""
    scene = await asked(kernel, lost_turns="retry")
    await answered(scene)
    assert [message.body for message in (await scene.claimed("c1")).messages] == ["first"]
    await scene.expired("lease")
    assert await scene.pending() == ["first", "so"]
    assert [entry.kind for entry in (await scene.view()).inbox.next_turn] == ["send", "answer"]


async def test_with_steps_taken_after_it_each_repeat_gets_its_own_batch(kernel: Kernel) -> None:
    """The answer lies between them in the flight."""
    scene = await asked(kernel)
    await scene.sent("steer 1", list="next-step")
    one = await kernel.turns.step(scene.sid, await owned(scene), 1)
    await answered(scene)
    await scene.sent("steer 2", list="next-step")
    two = await kernel.turns.step(scene.sid, await owned(scene), 2)
    assert [[message.body for message in batch or ()] for batch in (one, two)] == [["steer 1"], ["steer 2"]]
    assert await kernel.turns.step(scene.sid, await owned(scene), 2) == two


async def test_an_answer_that_nobody_waits_for_stops_the_turn_silently_and_is_next(kernel: Kernel) -> None:
    """The stop does not park; its end runs the answer before what was queued."""
    scene = await asked(kernel, left=True)
    await scene.sent("queued")
    receipt = await answered(scene)
    view = await scene.view()
    assert (receipt.placement, view.cancel_kind, view.cancel_id) == ("latched", "silent", "a")
    assert (await scene.pending(), view.park_mark, "cancel" in await scene.deadlines()) == (["so", "queued"], 0, True)
    async with unchanged(kernel):
        assert (await ask(scene)).verdict is Verdict.GONE
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.RESTARTED


@pytest.mark.parametrize("kind", ["user", "parent", "silent", "system"])
@pytest.mark.parametrize("left", [True, False])
async def test_an_answer_under_a_stop_waits_for_its_end(kernel: Kernel, left: bool, kind: Any) -> None:
    """It joins nothing; it lies above the mark, so it runs."""
    scene = await asked(kernel, left=left)
    await kernel.stops.cancel(scene.sid, kind=kind)
    revision = (await scene.view()).cancel_revision
    assert (await answered(scene)).placement == "latched"
    assert (await scene.view()).cancel_revision == revision
    async with unchanged(kernel):
        assert (await ask(scene)).verdict is Verdict.GONE
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.RESTARTED
    assert await scene.pending() == ["so"]


@pytest.mark.parametrize("reason", ["completed", "error", "cancelled"])
async def test_after_its_turn_the_answer_is_the_next_prompt(kernel: Kernel, reason: str) -> None:
    """It starts the idle session, whatever the turn's end was."""
    scene = await asked(kernel, ended=reason)
    assert ((await scene.view()).status, (await scene.view()).waiting_for) == ("idle", "question")
    assert (await answered(scene)).placement == "started"
    assert [(one.body, one.kind) for one in (await scene.claimed()).messages] == [("so", "answer")]
    assert "question" not in await scene.deadlines()


async def test_in_a_session_that_goes_on_the_answer_goes_first(kernel: Kernel) -> None:
    """Queued, where a driver is about to claim; latched behind a job."""
    scene = await asked(kernel)
    await scene.sent("queued")
    await scene.finished(await owned(scene))
    assert (await answered(scene)).placement == "queued"
    assert await scene.pending() == ["so", "queued"]
    await kernel.store.redis.flushall()
    scene = await asked(kernel, ended="completed")
    await kernel.maintenance.begin(scene.sid, "job", "compact")
    assert (await answered(scene)).placement == "latched"


@pytest.mark.parametrize("steps", [False, True])
async def test_an_answer_that_its_agent_did_not_hear_is_the_next_prompt(kernel: Kernel, steps: bool) -> None:
    """The turn is stopped silently for it, once; what its last step boundary took can still be had again."""
    scene = await asked(kernel)
    ownership = await owned(scene)
    await answered(scene)
    if steps:
        await scene.sent("steered", list="next-step")
        await kernel.turns.step(scene.sid, ownership, 1)
    await scene.sent("queued")
    await kernel.questions.give_back(scene.sid, ownership, "q")
    async with unchanged(kernel):
        await kernel.questions.give_back(scene.sid, ownership, "q")
    view = await scene.view()
    assert (view.cancel_kind, view.cancel_id, await scene.pending()) == ("silent", "a", ["so", "queued"])
    if steps:
        assert [one.body for one in await kernel.turns.step(scene.sid, ownership, 1) or ()] == ["steered"]
    assert (await scene.finished(ownership, "cancelled")).verdict is Verdict.RESTARTED
    scene.token = (await scene.view()).activity
    await scene.settled()
    assert [message.body for message in (await scene.claimed()).messages] == ["so"]


@pytest.mark.parametrize("how", ["stopped", "ended", "other", "not answered"])
async def test_else_no_answer_is_given_back(kernel: Kernel, how: str) -> None:
    """One of a turn that is being stopped is used up with it."""
    scene = await asked(kernel)
    ownership = await owned(scene)
    if how != "not answered":
        await answered(scene)
    if how == "stopped":
        await kernel.stops.cancel(scene.sid)
    if how == "ended":
        await scene.finished(ownership)
    async with unchanged(kernel):
        await kernel.questions.give_back(scene.sid, ownership, "q2" if how == "other" else "q")


async def test_why_a_question_is_closed_is_told(kernel: Kernel) -> None:
    """From the log; a question that nobody knows as well."""
    scene = await asked(kernel)
    await answered(scene)
    with pytest.raises(QuestionClosed, match="it was answered"):
        await answered(scene, "late", message_id="b")
    with pytest.raises(QuestionClosed, match="it was never asked, or ended so long ago"):
        await kernel.questions.answer(scene.sid, "other", "late")
    await ask(scene, "q2")
    await scene.expired("question")
    with pytest.raises(QuestionClosed, match="nobody answered it in time"):
        await kernel.questions.answer(scene.sid, "q2", "late")


@pytest.mark.parametrize("text", ["x" * 20_000, "é" * 10_000, "€" * 6000, "🙂" * 5000])
async def test_a_long_answer_is_logged_as_far_as_an_entry_holds_it(kernel: Kernel, text: str) -> None:
    """Whole characters; the message has all of it."""
    scene = await asked(kernel)
    await answered(scene, text)
    (entry,) = await of_type(scene, "question.answered")
    assert text.startswith(entry["text"])
    assert 16_380 <= len(entry["text"].encode()) <= 16_384
    assert (await ask(scene)).answer == text


async def test_the_first_answer_wins_and_its_repeat_is_known(kernel: Kernel) -> None:
    """Another is QuestionClosed, and nothing is written."""
    scene = await asked(kernel)
    first = await answered(scene)
    for done in (False, True):
        if done:
            await scene.finished(await owned(scene))
            await kernel.sessions.close(scene.sid)
        async with unchanged(kernel):
            again = await answered(scene)
            assert (again.duplicate, again.placement, again.sequence) == (True, "delivered", first.sequence)
            with pytest.raises(ConflictingRepeat):
                await answered(scene, "otherwise")
            with pytest.raises(SessionClosed if done else QuestionClosed):
                await answered(scene, message_id="b")


async def test_refusals_write_nothing(kernel: Kernel) -> None:
    """No session, no question, no room; an answer that is delivered needs none."""
    with pytest.raises(SessionUnknown):
        await kernel.questions.answer("nobody", "q", "so")
    scene = await asked(kernel, left=True)
    kernel.store._common["max_inbox"] = 0
    async with unchanged(kernel):
        with pytest.raises(InboxFull):
            await answered(scene)
        with pytest.raises(QuestionClosed):
            await kernel.questions.answer(scene.sid, "q9", "so")
        await kernel.questions.leave(scene.sid, "q9")
        await kernel.questions.leave(scene.sid, "q")
    await kernel.store.redis.flushall()
    kernel.store._common["max_inbox"] = 1
    scene = await asked(kernel)
    await scene.sent("queued")
    assert (await answered(scene)).placement == "delivered"
