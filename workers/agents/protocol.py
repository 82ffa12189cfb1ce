"""What an agent is to a worker, and what a worker gives to an agent. The names are a contract."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, NoReturn, Protocol, runtime_checkable

import msgspec

from coordinator.domain.errors import AgentInvalid, NotAvailable
from coordinator.domain.records import Message, Ownership
from coordinator.domain.texts import sendable
from coordinator.session import Session
from coordinator.store.store import Store

AGENT_REASONS: Final = frozenset({"completed", "max_tokens", "cancelled", "error", "blocked"})
"""The reasons that a `TurnEnd` may carry; the others are not an agent's to give."""


class DispatchFailed(Exception):
    """Raised by an adapter that knows that the agent did not get the prompt.

    Before acceptance the messages go back in line for another attempt; after it this is an error like any other.
    """


class Prompt(msgspec.Struct, frozen=True):
    """One prompt: everything that a turn consumes when it opens."""

    session_id: str
    text: str
    """The bodies of `messages`, in order, a line break between two."""
    messages: tuple[Message, ...]
    ownership: Ownership
    """The triple to echo in `TurnEnd`, so that an adapter which mixes prompts up is found out."""
    turn: int
    attempt: int
    """1 the first time, one more for every time that these messages were put back in line."""


class TurnEnd(msgspec.Struct, frozen=True):
    """How a prompt ended."""

    ownership: Ownership
    """That of the prompt that ended."""
    reason: str = "completed"
    """`completed`, `max_tokens`, `cancelled`, `error` or `blocked`."""
    error: str = ""
    """For people: what went wrong."""
    resume_token: str = ""
    """What a later execution resumes from; empty leaves the stored one."""

    def __post_init__(self) -> None:
        """Raise AgentInvalid where something else than text was given."""
        check_text("TurnEnd.reason", self.reason)
        check_text("TurnEnd.error", self.error)
        _check_token("TurnEnd.resume_token", self.resume_token)


class Execution:
    """One live agent runtime that serves one session on one worker. Its id is never used again."""

    __slots__ = ("_resume_token", "execution_id", "session_id", "store", "worker_id")

    def __init__(self, session_id: str, execution_id: str, worker_id: str, resume_token: str, store: Store) -> None:
        self.session_id = session_id
        self.execution_id = execution_id
        self.worker_id = worker_id
        self._resume_token = resume_token
        self.store = store
        """The worker's own store, for agents that ship with the product; others use `turn.session`."""

    @property
    def resume_token(self) -> str:
        """What to resume from, or empty; `start` and `reset` may set it, and it is stored when they have returned.

        Setting it raises AgentInvalid for what is no text, or none that UTF-8 can carry.
        """
        return self._resume_token

    @resume_token.setter
    def resume_token(self, token: str) -> None:
        self._resume_token = _check_token("Execution.resume_token", token)

    def turn(self) -> NoReturn:
        """Begin a turn that no message asked for. Raises NotAvailable: this version has no such turns."""
        raise NotAvailable("An agent can't start a turn by itself in this version; send its session a message instead.")


def check_text(what: str, value: object) -> str:
    """Give text back. Raises AgentInvalid for anything else: it would fail where nobody knows who gave it."""
    if isinstance(value, str):
        return value
    raise AgentInvalid(f"{what} is text, empty for none, and not {type(value).__name__}.")


def _check_token(what: str, value: object) -> str:
    token = check_text(what, value)
    if sendable(token) == token:
        return token
    raise AgentInvalid(f"{what} has characters that UTF-8 can't carry, so it could not be given back as it is.")


