"""The events on a partition's stream. Each entry is flat text, one field a stream field, `type` first."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from coordinator.domain.ids import PATTERN

_Id = Annotated[str, msgspec.Meta(pattern=PATTERN)]
"""An empty one would name whatever a session has none of; any other text is no session's key."""


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    session_id: _Id
    execution_id: str
    worker_id: str
    reason: str
    at_ms: int

    @property
    def key(self) -> str:
        """The idempotency key of its handlers, the same at every delivery."""
        return self.execution_id


class AgentReady(_Event, frozen=True, kw_only=True, tag="agent.ready"):
    """A numbered turn has ended. Written once by the script that ended it; it names that turn for ever."""

    generation: int
    claim_id: str
    turn: int
    attempt: int
    cancel_kind: str = ""
    settlement: str = "required"
    """`none`: the turn was settled by its own end; handlers hear of it, and nothing waits for them."""

    @property
    def key(self) -> str:
        """The claim id."""
        return self.claim_id


class AgentBootReady(_Event, frozen=True, kw_only=True, tag="agent.boot_ready"):
    """An execution is up, started or restored. It ends no turn and settles nothing."""


class AgentFailed(_Event, frozen=True, kw_only=True, tag="agent.failed"):
    """An execution could not be started."""


class AgentLost(_Event, frozen=True, kw_only=True, tag="agent.lost"):
    """An execution's lease ran out, or its agent never took the prompt; it is never used again."""


class AgentStopped(_Event, frozen=True, kw_only=True, tag="agent.stopped"):
    """An execution was given up by its worker."""


class StepEntering(_Event, frozen=True, kw_only=True, tag="step.entering"):
    """A workflow step is to be entered, by whichever replica comes first; it may be announced again."""

    workflow: str
    step: str
    entry_id: _Id

    @property
    def key(self) -> str:
        """The entry's id."""
        return self.entry_id


class StepEntered(_Event, frozen=True, kw_only=True, tag="step.entered"):
    """A workflow step was entered, once; its prompt, if it has one, is first in line."""

    workflow: str
    step: str
    entry_id: _Id

    @property
    def key(self) -> str:
        """The entry's id."""
        return self.entry_id


class QuestionAsked(_Event, frozen=True, kw_only=True, tag="question.asked"):
    """The agent of an open turn has asked a person something."""

    question_id: _Id
    turn: int
    text: str

    @property
    def key(self) -> str:
        """The question's id."""
        return self.question_id


Event: TypeAlias = (
    AgentReady | AgentBootReady | AgentFailed | AgentLost | AgentStopped | StepEntering | StepEntered | QuestionAsked
)


def decode(fields: dict[str, str]) -> Event:
    """One stream entry as an event.

    Raises `msgspec.ValidationError` for an unknown type, a missing field or a number that is none; unknown
    further fields are ignored, so that older replicas can read what newer scripts write.
    """
    event: Event = msgspec.convert(fields, type=Event, strict=False)
    return event
