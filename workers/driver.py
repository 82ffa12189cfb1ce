"""One execution's driver: a task that stays with the execution, and runs one activity after another on it.

A driver that was dropped writes nothing more: whatever it was doing ends at its next call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from coordinator.domain.errors import StoreError, Superseded
from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict
from workers.launch import give_up, launch
from workers.orders import Orders
from workers.persistence import persist
from workers.prompting import Ending, prompt_agent
from workers.resetting import reset_agent
from workers.turn import OURS, LiveTurn

if TYPE_CHECKING:
    from coordinator.domain.records import Ownership
    from coordinator.services import Kernel
    from coordinator.services.turns import Claim
    from coordinator.session import Session
    from workers.agents.protocol import Agent, Execution, TurnEnd

T = TypeVar("T")
logger = logging.getLogger(__name__)

LEAVING: Final = "its worker is leaving"
LOOK_AGAIN: Final = 1.0
"""Seconds after which a driver that waits for a settlement looks again if nothing tells it to."""
_WAITING: Final = frozenset({Verdict.GUARDED, Verdict.OWED, Verdict.UNSETTLED, Verdict.ENTERING})


class Hosting(Protocol):
    """What a driver needs of its host."""

    kernel: Kernel
    worker_id: str
    start_timeout: float
    provider_reset: float
    heartbeat: float

    def make_agent(self) -> Agent:
        """An agent for one execution."""

    def session(self, session_id: str) -> Session:
        """The client that a turn has for its session."""

    def left(self, driver: Driver) -> None:
        """Hear that a driver has ended."""


class Driver(Orders):
    """The execution of one session on this worker, and what it does now."""

    def __init__(self, host: Hosting, execution: Execution, floor: int) -> None:
        super().__init__(execution, floor)
        self.host = host
        self.turns, self.questions, self.workflows = host.kernel.turns, host.kernel.questions, host.kernel.workflows
        self._follows = False
        """Whether a turn has just ended and the activity goes on."""
        self._settles = False
        """Whether the last claim that followed a turn was too early: the next one waits for the settlement's hint."""

    async def drive(self, token: str) -> None:
        """Run until the execution is given up or dropped, beginning with the activity that was accepted."""
        self.token = token
        try:
            alive = await launch(self)
            while alive and not self.dropped:
                # One that its worker's leaving meets uncalled is ended by the release: with no execution left, the next
                # one begins without a context.
                if self._reset and not self.draining:
                    await self._reset_agent()
                    continue
                if not self.token and self._next:
                    self.token, self._next = self._next, ""
                if self.draining or (self._leaving and not self.token):
                    alive = await self._stays()
                elif self.token:
                    await self._activity()
                else:
                    await self._pause(None)
        except (Superseded, StoreError) as error:
            logger.info(
                "execution %s of session %s is dropped: %s", self.execution.execution_id, self.session_id, error
            )
        except Exception:
            logger.exception("the driver of session %s failed; its execution is dropped", self.session_id)
        finally:
            self.host.left(self)

    async def _reset_agent(self) -> None:
        reset_id, self._leaving = self._reset, ""
        if self.agent is not None:
            await reset_agent(self, self.agent, reset_id)
        if self._reset == reset_id:
            self._reset = ""
        self.idle_since = time.monotonic()

    async def _stays(self) -> bool:
        """Give the execution up; true if it can't be now, because it drives something that is not known here yet."""
        reason, self._leaving = self._leaving or LEAVING, ""
        if await give_up(self, reason):
            return False
        await self._pause(LOOK_AGAIN)
        return True

    async def _pause(self, seconds: float | None) -> bool:
        """Wait to be told something, for at most `seconds`; false if nothing was. Raises Superseded when dropped."""
        if seconds is None:
            await self._wake.wait()
        elif not self._wake.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._wake.wait()
        told = self._wake.is_set()
        self._wake.clear()
        if self.dropped:
            raise Superseded(self.dropped)
        return told

    async def _activity(self) -> None:
        """One step of the activity: a turn, or its end."""
        follows, self._follows = self._follows, False
        if follows and self._settles:
            self._settles = await self._pause(LOOK_AGAIN)
        claim = None if self.draining else await self._claim(follows=follows)
        if claim is None:
            return
        if claim.verdict is not Verdict.OK or claim.ownership is None or self.agent is None:
            # Superseded, finished or gone: the activity is over. Whether the execution is, the next heartbeat tells.
            self.ends(Verdict.GONE)
            return
        self.floor = claim.ownership.generation
        self.turn = turn = LiveTurn(self, claim.ownership, self.token)
        if claim.abort or self._abort[0] == claim.ownership.generation:
            turn.cancel(claim.abort or self._abort[1])
        try:
            await self._finish(turn, await prompt_agent(self, self.agent, turn, claim))
        finally:
            self.turn = None

    async def _claim(self, *, follows: bool) -> Claim | None:
        """Claim under one claim id until it is answered for good; None when a drain came first and nothing is open."""
        self.claim_id = claim_id = new_id("c")
        claim, token, execution_id = self.turns.claim, self.token, self.execution.execution_id
        while True:
            self._wake.clear()
            claimed = await self.ask(
                "claim",
                lambda: claim(self.session_id, token, execution_id, claim_id, floor=self.floor, next_token=claim_id),
            )
            if claimed.verdict not in _WAITING:
                return claimed
            self._settles = self._settles or (follows and claimed.verdict is Verdict.UNSETTLED)
            if self.draining:
                self.claim_id = ""
                return None
            await self._pause(claimed.retry_ms / 1000 if claimed.retry_ms else LOOK_AGAIN)

    async def _finish(self, turn: LiveTurn, ending: Ending) -> None:
        number, text = await turn.leave()
        finish, next_token = self.turns.finish, new_id("a")
        # What is told from here on is about what follows the turn.
        self._wake.clear()
        end = await self.ask(
            "finish",
            lambda: finish(
                self.session_id,
                turn.ownership,
                turn.token,
                ending.reason,
                number=number,
                text=text,
                error=ending.error,
                resume_token=ending.resume_token,
                undelivered=ending.undelivered,
                next_token=next_token,
            ),
        )
        if end.verdict not in OURS:
            self.drop("its prompt was ended by another")
        elif ending.reason == "interrupted":
            # Redis has voided the execution with the turn: what is left of it is to end, and to report that.
            self.drop(ending.error)
        else:
            self.ends(end.verdict, end.token)

    async def ask(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        """Call a script until it is answered, or the driver is dropped. Raises Superseded then."""
        try:
            answer = await call()
        except StoreError:
            answer = await persist(call, f"{what} of session {self.session_id}", lambda: not self.dropped)
        if self.dropped:
            raise Superseded(self.dropped)
        return answer

    async def escalate(self, ownership: Ownership, why: str) -> bool:
        """End the open prompt as escalated; false if no cancel is pending."""
        return await self.host.kernel.stops.escalate(self.session_id, ownership, why)

    @property
    def heartbeat(self) -> float:
        """Seconds between two heartbeats of the worker."""
        return self.host.heartbeat

    @property
    def session(self) -> Session:
        """The session's client."""
        return self.host.session(self.session_id)

    def lost(self, turn: LiveTurn) -> None:
        """Hear that the turn's prompt is another's."""
        if self.turn is turn:
            self.drop("its prompt is another's")

    def reported(self, turn: LiveTurn, end: TurnEnd) -> bool | None:
        """Take an end that did not come by the prompt's return; None if that turn is not open here any more.

        False if it has an end that is about to be recorded: the first one counts.
        """
        call = self.call
        if self.turn is not turn or self.dropped or call is None:
            return None
        if call.outcome.done():
            return False
        call.outcome.set_result(end)
        return True

    def ends(self, verdict: Verdict, token: str = "") -> None:
        """Take over what follows an activity's end: `token` is that of the next one, if it is this execution's."""
        self.claim_id = ""
        self._follows = verdict is Verdict.GO_ON
        if self._follows:
            return
        self._ended, self.token = self.token, token
        self.idle_since = time.monotonic()
        if self._next in {self._ended, token}:
            self._next = ""
