"""A direct prompt, from its place first in line to its acceptance, each wait with a bound."""

from __future__ import annotations

import time
from typing import Final

from coordinator.domain.errors import OutcomeUnknown, PredecessorPending, StoreUnavailable, UsageError
from coordinator.domain.ids import chosen_id
from coordinator.domain.verdicts import Verdict
from coordinator.services import Kernel
from coordinator.services.stops import Withdrawn
from coordinator.settings import Settings
from coordinator.streams.hints import Hints
from coordinator.streams.waiting import bounded
from coordinator.turn import Dispatch, Turn

_MARGIN: Final = 0.005
_LONGEST: Final = 3660 * 86400.0
"""Seconds, as for every bound among the settings."""


class Dispatching:
    """Direct prompts for one session; `guard_number` proves a guard's holder, 0 is nobody."""

    def __init__(self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str) -> None:
        self._kernel = kernel
        self._hints = hints
        self._settings = settings
        self._session_id = session_id

    async def prompt(
        self,
        text: str,
        *,
        timeout: float | None,  # noqa: ASYNC109 - the public name
        message_id: str | None,
        sender: str | None,
        guard_number: int = 0,
    ) -> Turn:
        """Put a prompt first and wait until it is accepted. Raises as `Session.prompt` and `Guard.prompt`."""
        bound = self._settings.acceptance if timeout is None else timeout
        if not 0 < bound <= _LONGEST:
            raise UsageError(f"timeout={bound:g} is no time to wait for an acceptance; give it some seconds")
        message_id = chosen_id("message", message_id, "m")
        if guard_number:
            await self._refuse_under_guard(message_id)
        until = time.monotonic() + bound
        await self._kernel.stops.put_direct(
            self._session_id,
            text,
            message_id=message_id,
            sender=sender or "-",
            guard_number=guard_number,
            wait=bound,
        )
        try:
            return await self._accepted(message_id, bound, until)
        except StoreUnavailable as error:
            raise self._unknown(message_id, error) from error

    async def _refuse_under_guard(self, message_id: str) -> None:
        """Raise for the one thing that a guard's holder would wait for in vain: it waits for the guard itself."""
        step = await self._kernel.workflows.resetting_step(self._session_id)
        if step and not await self._kernel.stops.is_known(self._session_id, message_id):
            raise PredecessorPending(
                f"session {self._session_id} is entering step {step}, which resets its agent under the guard; give the "
                "guard back first. Nothing was changed"
            )

    async def _accepted(self, message_id: str, bound: float, until: float) -> Turn:
        prompt = Dispatch(self._kernel, self._hints, self._session_id, message_id)
        what = f"waiting for the acceptance of {message_id}"
        patience = min(bound, self._settings.predecessor_wait)
        while True:
            try:
                return await bounded(prompt.accepted(), patience, what)
            except TimeoutError:
                # When the wait is over is decided in Redis: what was in the way may have ended since.
                found = await self._withdraw(message_id)
            if found.verdict is Verdict.GONE:
                break
            if found.verdict is Verdict.OK:
                raise self._pending(message_id, found, bound if time.monotonic() >= until else patience)
            patience = found.ms_left / 1000 + _MARGIN
        # A turn has it, or somebody took it away, which the log tells at once. A taken one has a deadline in Redis.
        try:
            return await bounded(prompt.accepted(), self._settings.acceptance, what)
        except TimeoutError:
            # It may be back in line, where nobody else would take it away.
            found = await self._withdraw(message_id)
        if found.verdict is Verdict.OK:
            raise self._pending(message_id, found, bound)
        raise OutcomeUnknown(
            f"a turn of session {self._session_id} took prompt {message_id}, and no agent has accepted it yet; "
            "look at the session before it is sent again"
        )

    async def _withdraw(self, message_id: str) -> Withdrawn:
        try:
            return await self._kernel.stops.withdraw(self._session_id, message_id)
        except OutcomeUnknown as error:
            raise self._unknown(message_id, error) from error

    def _unknown(self, message_id: str, error: Exception) -> OutcomeUnknown:
        return OutcomeUnknown(
            f"prompt {message_id} of session {self._session_id} is in line, and what became of it can't be read "
            f"({error}); look at the session before it is sent again"
        )

    def _pending(self, message_id: str, found: Withdrawn, waited: float) -> PredecessorPending:
        why = f"`coordinator explain {self._session_id}` says what is missing"
        if found.generation:
            why = f"generation {found.generation} of execution {found.execution_id} has not ended, and is owed"
        return PredecessorPending(
            f"no turn of session {self._session_id} has taken prompt {message_id} within {waited:g} seconds: {why}; it "
            "was withdrawn and nothing else was changed, so it may be tried again",
            found.execution_id,
            found.generation,
            waited,
        )
