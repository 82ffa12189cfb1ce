"""One session, as clients and handlers use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, get_args

import msgspec

from coordinator.dispatching import Dispatching
from coordinator.domain.errors import UsageError
from coordinator.domain.records import CancelKind, OnBusy, Receipt, SessionPolicy
from coordinator.flowing import Flowing
from coordinator.guard import Guard
from coordinator.inbox import SessionInbox
from coordinator.maintenance import MaintenanceJob
from coordinator.services import Kernel
from coordinator.services.reentry import refuse
from coordinator.settings import Settings
from coordinator.stopping import Stopping
from coordinator.streams.hints import Hints
from coordinator.ticket import Ticket
from coordinator.turn import Turn

_ON_BUSY: Final[tuple[str, ...]] = get_args(OnBusy)


class Session(Flowing):
    """A handle on one session; made by `Coordinator.session`, which does no I/O.

    Every call raises `StoreUnavailable` when Redis can't be reached, and all but `open` raise `SessionUnknown` when no
    such session was opened. A call that changes something may be repeated.
    """

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str) -> None:
        super().__init__(kernel, hints, settings, session_id)
        self.inbox = SessionInbox(kernel, session_id)
        self._stopping = Stopping(kernel, hints, settings, session_id)

    async def open(self, policy: SessionPolicy | None = None, *, workflow: str | None = None) -> bool:
        """Make the session, or change the policy of one that is open; true if it is new.

        No policy is the default policy. A `workflow` puts it on that one, at its start; without one it stays where it
        is. Raises `SessionClosed` on a closing or closed session, until retention has removed it, `WorkflowUnknown` if
        no orchestrator has published that workflow, and `UsageError` for a policy with a word that is none, for
        settlement `none` with a workflow, and for a session that is on another workflow.
        """
        return await self._kernel.sessions.open(self.id, _checked(policy or SessionPolicy()), workflow=workflow)

    async def send(
        self,
        text: str,
        *,
        message_id: str | None = None,
        wake: bool = True,
        on_busy: OnBusy = "enqueue",
        sender: str | None = None,
    ) -> Receipt:
        """Put a message at the end of next-turn: it gets a turn of its own, and wakes an idle session.

        The same `message_id` within `receipts` seconds gives the first answer, as a duplicate, and inserts nothing.
        `on_busy` says what a session that is not idle does: line it up, take it into the running turn, refuse it, or,
        whatever the session does, treat it as `replace` does. Raises `ConflictingRepeat`, `SessionBusy` (only if
        rejecting), `SessionClosed`, `InboxFull`, `MessageTooLarge`, `MessageInvalid`.
        """
        if on_busy not in _ON_BUSY:
            raise UsageError(f"on_busy={on_busy!r} is none of {', '.join(_ON_BUSY)}")
        if on_busy == "replace":
            if not wake:
                raise UsageError("a message that replaces what runs always wakes; leave wake=False away")
            return await self.replace(text, message_id=message_id, sender=sender)
        return await self._kernel.inbox.send(
            self.id, text, message_id=message_id, wake=wake, on_busy=on_busy, sender=sender or "-"
        )

    async def steer(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Put a message into next-step: the running turn takes it at its next boundary. Wakes; raises as `send`."""
        return await self._kernel.inbox.send(self.id, text, message_id=message_id, list="next-step")

    async def inject(self, text: str, *, message_id: str | None = None) -> Receipt:
        """Put a message into next-step without waking an idle session. Raises as `send`."""
        return await self._kernel.inbox.send(self.id, text, message_id=message_id, list="next-step", wake=False)

    async def prompt(
        self,
        text: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the public name
        message_id: str | None = None,
        sender: str | None = None,
    ) -> Turn:
        """Put a prompt first in line and return when an agent has accepted it; the turn's end is `result` of the turn.

        It stops nothing: an earlier prompt is waited for, up to `predecessor_wait`. Waits up to `timeout` seconds in
        all (default `acceptance`). What no turn has taken then is withdrawn: `PredecessorPending`, and nothing has
        changed; the same at once if another such prompt waits. A caller that is cancelled before leaves its prompt in
        line for that long, and it may run. Raises `OutcomeUnknown`, with the message's id, if a turn took it and no
        agent has accepted it; `CancelConflict` if a stop takes it away; `ResetInProgress`; `Reentry` inside this
        session's own turn, handler or guard; and what `send` raises.
        """
        refuse(self.id, "prompt")
        return await Dispatching(self._kernel, self._hints, self._settings, self.id).prompt(
            text, timeout=timeout, message_id=message_id, sender=sender
        )

    async def cancel(
        self,
        *,
        keep_inbox: bool = True,
        kind: CancelKind = "user",
        expected_turn: int | None = None,
        expected_generation: int | None = None,
        operation_id: str | None = None,
    ) -> Ticket:
        """Stop what runs now, and answer at once; `outcome` of the ticket waits for the end.

        What is queued stays parked until the next message that wakes, or is discarded without `keep_inbox`; what is
        sent from now on runs afterwards by itself. `kind` says who stops: `user` (a person), `parent`, `silent` (parks
        nothing), `system`. One operation a session: a further stop joins it. Raises `TurnChanged`, with nothing
        written, if the turn or generation is not the expected one, and `CancelConflict` if a replacement or reset is
        recorded, which only a person's stop can join; `ConflictingRepeat`.
        """
        return await self._stopping.cancel(
            keep_inbox=keep_inbox,
            kind=kind,
            expected_turn=expected_turn,
            expected_generation=expected_generation,
            operation_id=operation_id,
        )

    def ticket(self, operation_id: str) -> Ticket:
        """The ticket of an operation, from any process and without any I/O.

        An operation's id is that of its ticket, or the message id of a replacement or interrupt. Raises `InvalidId`.
        """
        return self._stopping.ticket(operation_id)

    async def replace(
        self,
        text: str | None = None,
        *,
        entries: Sequence[str] = (),
        message_id: str | None = None,
        sender: str | None = None,
        expected_turn: int | None = None,
        expected_generation: int | None = None,
    ) -> Receipt:
        """Stop what runs and put a message, or pending ones by id, first in line: both, or neither.

        The queue follows it. With nothing to stop the message is only put first. `message_id` is the operation's id,
        too. Raises as `send` and `cancel` do, `MessageNotPending` if one of `entries` is not pending any more, and
        `CancelConflict` while any stop is recorded.
        """
        return await self._stopping.put_first(
            text,
            kind="replace",
            entries=entries,
            message_id=message_id,
            sender=sender,
            expected_turn=expected_turn,
            expected_generation=expected_generation,
        )

    async def interrupt(
        self,
        text: str,
        *,
        expected_generation: int | None = None,
        message_id: str | None = None,
        sender: str | None = None,
    ) -> Receipt:
        """Stop what runs for a parent, park what is queued, and put the parent's message first, all or nothing.

        Where a person's stop is under way it stops nothing, and its message waits its turn. Raises as `replace`;
        `TurnChanged` if the parent has seen another generation than runs.
        """
        return await self._stopping.put_first(
            text, kind="parent", message_id=message_id, sender=sender, expected_generation=expected_generation
        )

    def maintain(self, name: str) -> MaintenanceJob:
        """Claim the idle session for a job: `async with session.maintain("compaction") as job`.

        No turn runs meanwhile. Raises `SessionBusy` when the session is not idle, `SessionClosed`, `UsageError` for a
        name that is none, and at the end of the body `Superseded` when the session was taken from the job.
        """
        return MaintenanceJob(self._kernel, self._hints, self._settings, self.id, name)

    async def close(self) -> str:
        """Discard the inbox and let nothing start any more; `closing` while a prompt is open, else `closed`.

        `wait_idle` waits for the end. A repeat answers the state it finds. Raises `Reentry` inside this session's own
        turn or handler.
        """
        refuse(self.id, "close")
        return await self._kernel.sessions.close(self.id)

    def guard(self, timeout: float | None = None) -> Guard:
        """Hold the session's guard: `async with session.guard(timeout=30) as guard`.

        Waits up to `timeout` seconds (default `guard_wait`) and then raises `GuardBusy`; raises `Reentry` at once in a
        task that is inside already. `GuardLost` comes at the next call on a guard that was lost, or at the body's end.
        """
        return Guard(self._kernel, self._hints, self._settings, self.id, wait=timeout)


def _checked(policy: SessionPolicy) -> SessionPolicy:
    """Check what a dynamically typed caller may have put in: what is stored is compared with these words only."""
    try:
        msgspec.convert(msgspec.structs.asdict(policy), SessionPolicy)
    except msgspec.ValidationError as error:
        raise UsageError(f"this can't be a session's policy: {error}") from None
    if policy.retries < 1:
        raise UsageError(f"retries={policy.retries} can't be: a message has at least 1 attempt")
    return policy