class Turn(Protocol):
    """The open turn, as its agent sees it. Over when `prompt` returns."""

    @property
    def ownership(self) -> Ownership:
        """The prompt's triple."""

    @property
    def cancelled(self) -> asyncio.Event:
        """Set when the turn is to end; an agent that ignores it is given up, and its execution with it."""

    @property
    def cancel_cause(self) -> str:
        """Empty, or why: `user`, `parent`, `silent`, `replace`, `system` or `close` when its session is stopped.

        `draining`, `self-stop` or `superseded` when its worker has to end it.
        """

    @property
    def session(self) -> Session:
        """The turn's own session; calls that would wait for this very turn raise Reentry."""

    def accepted(self) -> Awaitable[None]:
        """Say that the agent has the prompt. Recorded soon; await the answer to know that it is.

        Awaiting raises Superseded once the prompt belongs to another.
        """

    async def emit(self, text: str) -> None:
        """Stream text; the first one is also the acceptance.

        Batched (16 KiB, or 20 ms) and back-pressured. Raises Superseded once the prompt belongs to another: stop then;
        and AgentInvalid for what is no text.
        """

    async def take_steering(self) -> tuple[Message, ...]:
        """At a step boundary: take every message that waits for one. Raises Superseded like `emit`."""

    async def report(self, end: TurnEnd) -> bool:
        """Report a completion that reached the adapter by another way than `prompt`'s return, however late.

        False: the turn has another end already, and nothing changed but, if that is recorded, a counter and a log line.
        """

    async def cannot_cancel(self, why: str) -> None:
        """Say that the agent won't acknowledge the cancel: the turn ends as escalated now, not at its deadline.

        The execution is not used again, and this task is cancelled. Nothing happens while no cancel is pending.
        """

    async def ask(self, question: str, timeout: float | None = None) -> str:  # noqa: ASYNC109 - the public name
        """Ask a person, and wait for the answer. One question a turn may be open.

        Raises TimeoutError after `timeout` seconds: the question stays open, and its answer is then the session's next
        prompt, for which this turn is stopped. Raises QuestionClosed when the question has expired
        (`question_timeout`), and when the turn is being stopped, at once, with `cancelled` set: an agent that lets that
        error through ends as cancelled. Raises Superseded once the prompt belongs to another, SessionBusy while another
        question of the turn is open, MessageInvalid and MessageTooLarge.

        A wait that is cancelled, and the end of the turn, leave the question open, too. An answer that comes in that
        moment, and is not heard here, is the next prompt.
        """

    async def move(self, step: str) -> None:
        """Ask for a move of the session to another workflow step: made when this turn is settled, the last one counts.

        Raises UnknownStep if the session is on no workflow, or that has no such step, WorkflowUnknown if its workflow
        is not published, SessionClosed, and Superseded once the prompt belongs to another.
        """

    async def signal(self) -> None:
        """Let the turn's end advance the present step, where that has `requires_signal`. Moves nothing by itself.

        The step is the one that the turn began in: once that has been left, the signal changes nothing. Raises
        UnknownStep if the session is on no workflow, SessionClosed, and Superseded like `move`.
        """


@runtime_checkable
class Agent(Protocol):
    """One agent runtime, made fresh for every execution. Calls come one at a time, but for `stop`."""

    async def start(self, execution: Execution) -> None:
        """Boot, or restore from `execution.resume_token`. An exception is a failed start: it parks the session."""

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Work on a prompt until its turn has ended.

        An exception ends the turn as an `error` and consumes its messages; `DispatchFailed` before acceptance does not.
        """

    async def reset(self) -> None:
        """Replace the provider's session by a fresh one and keep the process. Never comes while a prompt runs.

        The execution's `resume_token` is empty then: set it to the fresh session's, or leave it, and a later execution
        starts without one. An exception, and taking more than `provider_reset` seconds, is a failed reset: the
        execution is not used again, and the next one resumes the old session. Calls of the session's client that would
        wait for this reset raise Reentry. It is not told which session it is for: an agent with provider sessions is
        an object of its own for each execution.
        """

    async def stop(self) -> None:
        """End the runtime. Comes once, also after a failed start or in the middle of a prompt."""
