"""Questions of agents to people: asked, answered, left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from coordinator.domain.errors import QuestionClosed
from coordinator.domain.ids import check_id, chosen_id, new_id
from coordinator.domain.records import NOBODY
from coordinator.domain.verdicts import Verdict
from coordinator.services.bodies import check_body
from coordinator.services.receipts import digest, receipt_of
from coordinator.services.turns import MAX_OUTPUT

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership, Receipt
    from coordinator.store.queue import Placements
    from coordinator.store.store import Store


STOPPING: Final = "stopping"
"""Why a prompt that is still its owner's asks nothing any more: its turn is being stopped."""


_ENDED: Final = {
    "timeout": "nobody answered it in time",
    "turn": "a later turn has begun",
    "closed": "its session was closed",
}
"""What a question has expired of."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What asking, or looking again, answered."""

    verdict: Verdict
    """OK: nobody has answered yet. ANSWERED. GONE: it has expired, or its answer went another way. BUSY: the turn has
    another question open. SUPERSEDED: the prompt is another's, or is being stopped."""
    answer: str = ""
    why: str = ""
    """With SUPERSEDED: what differs, or STOPPING."""


class Questions:
    """One question a session at most; it belongs to a turn, and outlives its end."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def ask(self, session_id: str, ownership: Ownership, question_id: str, text: str) -> Asked:
        """Ask, or, with the same id, look for the answer. Raises MessageTooLarge for more than one log entry holds."""
        check_body(text, MAX_OUTPUT, "what the log keeps of a question")
        reply = await self._store.call(
            "ask",
            session_id,
            question_id=question_id,
            operation_id=question_id,
            digest=digest("question", text),
            body=text,
            **ownership.proof(),
        )
        return Asked(
            verdict=reply.word,
            answer=reply.details[0] if reply.word is Verdict.ANSWERED else "",
            why=reply.details[0] if reply.word is Verdict.SUPERSEDED else "",
        )

    async def leave(self, session_id: str, question_id: str) -> None:
        """Say that the agent waits no longer; its question stays open."""
        await self._store.call("ask_over", session_id, question_id=question_id, unheard=0, **NOBODY.proof())

    async def give_back(self, session_id: str, ownership: Ownership, question_id: str) -> None:
        """Say that the answer came after the agent had left: it is the next prompt, and the turn is stopped for it."""
        await self._store.call("ask_over", session_id, question_id=question_id, unheard=1, **ownership.proof())

    async def answer(
        self, session_id: str, question_id: str, text: str, *, message_id: str | None = None, sender: str = "-"
    ) -> Receipt:
        """Answer: `delivered` to the agent that waits, else the text is the next prompt.

        A turn that is open and does not wait any more is stopped silently for it. Raises QuestionClosed, and what
        `Inbox.send` raises.
        """
        message_id = chosen_id("message", message_id, "m")
        check_body(text, self._store.settings.max_body)
        reply = await self._store.call(
            "answer",
            session_id,
            message_id=message_id,
            question_id=check_id("question", question_id),
            body=text,
            digest=digest(question_id, text),
            sender=check_id("sender", sender),
            token=new_id("a"),
        )
        if reply.word is Verdict.STALE:
            raise QuestionClosed(
                f"Question {question_id!r} of session {session_id!r} is not open: "
                f"{await self._ended(session_id, question_id)}. What answers no question can be sent as a message."
            )
        return await receipt_of(reply, session_id, message_id, self._placements)

    async def _ended(self, session_id: str, question_id: str) -> str:
        log = self._store.keys.session(session_id)["log"]
        if await self._store.newest(log, "question.answered", question_id=question_id):
            return "it was answered"
        if expired := await self._store.newest(log, "question.expired", question_id=question_id):
            return _ENDED[expired["why"]]
        (other,) = await self._store.fields(self._store.keys.session(session_id)["session"], "question_id")
        found = f"the open one is {other!r}" if other else "no question is open"
        return f"it was never asked, or ended so long ago that the log has lost it ({found})"
