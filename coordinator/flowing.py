"""What moves a session along besides messages: resets of its context, its workflow's steps, answers."""

from __future__ import annotations

from coordinator.domain.ids import check_id
from coordinator.domain.records import MoveAnswer, Receipt
from coordinator.resetting import Resetting
from coordinator.services.reentry import refuse, stands_in
from coordinator.watching import Watching


class Flowing(Watching):
    """The calls of a `Session` about its context, its workflow and its questions."""

    async def reset(self, *, timeout: float | None = None, operation_id: str | None = None) -> None:  # noqa: ASYNC109
        """Give the session's agent a fresh context, and return when it has one; what runs is stopped before.

        What is queued, and what is sent meanwhile, runs afterwards; a reset that fails parks it until the next wake.
        Waits up to `timeout` seconds for the guard and the end (without one, up to `guard_wait` for the guard, and
        until `reset_timeout` has ended the reset). Once begun it goes on without its caller: `TimeoutError` undoes
        nothing, and the same `operation_id` joins it again.

        Raises `ResetFailed` with the reason when the agent keeps its old context, `GuardBusy`, `ResetInProgress` for
        another reset, `CancelConflict` while a stop is recorded, `SessionBusy` during a maintenance job,
        `SessionClosed`, and `Reentry` inside this session's own turn, handler or guard.
        """
        refuse(self.id, "reset")
        await Resetting(self._kernel, self._hints, self._settings, self.id).reset(timeout, operation_id)

    async def move(self, step: str, *, defer: bool = False, operation_id: str | None = None) -> MoveAnswer:
        """Move the session to another step of its workflow: `applied` at once, or `pending` until a turn is settled.

        It is pending, one a session, the later replacing the earlier, while a turn waits for its settlement or a step
        is being entered; with `defer`, or inside the session's own turn, also while a turn runs. Any other move applies
        at once: a step with `reset_agent_context` stops the running turn, one without leaves it running.

        Raises `UnknownStep` if the session is on no workflow, or that has no such step, `WorkflowUnknown` if no
        orchestrator has published its workflow, `SessionClosed`, and `ConflictingRepeat`.
        """
        deferred = defer or stands_in("turn", self.id)
        return await self._kernel.workflows.move(self.id, step, deferred=deferred, operation_id=operation_id)

    async def signal(self, *, operation_id: str | None = None) -> None:
        """Let the end of a turn advance the present step, where the step has `requires_signal`.

        The signal moves nothing by itself, and is kept until the step is left; the same `operation_id` signals no
        later step. Raises `UnknownStep` if the session is on no workflow, `ConflictingRepeat`, and `SessionClosed`.
        """
        await self._kernel.workflows.signal(self.id, operation_id=operation_id)

    async def answer(
        self, question_id: str, text: str, *, message_id: str | None = None, sender: str | None = None
    ) -> Receipt:
        """Answer a question of the session; the first answer wins.

        `placement` is `delivered` when the agent that asked still waits and has it. Else the answer is the next prompt,
        first in line; a turn that asked and waits no longer is stopped for it. The same `message_id` gives the first
        answer. Raises `QuestionClosed` if the question was answered, has expired, or a later turn has opened, and what
        `Session.send` raises.
        """
        return await self._kernel.questions.answer(
            self.id, check_id("question", question_id), text, message_id=message_id, sender=sender or "-"
        )
