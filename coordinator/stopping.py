"""Cancels and replacements as a session's and a guard's calls make them: arguments checked, tickets made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, get_args

from coordinator.domain.errors import UsageError
from coordinator.domain.ids import check_id
from coordinator.domain.records import CancelKind, Receipt
from coordinator.services import Kernel
from coordinator.settings import Settings
from coordinator.streams.hints import Hints
from coordinator.ticket import Ticket

_KINDS: Final[tuple[str, ...]] = get_args(CancelKind)


class Stopping:
    """What stops one session's work; `guard_number` proves a guard's holder, 0 is nobody."""

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str) -> None:
        self._kernel = kernel
        self._hints = hints
        self._settings = settings
        self._session_id = session_id

    def ticket(self, operation_id: str, **options: Any) -> Ticket:
        """The ticket of an operation. Raises `InvalidId`."""
        return Ticket(self._kernel, self._hints, self._settings, self._session_id, operation_id, **options)

    async def cancel(
        self,
        *,
        keep_inbox: bool,
        kind: CancelKind,
        expected_turn: int | None,
        expected_generation: int | None,
        operation_id: str | None,
        guard_number: int = 0,
    ) -> Ticket:
        """Stop what is open. Raises as `Session.cancel` and `Guard.cancel`."""
        if kind not in _KINDS:
            raise UsageError(f"kind={kind!r} is none of {', '.join(_KINDS)}")
        stop = await self._kernel.stops.cancel(
            self._session_id,
            kind=kind,
            keep_inbox=keep_inbox,
            expected_turn=_expectation("expected_turn", expected_turn),
            expected_generation=_expectation("expected_generation", expected_generation),
            guard_number=guard_number,
            operation_id=operation_id,
        )
        return self.ticket(stop.ticket, outcome=stop.outcome)

    async def put_first(
        self,
        text: str | None,
        *,
        kind: str,
        entries: Sequence[str] = (),
        message_id: str | None = None,
        sender: str | None = None,
        expected_turn: int | None = None,
        expected_generation: int | None = None,
        guard_number: int = 0,
    ) -> Receipt:
        """Put a text or pending messages first, and stop what is open as the kind says. Raises as `Session.replace`."""
        if (text is None) == (not entries):
            raise UsageError("a replacement is either a text or the ids of pending messages, and not both")
        if isinstance(entries, str) or len(set(entries)) != len(entries):
            raise UsageError("entries has to be a list of message ids, each of them once")
        return await self._kernel.stops.put_first(
            self._session_id,
            text or "",
            kind=kind,
            chosen=[check_id("message", entry) for entry in entries],
            message_id=message_id,
            sender=sender or "-",
            expected_turn=_expectation("expected_turn", expected_turn),
            expected_generation=_expectation("expected_generation", expected_generation),
            guard_number=guard_number,
        )


def _expectation(name: str, number: int | None) -> int:
    # To the scripts 0 is "whatever runs", which is not what a caller means who has seen that nothing does.
    if number is not None and number < 1:
        raise UsageError(f"{name}={number} names nothing that could be stopped; leave it away to stop whatever runs")
    return number or 0
