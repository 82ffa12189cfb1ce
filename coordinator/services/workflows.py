"""Workflows: their definitions, which any replica publishes and all go by, and the steps of one session."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from coordinator.domain.errors import CoordinatorError, UnknownStep, WorkflowInvalid, WorkflowUnknown
from coordinator.domain.ids import check_id, chosen_id, new_id
from coordinator.domain.records import NOBODY, Ownership
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step, Workflow
from coordinator.services.answers import refusal
from coordinator.services.receipts import digest, offered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.domain.records import MoveAnswer
    from coordinator.store.queue import Placements
    from coordinator.store.store import Reply, Store


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What is published of one step."""

    workflow: Workflow | None = None
    step: Step | None = None
    missing: str = ""
    """Why there is no step: the beginning of a sentence."""


class Workflows:
    """Definitions are plain data beside the sessions; steps are fields of a session, changed by its scripts only."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def publish(self, workflows: Iterable[Workflow]) -> None:
        """Make these the definitions that every replica goes by from now on. Raises StoreUnavailable.

        What is published already is not written, so that a replica can start again on a full server.
        """
        key = self._store.keys.workflows
        for workflow in workflows:
            (found,) = await self._store.fields(key, workflow.name)
            definition = workflow.to_json()
            if found != definition:
                await self._store.put(key, workflow.name, definition)

    async def names(self) -> list[str]:
        """The published workflows, sorted."""
        return await self._store.field_names(self._store.keys.workflows)

    async def definition(self, name: str) -> Workflow | None:
        """The published definition, or None. Raises WorkflowInvalid when it can't be read, and StoreUnavailable."""
        (found,) = await self._store.fields(self._store.keys.workflows, name)
        return Workflow.from_json(found) if found is not None else None

    async def published(self, name: str, step: str) -> Published:
        """Look a step up in the published definition; one that is missing is no error here. Raises StoreUnavailable."""
        try:
            workflow = await self.definition(name)
        except WorkflowInvalid:
            return Published(missing=f"workflow {name}, as it is published now, can't be read")
        if workflow is None:
            return Published(missing=f"workflow {name} is not published")
        found = workflow.step(step)
        if found is None:
            return Published(missing=f"workflow {name}, as it is published now, has no step {step}")
        return Published(workflow=workflow, step=found)

    async def resetting_step(self, session_id: str) -> str:
        """The step that is being entered and resets the agent for it, or "". Raises StoreUnavailable."""
        record = self._store.keys.session(session_id)["session"]
        entering, workflow, step = await self._store.fields(record, "entering", "workflow", "step")
        if not (entering and workflow and step):
            return ""
        known = (await self.published(workflow, step)).step
        return step if known is not None and known.reset_agent_context else ""

    async def move(
        self,
        session_id: str,
        step: str,
        *,
        deferred: bool = False,
        guard_number: int = 0,
        ownership: Ownership = NOBODY,
        operation_id: str | None = None,
    ) -> MoveAnswer:
        """Move a session to another step: at once, or, `pending`, when its turn is settled or its entry over.

        `deferred` waits for the turn that runs. A session has one pending move; a later one replaces it.
        Raises UnknownStep when its workflow has no such step, or it is on none, WorkflowUnknown when the definition is
        not published, GuardLost, ConflictingRepeat, SessionClosed, SessionUnknown, and Superseded when a turn asks,
        which its `ownership` says, that is over.
        """
        operation_id = chosen_id("operation", operation_id, "o")
        missing = await self._missing(session_id, check_id("step", step))
        reply = await self._store.call(
            "move",
            session_id,
            operation_id=operation_id,
            digest=digest(step, deferred),
            step=step,
            deferred=int(deferred),
            guard_number=guard_number,
            exists=int(missing is None),
            next_entry=new_id("n"),
            **ownership.proof(),
        )
        if reply.word is Verdict.NO_STEP and missing is not None:
            raise missing
        if reply.word not in {Verdict.OK, Verdict.DUPLICATE}:
            raise _refusal(reply, session_id, operation_id)
        return cast("MoveAnswer", reply.details[0])

    async def signal(self, session_id: str, *, ownership: Ownership = NOBODY, operation_id: str | None = None) -> None:
        """Let the next turn end advance the present step; a turn's signal is of the step that it began in.

        Raises UnknownStep on no workflow, ConflictingRepeat, SessionClosed, SessionUnknown, and Superseded when a turn
        signals, which its `ownership` says, that is over.
        """
        operation_id = chosen_id("operation", operation_id, "o")
        reply = await self._store.call(
            "signal", session_id, operation_id=operation_id, digest=digest("signal"), **ownership.proof()
        )
        if reply.word not in {Verdict.OK, Verdict.DUPLICATE}:
            raise _refusal(reply, session_id, operation_id)

    async def enter_end(
        self, session_id: str, entry_id: str, event_id: str, *, body: str = "", error: str = ""
    ) -> bool:
        """Carry a step's entry out, with its prompt if it has one, or give it up; the stream entry is acknowledged.

        False: the entry had ended.
        """
        reply = await self._store.call(
            "enter_end",
            session_id,
            entry_id=entry_id,
            event_id=event_id,
            message_id=f"entry-{entry_id}",
            body=body,
            error_text=error[:2000],
            next_entry=new_id("n"),
            next_token=new_id("a"),
        )
        return await offered(reply, session_id, self._placements)

    async def _missing(self, session_id: str, step: str) -> CoordinatorError | None:
        """What a new move to the step is refused with, or None: only the script knows whether it is a repeat.

        Definitions are in no session's slot: one that changes right now is found when the step is entered.
        """
        record = self._store.keys.session(session_id)["session"]
        (name,) = await self._store.fields(record, "workflow")
        if name is None:
            return None
        try:
            workflow = await self.definition(name)
        except WorkflowInvalid as error:
            return error
        if workflow is None:
            return WorkflowUnknown(
                f"Workflow {name!r} of session {session_id!r} is not published; start an orchestrator with its file."
            )
        if workflow.step(step) is None:
            known = ", ".join(one.name for one in workflow.steps)
            return UnknownStep(f"Workflow {name!r} has no step {step!r}; it has {known}.")
        return None


def _refusal(reply: Reply, session_id: str, operation_id: str) -> CoordinatorError:
    if reply.word is Verdict.GONE:
        return UnknownStep(f"Session {session_id!r} is on no workflow; open it with one.")
    return refusal(reply, session_id, message_id=operation_id)
