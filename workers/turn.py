"""The open turn, as its agent sees it: `workers.agents.protocol.Turn`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from coordinator.domain.errors import StoreError, Superseded
from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict
from workers.agents.protocol import check_text
from workers.asking import ask_person
from workers.output import Output
from workers.persistence import persist

if TYPE_CHECKING:
    from coordinator.domain.records import Message, Ownership
    from coordinator.services.questions import Questions
    from coordinator.services.turns import Turns
    from coordinator.services.workflows import Workflows
    from coordinator.session import Session
    from workers.agents.protocol import TurnEnd
    from workers.asking import Inquiry


T = TypeVar("T")
OURS: Final = frozenset({Verdict.GO_ON, Verdict.GONE, Verdict.RESTARTED})
"""What `finish` answers to the prompt's owner."""


class TurnLink(Protocol):
    """What a turn needs of the driver that runs it."""

    session_id: str

    @property
    def heartbeat(self) -> float:
        """Seconds after which a lost hint has to be made up for."""

    @property
    def questions(self) -> Questions:
        """The scripts of questions."""

    @property
    def workflows(self) -> Workflows:
        """The scripts of workflow steps."""

    @property
    def turns(self) -> Turns:
        """The turn's scripts."""

    @property
    def session(self) -> Session:
        """The session's client."""

    async def escalate(self, ownership: Ownership, why: str) -> bool:
        """End the open prompt as escalated; false if no cancel is pending."""

    async def ask(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call a script until Redis has answered. Raises Superseded or StoreError once the execution was dropped."""

    def reported(self, turn: LiveTurn, end: TurnEnd) -> bool | None:
        """Take an end that did not come by the prompt's return; false if there is one, None if it is not open here."""

    def lost(self, turn: LiveTurn) -> None:
        """Hear that the turn's prompt is another's."""


class LiveTurn:
    """One turn on this worker, from its claim to its finish."""

    __slots__ = (
        "_link",
        "_session",
        "_step",
        "_steps",
        "cancel_cause",
        "cancelled",
        "inquiry",
        "news",
        "output",
        "ownership",
        "token",
    )

    def __init__(self, link: TurnLink, ownership: Ownership, token: str) -> None:
        self._link = link
        self._session: Session | None = None
        self._steps = 0
        self._step: asyncio.Task[tuple[Message, ...] | None] | None = None
        self.ownership = ownership
        self.token = token
        self.cancelled = asyncio.Event()
        self.cancel_cause = ""
        self.news = asyncio.Event()
        """Set when whoever waits for an answer has reason to look again."""
        self.output = Output(self._write, self._lost)
        self.inquiry: Inquiry | None = None
        """The turn's newest question."""

    @property
    def session(self) -> Session:
        """The turn's own session; calls that would wait for this very turn raise Reentry."""
        if self._session is None:
            self._session = self._link.session
        return self._session

    def cancel(self, cause: str) -> None:
        """Ask the agent to end the turn. The first cause is the one that it is shown."""
        self.cancel_cause = self.cancel_cause or cause
        self.cancelled.set()
        self.news.set()

    def accepted(self) -> Awaitable[None]:
        """Say that the agent has the prompt; await the answer to know that it is recorded."""
        self.output.start(acceptance=True)
        return _Later(self.output.flush)

    async def emit(self, text: str) -> None:
        """Stream text, batched and back-pressured. Raises Superseded once the prompt is another's, and AgentInvalid."""
        if check_text("What an agent emits", text):
            await self.output.emit(text)

    async def take_steering(self) -> tuple[Message, ...]:
        """Take what waits for a step boundary; output first. Raises Superseded once the prompt is another's."""
        await self.output.flush(acceptance=True)
        # A cancelled wait leaves its task: the next call gets that batch, and no message is taken and dropped.
        if self._step is None:
            self._steps += 1
            self._step = asyncio.create_task(self._take(self._steps))
        batch = await asyncio.shield(self._step)
        self._step = None
        if batch is None:
            self.output.supersede()
            raise Superseded("The prompt was superseded; there is nothing to take for it any more.")
        return batch

    async def report(self, end: TurnEnd) -> bool:
        """Report a completion that came by another way than the prompt's return; false when it came too late."""
        link = self._link
        taken = link.reported(self, end)
        if taken is not None:
            return taken
        next_token = new_id("a")
        answer = await persist(
            lambda: link.turns.finish(
                link.session_id, end.ownership, self.token, end.reason, error=end.error, next_token=next_token
            ),
            f"late completion of session {link.session_id}",
            lambda: True,
        )
        return answer.verdict in OURS

    async def cannot_cancel(self, why: str) -> None:
        """Let the pending cancel be escalated at once."""
        link, why = self._link, check_text("The reason", why)
        with suppress(Superseded):
            # Told of it before the answer was here: that was the aim.
            if await link.ask("escalate", lambda: link.escalate(self.ownership, why)):
                self.output.supersede()

    async def ask(self, question: str, timeout: float | None = None) -> str:  # noqa: ASYNC109 - the public name
        """Ask a person and wait for the answer; output first. Raises as the protocol says."""
        await self.output.flush(acceptance=True)
        return await ask_person(self._link, self, question, timeout)

    async def leave(self) -> tuple[int, str]:
        """Leave the turn's question, and give back what nobody has heard; then as `Output.rest`, before `finish`."""
        if self.inquiry is not None:
            self.inquiry.leave()
            await self.inquiry.over.wait()
        return await self.output.rest()

    async def move(self, step: str) -> None:
        """Ask for a move to a workflow step, which is made when the turn is settled. Raises as the protocol says."""
        link, operation_id = self._link, new_id("o")
        self.output.check()
        _ = await link.ask(
            "move",
            lambda: link.workflows.move(
                link.session_id, step, deferred=True, ownership=self.ownership, operation_id=operation_id
            ),
        )

    async def signal(self) -> None:
        """Let the turn's end advance its step. Raises as the protocol says."""
        link, operation_id = self._link, new_id("o")
        self.output.check()
        await link.ask(
            "signal",
            lambda: link.workflows.signal(link.session_id, ownership=self.ownership, operation_id=operation_id),
        )

    async def _write(self, number: int, text: str) -> bool:
        link = self._link
        try:
            return await link.ask("output", lambda: link.turns.output(link.session_id, self.ownership, number, text))
        except (Superseded, StoreError):
            return False

    async def _take(self, number: int) -> tuple[Message, ...] | None:
        link = self._link
        try:
            return await link.ask("step", lambda: link.turns.step(link.session_id, self.ownership, number))
        except (Superseded, StoreError):
            return None

    def _lost(self) -> None:
        self._link.lost(self)


class _Later:
    """Awaitable, but nothing is left undone if nobody awaits it."""

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self._work = work

    def __await__(self) -> Generator[Any, None, None]:
        return (yield from self._work().__await__())
