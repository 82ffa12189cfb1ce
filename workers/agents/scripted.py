"""The scripted agent: it does what the lines of its prompt say. Demo, tests and benchmarks run on it.

say TEXT           streams TEXT
sleep SECONDS      waits; a cancel ends it and the turn
hold NAME          waits until the key <namespace>:scripted:NAME exists; a cancel ends it and the turn
step               a step boundary: takes steering, streams `steered: TEXT` for each
ignore-cancel      from here on this turn does not react to cancels
late SECONDS       when cancelled: stays silent, and reports completion SECONDS later, whatever happened meanwhile;
                   after ignore-cancel only when its task is killed
ask QUESTION       asks, waits for the answer, streams `answer: TEXT`
fail MESSAGE       ends the turn as an error
exit               ends the worker process at once, as SIGKILL would (only with COORDINATOR_SCRIPTED_EXIT=1)
any other line     streams `echo: LINE`; empty lines are skipped

Lines that are streamed without a wait between them are put on lines of their own.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from coordinator.domain.errors import NotAvailable
from workers.agents.gates import Gates, gates_of
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd

logger = logging.getLogger(__name__)

_GATE: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_EXIT: Final = "COORDINATOR_SCRIPTED_EXIT"
_detached: set[asyncio.Task[TurnEnd]] = set()


class _NoLine(ValueError):
    """Raised when a line begins with a known word, and is none of the lines above all the same."""


class ScriptedAgent:
    """One execution of the scripted agent; the host accepts its prompts before their first line runs."""

    accepted_by_host: Final = True

    def __init__(self, gates: Gates | None = None) -> None:
        self._gates = gates

    async def start(self, execution: Execution) -> None:
        """Nothing to boot; its resume token is its own execution id."""
        self._gates = self._gates or gates_of(execution.store)
        execution.resume_token = execution.execution_id

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Run the prompt's lines, in order."""
        return await _Script(prompt, turn, self._gates).run()

    async def reset(self) -> None:
        """Nothing is kept between prompts."""

    async def stop(self) -> None:
        """Nothing to end: a late completion outlives its execution on purpose."""


def agent() -> ScriptedAgent:
    """A fresh scripted agent: `--agent workers.agents.scripted:agent`."""
    return ScriptedAgent()


class _Script:
    """One run of one prompt's lines; the public methods are the lines."""

    def __init__(self, prompt: Prompt, turn: Turn, gates: Gates | None) -> None:
        self._prompt = prompt
        self._turn = turn
        self._gates = gates
        self._ignores = False
        self._late: float | None = None
        self._report: asyncio.Task[TurnEnd] | None = None
        self._killed = False
        self._follows = False

    async def run(self) -> TurnEnd:
        """Run all lines, or as many as the turn lives."""
        try:
            return await self._run()
        except asyncio.CancelledError:
            self._killed = True
            if self._late is not None:
                _ = self._begin_report(self._late)
            raise

    async def _run(self) -> TurnEnd:
        turn = self._turn
        for line in self._prompt.text.split("\n"):
            if turn.cancelled.is_set() and not self._ignores:
                return await self._cancelled()
            end = await self._line(line.rstrip("\r"))
            if end is not None:
                return end
        if turn.cancelled.is_set() and not self._ignores:
            return await self._cancelled()
        return TurnEnd(self._prompt.ownership)

    async def _line(self, line: str) -> TurnEnd | None:
        word, _, rest = line.partition(" ")
        known = _LINES.get(word)
        try:
            if known is not None:
                return await known(self, rest)
        except _NoLine:
            pass
        if line.strip():
            await self._emit(f"echo: {line}")
        return None

    async def _emit(self, text: str) -> None:
        # What follows without a wait shares an output entry, and would run into one line there.
        await self._turn.emit(f"\n{text}" if self._follows else text)
        self._follows = True

    async def say(self, text: str) -> None:
        """Stream the text."""
        await self._emit(text)

    async def sleep(self, text: str) -> TurnEnd | None:
        """Wait some seconds."""
        return await self._wait(asyncio.sleep(_seconds(text)))

    async def hold(self, name: str) -> TurnEnd | None:
        """Wait for a gate."""
        if self._gates is None or not _GATE.fullmatch(name):
            raise _NoLine
        return await self._wait(self._gates.wait(name))

    async def step(self, rest: str) -> None:
        """Take steering."""
        _nothing(rest)
        self._follows = False
        for message in await self._turn.take_steering():
            await self._emit(f"steered: {message.body}")

    async def ignore_cancels(self, rest: str) -> None:
        """React to cancels no more."""
        _nothing(rest)
        self._ignores = True

    async def late(self, text: str) -> None:
        """Complete late when cancelled."""
        self._late = _seconds(text)

    async def ask(self, question: str) -> None:
        """Ask a question."""
        try:
            await self._emit(f"answer: {await self._turn.ask(question)}")
        except NotAvailable as error:
            await self._emit(f"ask is not available yet: {error}")

    async def fail(self, message: str) -> TurnEnd:
        """End as an error."""
        return TurnEnd(self._prompt.ownership, "error", message)

    async def exit(self, rest: str) -> None:
        """End the process as SIGKILL would."""
        _nothing(rest)
        if os.environ.get(_EXIT) == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        await self._emit(f"exit is off: set {_EXIT}=1 in the worker's environment")

    async def _wait(self, work: Coroutine[Any, Any, None]) -> TurnEnd | None:
        """Wait for `work`, or for a cancel unless the turn ignores those."""
        self._follows = False
        if self._ignores:
            await work
            return None
        tasks = asyncio.ensure_future(work), asyncio.ensure_future(self._turn.cancelled.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        return await self._cancelled() if self._turn.cancelled.is_set() else None

    async def _cancelled(self) -> TurnEnd:
        if self._late is None:
            return TurnEnd(self._prompt.ownership, "cancelled")
        return await asyncio.shield(self._begin_report(self._late))

    def _begin_report(self, seconds: float) -> asyncio.Task[TurnEnd]:
        # Detached: it outlives the prompt's task, as an agent's own process would.
        if self._report is None:
            self._report = asyncio.create_task(self._report_late(seconds), name="scripted-late")
            _detached.add(self._report)
            self._report.add_done_callback(_detached.discard)
        return self._report

    async def _report_late(self, seconds: float) -> TurnEnd:
        await asyncio.sleep(seconds)
        end = TurnEnd(self._prompt.ownership)
        # Nobody waits for the prompt's return any more: the completion goes its own way, and is found stale.
        if self._killed:
            counted = await self._turn.report(end)
            logger.info("late completion of %s: %s", self._prompt.ownership, "counted" if counted else "stale")
        return end


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise _NoLine from None
    if not (math.isfinite(seconds) and seconds >= 0):
        raise _NoLine
    return seconds


def _nothing(rest: str) -> None:
    if rest.strip():
        raise _NoLine


_Line = Callable[[_Script, str], Awaitable[TurnEnd | None]]
_LINES: Final[dict[str, _Line]] = {
    "say": _Script.say,
    "sleep": _Script.sleep,
    "hold": _Script.hold,
    "step": _Script.step,
    "ignore-cancel": _Script.ignore_cancels,
    "late": _Script.late,
    "ask": _Script.ask,
    "fail": _Script.fail,
    "exit": _Script.exit,
}
