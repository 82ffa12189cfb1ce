"""Opening and closing sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from coordinator.domain.errors import WorkflowUnknown
from coordinator.domain.ids import check_id, new_id
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Workflow
from coordinator.services.answers import refusal

if TYPE_CHECKING:
    from coordinator.domain.records import Lifecycle, SessionPolicy
    from coordinator.store.store import Store


class Sessions:
    """The beginning and the end of sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, session_id: str, policy: SessionPolicy, *, workflow: str | None = None) -> bool:
        """Make a session, or change the policy of an open one; True when it was made.

        With a `workflow` a session that is on none enters its first step. Raises InvalidId, SessionClosed until
        retention has removed a closed one, WorkflowUnknown for a definition that nobody published, and UsageError for
        another workflow than the session's, or for a policy without settlement on any.
        """
        check_id("session", session_id)
        start = await self._start_of(check_id("workflow", workflow)) if workflow is not None else ""
        reply = await self._store.call(
            "open",
            session_id,
            settlement=policy.settlement,
            lost_turns=policy.lost_turns,
            retries=policy.retries,
            after_error=policy.after_error,
            on_handler_failure=policy.on_handler_failure,
            workflow_name=workflow or "",
            start_step=start,
            next_entry=new_id("n"),
        )
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id)
        return bool(reply.details[0] == "1")

    async def _start_of(self, workflow: str) -> str:
        (found,) = await self._store.fields(self._store.keys.workflows, workflow)
        if found is None:
            raise WorkflowUnknown(
                f"No orchestrator has published a workflow {workflow!r}; start one with --workflow and its file."
            )
        return Workflow.from_json(found).start

    async def close(self, session_id: str, operation_id: str = "") -> Lifecycle:
        """Discard the inbox, stop what is open, let nothing start; `closing` while something is open, else `closed`.

        Raises SessionUnknown.
        """
        reply = await self._store.call(
            "close", session_id, operation_id=operation_id or new_id("o"), next_token=new_id("a")
        )
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id)
        return cast("Lifecycle", reply.details[0])
