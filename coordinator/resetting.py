"""A context reset as its caller sees it: begun under the guard, and waited for without it."""

from __future__ import annotations

import time

from coordinator.domain.errors import GuardLost, ResetFailed, UsageError
from coordinator.domain.ids import check_id, chosen_id
from coordinator.domain.records import ResetStage
from coordinator.guard import Guard
from coordinator.services import Kernel
from coordinator.settings import Settings
from coordinator.streams.hints import Hints


class Resetting:
    """Resets of one session. Each is data from its first script on: a caller that dies changes nothing."""

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str) -> None:
        self._kernel = kernel
        self._hints = hints
        self._settings = settings
        self._session_id = session_id

    async def reset(self, timeout: float | None, operation_id: str | None) -> None:  # noqa: ASYNC109 - the public name
        """Begin a reset, or join the one of that id, and wait for its end. Raises as `Session.reset`."""
        settings, began = self._settings, time.monotonic()
        if operation_id is not None and await self._was_begun(check_id("operation", operation_id)):
            reset_id = operation_id
        else:
            reset_id = chosen_id("operation", operation_id, "r")
            await self._begin(reset_id, settings.guard_wait if timeout is None else min(timeout, settings.guard_wait))
        # Its deadline ends it in any case, as soon as a replica looks.
        bound = settings.reset_timeout + settings.lease + settings.sweep
        if timeout is not None:
            bound = max(0.0, timeout - (time.monotonic() - began))
        stage, why = await self._ended(reset_id, bound)
        if stage == "failed":
            raise ResetFailed(
                f"reset {reset_id} of session {self._session_id} failed: {why or 'no reason was given'}; the next "
                "execution starts from the context before it, and a reset may be tried again"
            )

    async def _begin(self, reset_id: str, wait: float) -> None:
        begun = False
        try:
            async with Guard(self._kernel, self._hints, self._settings, self._session_id, wait=wait) as guard:
                await self._kernel.resets.begin(self._session_id, reset_id, guard.number)
                begun = True
        except GuardLost:
            # What has begun does not need the guard any more.
            if not begun:
                raise

    async def _was_begun(self, reset_id: str) -> bool:
        try:
            await self._kernel.resets.state(self._session_id, reset_id)
        except UsageError as error:
            if type(error) is not UsageError:
                raise
            return False
        return True

    async def _ended(self, reset_id: str, bound: float) -> tuple[ResetStage, str]:
        async def look() -> tuple[ResetStage, str] | None:
            stage, why = await self._kernel.resets.state(self._session_id, reset_id)
            return None if stage == "running" else (stage, why)

        what = f"waiting for the end of reset {reset_id} on session {self._session_id}"
        return await self._hints.until(self._session_id, look, bound, what)
