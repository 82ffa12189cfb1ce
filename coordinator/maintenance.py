"""Jobs that need the session to themselves while no turn runs."""

from __future__ import annotations

import asyncio
import logging
import time
from types import TracebackType
from typing import Final, Self

from coordinator.domain.errors import StoreError, Superseded, UsageError
from coordinator.domain.ids import new_id
from coordinator.services import Kernel
from coordinator.services.reentry import Scope, enter, leave, refuse
from coordinator.settings import Settings
from coordinator.streams.hints import Hints, Waiter
from coordinator.streams.waiting import end, finish

logger = logging.getLogger(__name__)

_LONGEST_NAME: Final = 64
_END: Final = "ending a maintenance job, which its lease does otherwise"


class MaintenanceJob:
    """A job's hold on an idle session, for `async with`. Made by `Session.maintain`; good for one use.

    Messages queue meanwhile, and those that wake run when it ends. The hold is extended in the background each third
    of `maintenance_lease`. A stop does not end the job: `cancelled` is set, and the job has `cancel_timeout` to end.
    """

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str, name: str) -> None:
        if not name.isprintable() or not 0 < len(name.encode()) <= _LONGEST_NAME:
            raise UsageError(f"a maintenance job needs a printable name of 1 to {_LONGEST_NAME} bytes")
        self.session_id = session_id
        self.name = name
        self.cancelled = asyncio.Event()
        """Set when the job is to end: the session is being stopped or closed, or is another's already."""
        self.cancel_cause = ""
        """Why: `user`, `parent` or `close`; `superseded` when the hold was lost."""
        self._kernel = kernel
        self._hints = hints
        self._lease = settings.maintenance_lease
        self._token = new_id("j")
        self._lost = False
        self._valid_until = 0.0
        self._keeper: asyncio.Task[None] | None = None
        self._scope: Scope | None = None

    async def __aenter__(self) -> Self:
        refuse(self.session_id, "maintain")
        asked = time.monotonic()
        try:
            await self._kernel.maintenance.begin(self.session_id, self._token, self.name)
        except (StoreError, asyncio.CancelledError):
            # It may have begun all the same; who can't be told now is found by the lease.
            await finish(self._end(), _END)
            raise
        self._valid_until = asked + self._lease
        self._scope = enter("maintenance", self.session_id)
        self._keeper = asyncio.create_task(self._keep(), name=f"coordinator-maintenance-{self.session_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the job. Raises `Superseded` if the session was taken from it before, unless the body failed itself."""
        if self._scope is not None:
            leave(self._scope)
        if self._keeper is not None:
            await end(self._keeper)
        if error is not None:
            await finish(self._end(), _END)
        elif not await self._end() or self._lost:
            raise Superseded(
                f"maintenance {self.name!r} of session {self.session_id} was ended before its job was: its lease of "
                f"{self._lease:g} seconds ran out, or a stop was not answered in time; check what it has done"
            )

    async def _end(self) -> bool:
        return await self._kernel.maintenance.end(self.session_id, self._token)

    async def _keep(self) -> None:
        """Extend at a third of the lease, and look for a stop at every hint."""
        with self._hints.waiter(self.session_id) as waiter:
            due = 0.0
            while not self._lost:
                try:
                    if time.monotonic() >= due:
                        due = time.monotonic() + self._lease / 3
                        await self._extend()
                    elif not self.cancelled.is_set():
                        await self._look()
                except StoreError as error:
                    logger.warning("maintenance of session %s could not be extended: %s", self.session_id, error)
                    self._lost = time.monotonic() >= self._valid_until
                await self._pause(waiter, due)
        self._cancel("superseded")

    async def _pause(self, waiter: Waiter, due: float) -> None:
        if not self._lost:
            await waiter.changed(due - time.monotonic())

    async def _extend(self) -> None:
        asked = time.monotonic()
        cause = await self._kernel.maintenance.extend(self.session_id, self._token)
        if cause is None:
            self._lost = True
            return
        self._valid_until = asked + self._lease
        self._cancel(cause)

    async def _look(self) -> None:
        cause = await self._kernel.maintenance.cause(self.session_id, self._token)
        self._lost = cause is None
        self._cancel(cause or "")

    def _cancel(self, cause: str) -> None:
        if cause:
            self.cancel_cause = self.cancel_cause or cause
            self.cancelled.set()
