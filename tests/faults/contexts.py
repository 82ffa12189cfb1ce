"""An agent whose context shows, and whose stop and reset hold at gates, for processes that a test kills there.

`--agent tests.faults.contexts:agent`. Its context is its resume token: a number that every reset raises by one, made 1
when there is none. A prompt is one line:

tell            says `context N`
run             runs until it is stopped
jam NAME        runs until it is stopped, and then until the gate NAME opens

What its reset does, the environment says: `COORDINATOR_TEST_RESET` is `quick`, `hold` (until the gate `provider`
opens), `fail` or `exit` (its process is gone when the provider has done it, before anybody is told).
"""

from __future__ import annotations

import asyncio
import os
import signal
from secrets import token_hex

from workers.agents.gates import gates_of
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd


class Contexts:
    """One execution's agent."""

    accepted_by_host = True

    def __init__(self) -> None:
        self._execution: Execution
        self._resets = os.environ.get("COORDINATOR_TEST_RESET", "quick")

    async def start(self, execution: Execution) -> None:
        """Go on in the context that the resume token names, or in a first one."""
        self._execution = execution
        self._gates = gates_of(execution.store)
        self._context = execution.resume_token or f"1-{token_hex(4)}"
        execution.resume_token = self._context
        self._say("starts")

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Say the context, or run until stopped."""
        word, _, gate = prompt.text.partition(" ")
        await turn.emit(f"context {self._context}")
        if word in {"run", "jam"}:
            await turn.cancelled.wait()
            if word == "jam":
                self._say("jams")
                await self._gates.wait(gate)
            return TurnEnd(prompt.ownership, "cancelled")
        return TurnEnd(prompt.ownership)

    async def reset(self) -> None:
        """Begin the next context."""
        self._say("resets")
        if self._resets == "hold":
            await self._gates.wait("provider")
        if self._resets == "fail":
            raise RuntimeError("the provider refuses")
        self._context = f"{int(self._context.partition('-')[0]) + 1}-{token_hex(4)}"
        self._execution.resume_token = self._context
        if self._resets == "exit":
            os.kill(os.getpid(), signal.SIGKILL)
            await asyncio.sleep(60)

    async def stop(self) -> None:
        """End."""
        self._say("stops")

    def _say(self, what: str) -> None:
        print(f"agent {self._execution.session_id} {what}", flush=True)


def agent() -> Contexts:
    """A fresh one."""
    return Contexts()
