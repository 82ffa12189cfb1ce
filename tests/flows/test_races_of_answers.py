"""An answer, a parent's interrupt, a timeout and a stop at the same moment: each message runs once, or is told of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import CancelConflict, QuestionClosed, TurnChanged
from coordinator.domain.records import Receipt
from coordinator.domain.verdicts import Verdict
from tests.scripts.scene import Scene

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel

ROUNDS = 40


@pytest.fixture(params=["bundled", "debian"])
def backend_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def left(kernel: Kernel, number: int) -> tuple[Scene, Ownership]:
    """A turn whose agent asked and waits no longer."""
    scene = await Scene(kernel, f"s{number}").opened()
    ownership = await scene.prompted()
    await kernel.questions.ask(scene.sid, ownership, "q", "which?")
    await kernel.questions.leave(scene.sid, "q")
    return scene, ownership


async def ran(scene: Scene) -> list[str]:
    """Everything that is in line, run to the end, turn by turn."""
    bodies: list[str] = []
    while (view := await scene.view()).status == "running":
        scene.token = view.activity
        claim = await scene.claimed(f"c{view.turn + 1}-{len(bodies)}")
        if claim.verdict is Verdict.UNSETTLED:
            await scene.settled()
            continue
        assert claim.ownership is not None, claim
        bodies += [message.body for message in claim.messages]
        await scene.finished(claim.ownership)
    await scene.settled()
    return bodies


async def test_an_answer_meets_a_parent_s_interrupt(kernel: Kernel) -> None:
    """Section 8: the interrupt stops the turn that asked, or, having named a generation that is over, nothing."""
    for number in range(ROUNDS):
        scene, ownership = await left(kernel, number)
        answer, interrupt, _ = await asyncio.gather(
            kernel.questions.answer(scene.sid, "q", "answer"),
            kernel.stops.put_first(scene.sid, "interrupt", kind="parent", expected_generation=ownership.generation),
            scene.finished(ownership, "cancelled"),
            return_exceptions=True,
        )
        assert isinstance(answer, Receipt)
        assert isinstance(interrupt, (Receipt, TurnChanged))
        if (await scene.view()).open_turn:
            await scene.finished(ownership, "cancelled")
        assert not (await scene.view()).cancel_pending
        await scene.settled()
        expected = ["answer", "interrupt"] if isinstance(interrupt, Receipt) else ["answer"]
        assert sorted(await ran(scene)) == expected


async def test_an_answer_meets_its_question_s_timeout_and_another_answer(kernel: Kernel) -> None:
    """The first wins: one of three ends the question, and the others are told."""
    for number in range(ROUNDS):
        scene, ownership = await left(kernel, number)
        score = await scene.make_due("question")
        first, second, timeout = await asyncio.gather(
            kernel.questions.answer(scene.sid, "q", "one"),
            kernel.questions.answer(scene.sid, "q", "two"),
            kernel.deadlines.expire("question", scene.sid, score),
            return_exceptions=True,
        )
        answers = [found for found in (first, second) if isinstance(found, Receipt)]
        assert all(isinstance(found, (Receipt, QuestionClosed)) for found in (first, second))
        assert not isinstance(timeout, BaseException)
        assert len(answers) + (timeout.verdict is Verdict.OK) == 1
        await scene.finished(ownership, "cancelled")
        await scene.settled()
        assert len(await ran(scene)) == len(answers)


async def test_an_answer_meets_a_replacement(kernel: Kernel) -> None:
    """The replacement comes first of the two in any case, or is refused while the answer's silent stop is recorded."""
    for number in range(ROUNDS):
        scene, ownership = await left(kernel, number)
        answer, replacement = await asyncio.gather(
            kernel.questions.answer(scene.sid, "q", "answer"),
            kernel.stops.put_first(scene.sid, "instead", kind="replace"),
            return_exceptions=True,
        )
        assert isinstance(answer, Receipt)
        assert isinstance(replacement, (Receipt, CancelConflict))
        await scene.finished(ownership, "cancelled")
        await scene.settled()
        expected = ["answer", "instead"] if isinstance(replacement, Receipt) else ["answer"]
        assert sorted(await ran(scene)) == expected
