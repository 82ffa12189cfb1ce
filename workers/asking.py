"""A turn's question to a person: asked, waited for, and left when its agent waits no longer."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from coordinator.domain.errors import CoordinatorError, QuestionClosed, SessionBusy, StoreError, Superseded
from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict
from coordinator.services.questions import STOPPING

if TYPE_CHECKING:
    from coordinator.services.questions import Asked
    from workers.turn import LiveTurn, TurnLink

logger = logging.getLogger(__name__)

_BUSY: Final = "The turn has another question open, and one is all it may have."

_inquiries: Final[set[asyncio.Task[None]]] = set()
"""Those under way, also after their agents have left them: they still have to say so."""


async def ask_person(link: TurnLink, turn: LiveTurn, text: str, seconds: float | None) -> str:
    """Ask and wait for the answer, for at most `seconds`. Raises as `Turn.ask`."""
    _check(turn)
    if turn.inquiry is not None and not turn.inquiry.over.is_set():
        raise SessionBusy(_BUSY)
    turn.inquiry = inquiry = Inquiry(link, turn, text)
    # In tasks of their own: an agent that is cancelled while it waits still leaves its question.
    task = asyncio.create_task(inquiry.run(), name=f"question {inquiry.question_id}")
    try:
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            # It looks once more after it has left: an answer that came before is the agent's.
            inquiry.leave()
            await asyncio.wait({task}, timeout=link.heartbeat)
        if not task.done():
            raise TimeoutError(_unanswered(inquiry.question_id))
        inquiry.heard = True
        return task.result()
    finally:
        inquiry.leave()
        if inquiry.heard:
            inquiry.over.set()
        else:
            ending = asyncio.create_task(inquiry.end(task), name=f"end of question {inquiry.question_id}")
            _inquiries.add(ending)
            ending.add_done_callback(_inquiries.discard)


class Inquiry:
    """One question of one turn."""

    def __init__(self, link: TurnLink, turn: LiveTurn, text: str) -> None:
        self._link = link
        self._turn = turn
        self._text = text
        self._left = False
        self.heard = False
        """Whether the agent has what came of it."""
        self.over = asyncio.Event()
        """Set when nothing is left to do for it: a turn that ended before would use up an answer that nobody heard."""
        self.question_id = new_id("q")

    def leave(self) -> None:
        """Hear that the agent waits no longer."""
        self._left = True
        self._turn.news.set()

    async def run(self) -> str:
        """The answer. A heartbeat after a lost hint it is there as well."""
        over = False
        while True:
            self._turn.news.clear()
            asked = await self._look()
            if asked.verdict is Verdict.ANSWERED:
                return asked.answer
            self._refuse(asked)
            if over:
                _check(self._turn)
                raise TimeoutError(_unanswered(self.question_id))
            over = await self._wait()
            if over:
                await self._say_so()

    async def end(self, task: asyncio.Task[str]) -> None:
        """See to an answer that came between the agent's leaving and the word of it: nobody has heard it."""
        link, question_id = self._link, self.question_id
        try:
            with suppress(CoordinatorError, TimeoutError):
                await task
                await link.ask(
                    "unheard answer",
                    lambda: link.questions.give_back(link.session_id, self._turn.ownership, question_id),
                )
        finally:
            self.over.set()

    async def _look(self) -> Asked:
        link, turn = self._link, self._turn
        try:
            return await link.ask(
                "question", lambda: link.questions.ask(link.session_id, turn.ownership, self.question_id, self._text)
            )
        except StoreError as error:
            raise Superseded("The execution was dropped; its question gets no answer any more.") from error

    async def _wait(self) -> bool:
        """Wait for a reason to look again; true when that is for the last time."""
        turn = self._turn
        if not (self._left or turn.cancelled.is_set()):
            with suppress(TimeoutError):
                async with asyncio.timeout(self._link.heartbeat):
                    await turn.news.wait()
        return self._left or turn.cancelled.is_set()

    async def _say_so(self) -> None:
        try:
            # Until Redis has it: an answer would else be given to nobody.
            await self._link.ask(
                "left question", lambda: self._link.questions.leave(self._link.session_id, self.question_id)
            )
        except CoordinatorError as error:
            logger.info("question %s was left without saying so: %s", self.question_id, error)

    def _refuse(self, asked: Asked) -> None:
        # One that is being stopped asks nothing any more; its turn is told so within a heartbeat.
        if asked.verdict is Verdict.OK or asked.why == STOPPING:
            return
        if asked.verdict is Verdict.BUSY:
            raise SessionBusy(_BUSY)
        if asked.verdict is Verdict.SUPERSEDED:
            self._turn.output.supersede()
            raise Superseded("The prompt was superseded; nothing can be asked for it any more.")
        raise QuestionClosed(
            f"Question {self.question_id} has expired, or its answer comes as the session's next prompt."
        )


def _check(turn: LiveTurn) -> None:
    """Raise if the turn is over, or is being stopped: then it waits for no answer."""
    turn.output.check()
    if turn.cancelled.is_set():
        raise QuestionClosed(f"The turn is being stopped ({turn.cancel_cause}); it gets no answer any more.")


def _unanswered(question_id: str) -> str:
    return f"Question {question_id} was not answered in time; it stays open, and the answer will be the next prompt."
