"""A dispatched prompt, followed from the line to its acceptance and to its end."""

from __future__ import annotations

from contextlib import aclosing

from coordinator.domain.errors import (
    CancelConflict,
    CoordinatorError,
    MessageNotPending,
    PredecessorPending,
    SessionUnknown,
)
from coordinator.domain.ids import check_id
from coordinator.domain.records import LogEntry, TurnResult
from coordinator.services import Kernel
from coordinator.services.reentry import refuse
from coordinator.streams.hints import Hints
from coordinator.streams.log import follow, inserted_at
from coordinator.streams.results import TurnWatch
from coordinator.streams.waiting import bounded

_STOPPED = frozenset({"cancelled", "escalated"})


class Turn:
    """A turn that an agent has accepted. Made by `Session.prompt` and `Guard.prompt`."""

    def __init__(
        self, kernel: Kernel, hints: Hints, session_id: str, message_id: str, turn: int, generation: int
    ) -> None:
        self.session_id = session_id
        self.message_id = message_id
        self.turn = turn
        self.generation = generation
        self._kernel = kernel
        self._hints = hints

    def __repr__(self) -> str:
        return f"Turn({self.session_id!r}, {self.message_id!r}, turn={self.turn}, generation={self.generation})"

    async def result(self, timeout: float | None = None) -> TurnResult:  # noqa: ASYNC109 - the public name
        """Wait until the turn has ended, and tell how. Raises as `Session.result` does."""
        return await result_of(self._kernel, self._hints, self.session_id, self.message_id, timeout)


async def result_of(
    kernel: Kernel,
    hints: Hints,
    session_id: str,
    message_id: str,
    timeout: float | None,  # noqa: ASYNC109 - the public name
) -> TurnResult:
    """Wait for the end of the turn that took a message. Raises as `Session.result` does."""
    refuse(session_id, "result")
    check_id("message", message_id)
    what = f"waiting for the turn of message {message_id}"
    return await bounded(_result_of(kernel, hints, session_id, message_id), timeout, what)


async def _result_of(kernel: Kernel, hints: Hints, session_id: str, message_id: str) -> TurnResult:
    start = await inserted_at(kernel.store, session_id, message_id)
    if start is None:
        await kernel.snapshots.read(session_id)
        raise MessageNotPending(
            f"session {session_id} knows no message {message_id}: it was never sent, or the log no longer has it"
        )
    watch = TurnWatch(message_id)
    async with aclosing(follow(kernel.store, hints, session_id, start)) as entries:
        async for entry in entries:
            result = watch.feed(entry)
            if result is not None:
                return result
    raise SessionUnknown(f"session {session_id} was removed by its retention")


class Dispatch:
    """One prompt on its way to an agent, read from the log."""

    def __init__(self, kernel: Kernel, hints: Hints, session_id: str, message_id: str) -> None:
        self.claimed = False
        """Whether a turn has taken it."""
        self._kernel = kernel
        self._hints = hints
        self._session_id = session_id
        self._message_id = message_id
        self._turn = ""
        self._opening = ""
        self._after = ""

    async def accepted(self) -> Turn:
        """Wait, without a bound, until an agent has the prompt.

        A prompt that went back in line is followed into its next turn. Raises at once, when it was taken away:
        `CancelConflict` by a stop or close, `PredecessorPending` by its deadline, `MessageNotPending` by an edit.
        """
        store, session_id = self._kernel.store, self._session_id
        self._after = self._after or await inserted_at(store, session_id, self._message_id) or "0"
        async with aclosing(follow(store, self._hints, session_id, self._after)) as entries:
            async for entry in entries:
                self._after = entry.id
                if self._feed(entry):
                    generation = int(entry.fields["generation"])
                    return Turn(self._kernel, self._hints, session_id, self._message_id, int(self._turn), generation)
        raise SessionUnknown(f"session {session_id} was removed by its retention")

    def _feed(self, entry: LogEntry) -> bool:
        fields = entry.fields
        if entry.type in {"turn.started", "agent.running"}:
            self._opening = fields["turn"] if entry.type == "turn.started" else ""
        if fields.get("message_id") == self._message_id:
            if entry.type == "inbox.claimed":
                self._turn, self.claimed = fields["turn"], True
                # Else it was steered, and taken at a boundary: its agent had accepted that turn before.
                return self._turn != self._opening
            if entry.type == "inbox.returned":
                self._turn, self.claimed = "", False
            elif entry.type == "inbox.discarded":
                raise self._discarded(fields.get("why", ""))
        elif self._turn and fields.get("turn") == self._turn:
            if entry.type == "turn.ended" and fields["reason"] in _STOPPED:
                raise CancelConflict(f"prompt {self._message_id} was stopped before an agent had accepted it")
            return entry.type in {"agent.running", "turn.ended"}
        return False

    def _discarded(self, why: str) -> CoordinatorError:
        if why == "expired":
            return PredecessorPending(
                f"no turn of session {self._session_id} has taken prompt {self._message_id} by its deadline; it was "
                "discarded and nothing else was changed, so it may be tried again"
            )
        if why == "removed":
            return MessageNotPending(f"prompt {self._message_id} was removed from the inbox; no turn has taken it")
        what = "the session's end" if why == "closed" else "a stop"
        return CancelConflict(f"{what} took prompt {self._message_id} away ({why}); no turn has taken it")
