"""The lines that the scripted agent knows, and what each does in its turn."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from coordinator.domain.errors import QuestionClosed, UsageError
from workers.agents.gates import Gates
from workers.agents.protocol import Prompt, Turn, TurnEnd

logger = logging.getLogger(__name__)

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_EXIT: Final = "COORDINATOR_SCRIPTED_EXIT"
_detached: set[asyncio.Task[TurnEnd]] = set()


class _NoLine(ValueError):
    """Raised when a line begins with a known word, and is not that line all the same."""


class Script:
    """One run of one prompt's lines; the public methods are the lines."""

    def __init__(self, prompt: Prompt, turn: Turn, gates: Gates | None, context: str = "") -> None:
        self._prompt = prompt
        self._turn = turn
        self._gates = gates
        self._context = context
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
        known = LINES.get(word)
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
        if self._gates is None or not _NAME.fullmatch(name):
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

    async def ask(self, question: str) -> TurnEnd | None:
        """Ask a question and wait for its answer."""
        if not question.strip():
            raise _NoLine
        turn = self._turn
        try:
            said = f"answer: {await turn.ask(question)}"
        except QuestionClosed as error:
            if turn.cancelled.is_set() and not self._ignores:
                return await self._cancelled()
            said = f"no answer: {error}"
        self._follows = False
        await self._emit(said)
        return None

    async def move(self, step: str) -> None:
        """Ask for a move."""
        if not _NAME.fullmatch(step):
            raise _NoLine
        await self._attempt("move", self._turn.move(step))

    async def signal(self, rest: str) -> None:
        """Signal the step."""
        _nothing(rest)
        await self._attempt("signal", self._turn.signal())

    async def context(self, rest: str) -> None:
        """Tell the context."""
        _nothing(rest)
        await self._emit(f"context: {self._context}")

    async def _attempt(self, what: str, call: Coroutine[Any, Any, None]) -> None:
        try:
            await call
        except UsageError as error:
            await self._emit(f"{what} failed: {error}")

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


_Line = Callable[[Script, str], Awaitable[TurnEnd | None]]
LINES: Final[dict[str, _Line]] = {
    "say": Script.say,
    "sleep": Script.sleep,
    "hold": Script.hold,
    "step": Script.step,
    "ignore-cancel": Script.ignore_cancels,
    "late": Script.late,
    "ask": Script.ask,
    "move": Script.move,
    "signal": Script.signal,
    "context": Script.context,
    "fail": Script.fail,
    "exit": Script.exit,
}
