"""The scripted agent: it does what the lines of its prompt say. Demo, tests and benchmarks run on it.

say TEXT           streams TEXT
sleep SECONDS      waits; a cancel ends it and the turn
hold NAME          waits until the key <namespace>:scripted:NAME exists; a cancel ends it and the turn
step               a step boundary: takes steering, streams `steered: TEXT` for each
ignore-cancel      from here on this turn does not react to cancels
late SECONDS       when cancelled: stays silent, and reports completion SECONDS later, whatever happened meanwhile;
                   after ignore-cancel only when its task is killed
ask QUESTION       asks, waits for the answer, streams `answer: TEXT`; a cancel ends it and the turn
move STEP          asks for a move to that workflow step at the turn's end
signal             signals the workflow step
context            streams `context: turn N of ID`; a reset begins a new ID, and N counts the turns since
fail MESSAGE       ends the turn as an error
exit               ends the worker process at once, as SIGKILL would (only with COORDINATOR_SCRIPTED_EXIT=1)
any other line     streams `echo: LINE`; empty lines are skipped

Lines that are streamed without a wait between them are put on lines of their own.

A reset of session S does what the key <namespace>:scripted:reset:S says: `hold` waits until that is gone,
`fail MESSAGE` fails; without the key it succeeds at once.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from workers.agents.gates import Gates, gates_of
from workers.agents.lines import Script
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd

_LOOK: Final = 0.04
"""Seconds between two looks of a reset that is held."""


class ScriptedAgent:
    """One execution of the scripted agent; the host accepts its prompts before their first line runs."""

    accepted_by_host: Final = True

    def __init__(self, gates: Gates | None = None) -> None:
        self._gates = gates
        self._execution: Execution | None = None
        self._context = ""
        """Empty before the start: nothing to resume from then."""
        self._turns = 0
        self._resets = 0

    async def start(self, execution: Execution) -> None:
        """Begin a context, or go on with the one that an earlier execution has left."""
        self._gates = self._gates or gates_of(execution.store)
        self._execution = execution
        self._context, _, turns = execution.resume_token.rpartition(".")
        if self._context and turns.isdecimal():
            self._turns = int(turns)
        else:
            self._begin(execution)

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Run the prompt's lines, in order."""
        self._turns += 1
        end = await Script(prompt, turn, self._gates, f"turn {self._turns} of {self._context or 'nothing'}").run()
        return msgspec.structs.replace(end, resume_token=self._token()) if self._context else end

    async def reset(self) -> None:
        """Begin another context, unless the session's key says otherwise."""
        execution = self._execution
        if execution is None:
            return
        while (word := await _order(execution)) == "hold":  # noqa: ASYNC110 - what it waits for is a key in Redis
            await asyncio.sleep(_LOOK)
        if word.startswith("fail"):
            raise RuntimeError(word.removeprefix("fail").strip() or "told to fail")
        self._resets += 1
        self._begin(execution)

    async def stop(self) -> None:
        """Nothing to end: a late completion outlives its execution on purpose."""

    def _begin(self, execution: Execution) -> None:
        self._context, self._turns = f"{execution.execution_id}-{self._resets}", 0
        execution.resume_token = self._token()

    def _token(self) -> str:
        return f"{self._context}.{self._turns}"


def agent() -> ScriptedAgent:
    """A fresh scripted agent: `--agent workers.agents.scripted:agent`."""
    return ScriptedAgent()


async def _order(execution: Execution) -> str:
    store = execution.store
    return await store.redis.get(f"{store.keys.namespace}:scripted:reset:{execution.session_id}") or ""
