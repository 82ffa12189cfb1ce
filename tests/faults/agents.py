"""An agent for worker processes that a test kills, pauses and cuts off: it says on the standard output what befalls it.

`--agent tests.faults.agents:reporting`. A prompt is one of the scripted agent's, perhaps under these first lines:

shy NAME    does not accept before the gate NAME is open

Stopped because its prompt is another's, it reports a completion all the same.
"""

from __future__ import annotations

import asyncio

import msgspec

from workers.agents.gates import gates_of
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd
from workers.agents.scripted import ScriptedAgent


class Reporting(ScriptedAgent):
    """A scripted agent that accepts for itself."""

    accepted_by_host = False  # type: ignore[misc]

    def __init__(self) -> None:
        super().__init__()
        self._id = ""

    async def start(self, execution: Execution) -> None:
        """Boot; its gates are the worker's."""
        self._id = f"{execution.session_id} {execution.execution_id}"
        self._shy = gates_of(execution.store)
        self._say("starts")
        await super().start(execution)

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Run the script, and say how that ended."""
        self._say(f"prompted {prompt.turn}")
        try:
            first, _, rest = prompt.text.partition("\n")
            if first.startswith("shy "):
                await self._shy.wait(first.removeprefix("shy "))
                prompt = msgspec.structs.replace(prompt, text=rest)
            await turn.accepted()
            self._say(f"accepted {prompt.turn}")
            end = await super().prompt(prompt, turn)
        except asyncio.CancelledError:
            self._say(f"cancelled {turn.cancel_cause}")
            if turn.cancel_cause == "superseded":
                counted = await turn.report(TurnEnd(prompt.ownership))
                self._say(f"completes late, {'and that counts' if counted else 'in vain'}")
            raise
        self._say(f"ends {end.reason} {turn.cancel_cause}")
        return end

    async def stop(self) -> None:
        """Stop."""
        self._say("stops")
        await super().stop()

    def _say(self, what: str) -> None:
        print(f"agent {self._id} {what}", flush=True)


def reporting() -> Reporting:
    """A fresh one."""
    return Reporting()


class SlowStart(Reporting):
    """It boots when the gate `start` opens."""

    async def start(self, execution: Execution) -> None:
        """Wait for the gate."""
        await super().start(execution)
        await self._shy.wait("start")


def slow_start() -> SlowStart:
    """A fresh one."""
    return SlowStart()
