"""The session's guard: one holder at a time, with a fencing number that the store compares."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from coordinator.dispatching import Dispatching
from coordinator.domain.errors import GuardBusy, GuardLost, SessionUnknown, StoreError
from coordinator.domain.ids import new_id
from coordinator.domain.records import CancelKind, MoveAnswer
from coordinator.domain.verdicts import Verdict
from coordinator.services import Kernel
from coordinator.services.reentry import Scope, enter, leave, refuse, stands_in
from coordinator.settings import Settings
from coordinator.stopping import Stopping
from coordinator.streams.hints import Hints
from coordinator.streams.waiting import finish
from coordinator.ticket import Ticket
from coordinator.turn import Turn

logger = logging.getLogger(__name__)

_RELEASE: Final = "giving a guard back, which its TTL does otherwise"
_MARGIN: Final = 0.005


class Guard:
    """A hold on one session's guard, for `async with`. Made by `Session.guard`; good for one use.

    While it is held no turn opens on the session, except for messages of the holder, and no turn is settled by
    others. It is kept alive in the background, for at most `guard_hold` seconds.
    """

    def __init__(
        self, kernel: Kernel, hints: Hints, settings: Settings, session_id: str, *, wait: float | None = None
    ) -> None:
        self.session_id = session_id
        self._kernel = kernel
        self._hints = hints
        self._settings = settings
        self._wait = settings.guard_wait if wait is None else wait
        # Made before anything is sent, so that a lost reply leaves no owner that does not know it.
        self._owner = new_id("guard")
        self._number = 0
        self._valid_until = 0.0
        self._lost = False
        self._given_back = False
        self._stopping = Stopping(kernel, hints, settings, session_id)
        self._dispatching = Dispatching(kernel, hints, settings, session_id)
        self._keeper: asyncio.Task[None] | None = None
        self._scope: Scope | None = None

    @property
    def number(self) -> int:
        """The fencing number of this hold; 0 before it was acquired."""
        return self._number

    @property
    def held(self) -> bool:
        """Whether, as far as is known here, the guard is still this holder's."""
        return self._number > 0 and not self._lost and not self._given_back and time.monotonic() < self._valid_until

    async def check(self) -> None:
        """Ask the store whether the guard is still held, and extend it.

        Raises `GuardLost` if it is not: it ran out, was held longer than `guard_hold`, or was given back.
        """
        with self._fenced() as number:
            if not await self._extend(number):
                raise GuardLost(self._lost_sentence())

    async def cancel(
        self,
        *,
        keep_inbox: bool = True,
        kind: CancelKind = "user",
        expected_turn: int | None = None,
        expected_generation: int | None = None,
        operation_id: str | None = None,
    ) -> Ticket:
        """Stop what runs, as `Session.cancel` does, if the guard is still held; its outcome may be waited for here.

        Raises `GuardLost`, with nothing changed, and what `Session.cancel` raises.
        """
        with self._fenced() as number:
            return await self._stopping.cancel(
                keep_inbox=keep_inbox,
                kind=kind,
                expected_turn=expected_turn,
                expected_generation=expected_generation,
                operation_id=operation_id,
                guard_number=number,
            )

    async def prompt(
        self,
        text: str,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the public name
        message_id: str | None = None,
        sender: str | None = None,
    ) -> Turn:
        """Put a prompt first in line and return when an agent has accepted it; the guard is given back then.

        Its turn opens although the guard is held, and although the turn before is not settled. Waits and raises as
        `Session.prompt` does, `PredecessorPending` at once while a step is entered that resets the agent, and
        `GuardLost` with nothing changed; after a failure the guard is still held.
        """
        refuse(self.session_id, "guard.prompt")
        with self._fenced() as number:
            turn = await self._dispatching.prompt(
                text, timeout=timeout, message_id=message_id, sender=sender, guard_number=number
            )
        await self._give_back()
        return turn

    async def move(self, step: str, *, defer: bool = False, operation_id: str | None = None) -> MoveAnswer:
        """Move the session to another step, as `Session.move` does, if the guard is still held.

        A step with `reset_agent_context` is entered once the guard has been given back; until then `prompt` raises.
        Raises `GuardLost`, with nothing changed, and what `Session.move` raises.
        """
        with self._fenced() as number:
            return await self._kernel.workflows.move(
                self.session_id,
                step,
                deferred=defer or stands_in("turn", self.session_id),
                guard_number=number,
                operation_id=operation_id,
            )

    @contextmanager
    def _fenced(self) -> Iterator[int]:
        """The number for the scripts, which compare it; a loss that is known here needs no script."""
        if self._lost or self._given_back or not self._number:
            raise GuardLost(self._lost_sentence())
        try:
            yield self._number
        except GuardLost:
            self._lost = True
            raise

    async def _give_back(self) -> None:
        self._given_back = True
        if self._scope is not None:
            leave(self._scope)
        if self._keeper is not None:
            self._keeper.cancel()
        await finish(self._release(), _RELEASE)

    async def __aenter__(self) -> Self:
        refuse(self.session_id, "guard")
        try:
            await self._acquire()
        except (GuardBusy, SessionUnknown):
            raise
        except BaseException:
            # A try that was cut off may have taken the guard all the same.
            await finish(self._give_up(), _RELEASE)
            raise
        self._scope = enter("guard", self.session_id)
        self._keeper = asyncio.create_task(self._keep(), name=f"coordinator-guard-{self.session_id}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._given_back:
            return
        kept = self.held
        await self._give_back()
        self._lost = self._lost or not kept
        if self._lost and error is None:
            raise GuardLost(self._lost_sentence())
        self._lost = True

    async def _acquire(self) -> None:
        deadline = time.monotonic() + self._wait
        with self._hints.waiter(self.session_id) as waiter:
            while True:
                # The lease is counted from before it was asked for, so it never looks longer than it is.
                asked = time.monotonic()
                state = await self._kernel.guards.acquire(self.session_id, self._owner)
                if state.verdict is Verdict.OK:
                    self._number = state.number
                    self._valid_until = asked + self._settings.guard_ttl
                    return
                if state.verdict is Verdict.NO_SESSION:
                    raise SessionUnknown.named(self.session_id)
                left = deadline - time.monotonic()
                if left <= 0:
                    raise GuardBusy(self._busy_sentence(state.owner, state.ms_left), state.owner, state.ms_left)
                await waiter.changed(min(left, max(state.ms_left, 0) / 1000 + _MARGIN))

    async def _keep(self) -> None:
        """Extend at a third of the lease. A task of its own: the body may be busy elsewhere for long."""
        end = time.monotonic() + self._settings.guard_hold
        while True:
            await asyncio.sleep(min(self._settings.guard_ttl / 3, max(0.0, end - time.monotonic())))
            if time.monotonic() >= end:
                self._lost = True
                await finish(self._release(), _RELEASE)
                return
            try:
                if not await self._extend(self._number):
                    self._lost = True
                    return
            except StoreError as error:
                logger.warning("guard of session %s could not be extended: %s", self.session_id, error)
                if time.monotonic() >= self._valid_until:
                    self._lost = True
                    return

    async def _extend(self, number: int) -> bool:
        asked = time.monotonic()
        kept = await self._kernel.guards.extend(self.session_id, self._owner, number)
        if kept:
            self._valid_until = asked + self._settings.guard_ttl
        return kept

    async def _release(self) -> None:
        await self._kernel.guards.release(self.session_id, self._owner, self._number)

    async def _give_up(self) -> None:
        # Acquiring again tells the number of an acquisition whose answer was lost; nobody else has this owner id.
        if not self._number:
            state = await self._kernel.guards.acquire(self.session_id, self._owner)
            if state.verdict is not Verdict.OK:
                return
            self._number = state.number
        await self._release()

    def _busy_sentence(self, owner: str, ms_left: int) -> str:
        return (
            f"the guard of session {self.session_id} is held by {owner} for another {ms_left} ms, and "
            f"{self._wait:g} seconds of waiting are over; try again later"
        )

    def _lost_sentence(self) -> str:
        return (
            f"the guard of session {self.session_id} is no longer held (number {self._number}): it ran out, was held "
            f"over {self._settings.guard_hold:g} seconds, or was given back; take a new one and look again"
        )
