"""What a driver is told: hints, heartbeats' answers, drains. Each only sets a field and wakes it.

What happens then is decided by the answers of the driver's own scripts, so an order that is late or repeated does no
harm.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from coordinator.domain.errors import Superseded
from coordinator.services.executions import Held

if TYPE_CHECKING:
    from workers.agentcall import AgentCall
    from workers.agents.protocol import Agent, Execution
    from workers.turn import LiveTurn


_RESETS: Final = 32
"""Context resets that are remembered as heard of; only the newest can be told again."""


class Orders:
    """What is known and wanted of one execution."""

    def __init__(self, execution: Execution, floor: int) -> None:
        self.execution = execution
        self.session_id = execution.session_id
        self.agent: Agent | None = None
        self.floor = floor
        """The highest generation seen for the session on this worker."""
        self.accepted = False
        """Whether Redis knows the execution: before that, a renewal must not name it."""
        self.accepts = False
        """Whether prompts are accepted for the agent, before it is called."""
        self.released = False
        """Whether Redis was told that the execution is over."""
        self.token = ""
        """The activity that it drives; empty when idle."""
        self.claim_id = ""
        self.turn: LiveTurn | None = None
        self.call: AgentCall[Any] | None = None
        self.idle_since = time.monotonic()
        self.dropped = ""
        """Why it writes nothing more; empty while it may."""
        self.draining = False
        self.interrupted = ""
        self.saved_resume = execution.resume_token
        self._abort = (0, "")
        """Generation and cause of an abort that came before the answer to the claim that it is for."""
        self._ended = ""
        self._next = ""
        self._leaving = ""
        self._reset = ""
        """The context reset that it was told of and has not reported."""
        self._resets: deque[str] = deque(maxlen=_RESETS)
        self._wake = asyncio.Event()

    @property
    def idle(self) -> bool:
        """Whether it drives nothing, and was told of nothing to come."""
        return not (self.token or self._next or self._reset)

    def run(self, token: str) -> None:
        """Hear that an activity of this execution wants a driver, or that there is reason to look again."""
        if token not in {self.token, self._ended}:
            self._next = token
        self._wake.set()

    def abort(self, generation: int, cause: str) -> None:
        """Hear that the prompt of this generation is to be stopped, perhaps before its claim is answered."""
        if self.turn is not None and self.turn.ownership.generation == generation:
            self.turn.cancel(cause)
        elif generation > self.floor:
            self._abort = (generation, cause)

    def reset(self, reset_id: str) -> None:
        """Hear that the provider's session is to be replaced: once for each reset, however often it is told."""
        if reset_id not in self._resets:
            self._resets.append(reset_id)
            self._reset = reset_id
            self._wake.set()

    def answered(self) -> None:
        """Hear that a question of the open turn has its answer, or that there is reason to look for it."""
        if self.turn is not None:
            self.turn.news.set()

    def release(self, reason: str) -> None:
        """Give the execution up if it drives nothing."""
        if self.idle:
            self._leaving = reason
            self._wake.set()

    def drain(self) -> None:
        """Give the execution up at the next moment at which nothing is open."""
        self.draining = True
        self._wake.set()

    def interrupt(self, cause: str, grace: float) -> None:
        """End what runs as interrupted: ask the agent, after `grace` seconds cancel it, after twice that give it up."""
        self.interrupted = self.interrupted or cause
        self.draining = True
        self._wake.set()
        if self.turn is not None:
            self.turn.cancel(cause)
        if self.call is not None:
            loop, call = asyncio.get_running_loop(), self.call
            loop.call_later(grace if self.turn is not None else 0, call.cancel)
            loop.call_later(2 * grace, call.abandon, Superseded("The agent did not stop when its worker did."))

    def drop(self, why: str) -> None:
        """Stop at once and write nothing more: the execution is no longer the session's."""
        if self.dropped:
            return
        self.dropped = why
        if self.turn is not None:
            self.turn.cancel("superseded")
            self.turn.output.supersede()
        if self.call is not None:
            self.call.abandon(Superseded(why))
            self.call.cancel()
        self._wake.set()

    def unheard(self) -> str:
        """The activity that it was told of and did not come to."""
        return self._next

    def held(self) -> Held:
        """What a renewal says of it: the activity that it drives, and the claim that it drives or has sent."""
        return Held(self.session_id, self.execution.execution_id, self.token, self.claim_id)
