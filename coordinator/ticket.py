"""A cancel operation, from the moment it was asked for until it has ended."""

from __future__ import annotations

from coordinator.domain.ids import check_id
from coordinator.domain.records import Outcome
from coordinator.services import Kernel
from coordinator.services.reentry import refuse
from coordinator.settings import Settings
from coordinator.streams.hints import Hints


class Ticket:
    """One operation of one session, for any process that knows its id. Made by `Session.cancel` and `Session.ticket`.

    A call that joined an operation has that operation's ticket.
    """

    def __init__(
        self,
        kernel: Kernel,
        hints: Hints,
        settings: Settings,
        session_id: str,
        operation_id: str,
        *,
        outcome: Outcome | None = None,
    ) -> None:
        self.session_id = session_id
        self.id = check_id("operation", operation_id)
        self.known = outcome
        """How it ended, if that was known when the ticket was made."""
        self._kernel = kernel
        self._hints = hints
        self._bound = settings.cancel_timeout + settings.lease + settings.sweep

    def __repr__(self) -> str:
        return f"Ticket({self.session_id!r}, {self.id!r})"

    async def outcome(self, timeout: float | None = None) -> Outcome:  # noqa: ASYNC109 - the public name
        """Wait until the operation has ended: `cancelled`, `escalated`, `completed`, `lost`, or `idle` (nothing ran).

        Waits for at most `timeout` seconds; none is the time in which any replica that lives has ended it. Raises
        `TimeoutError` then, which undoes nothing; `UsageError` for an id that is no operation's, or so old that
        neither the log nor a receipt has it; `Reentry` inside this session's own turn while it is pending.
        """
        if self.known is None:
            self.known = await self._look() or await self._wait(timeout)
        return self.known

    async def _wait(self, timeout: float | None) -> Outcome:  # noqa: ASYNC109 - the public name
        refuse(self.session_id, "outcome")
        bound = self._bound if timeout is None else timeout
        what = f"waiting for the outcome of operation {self.id} on session {self.session_id}"
        ended: Outcome = await self._hints.until(self.session_id, self._look, bound, what)
        return ended

    async def _look(self) -> Outcome | None:
        return await self._kernel.stops.outcome(self.session_id, self.id)
