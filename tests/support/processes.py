"""Real processes of the program under test: started, watched, killed, and always gone at the end."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

ROOT: Final = Path(__file__).parents[2]
_alive: set[int] = set()


@atexit.register
def _kill_leftovers() -> None:
    for pid in _alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Process:
    """One `python -m coordinator …`, its standard output and error read together, line by line."""

    def __init__(self, process: asyncio.subprocess.Process, command: str) -> None:
        self._process = process
        self._command = command
        self._news = asyncio.Condition()
        self.lines: list[str] = []
        self._silent = False
        self.pid = process.pid
        _alive.add(self.pid)
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def spawn(cls, *arguments: str, env: Mapping[str, str] | None = None, program: str = "coordinator") -> Self:
        """Start `python -m program arguments`; `env` is added to this process's own."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **(env or {})}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", program, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            cwd=ROOT,
        )
        return cls(process, " ".join((program, *arguments)))

    @property
    def output(self) -> str:
        """All that it has said so far."""
        return "\n".join(self.lines)

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.returncode

    async def says(self, pattern: str, timeout: float = 15.0) -> re.Match[str]:
        """Wait for a line with the pattern. Raises AssertionError with its output if it ends or takes longer."""
        try:
            async with asyncio.timeout(timeout), self._news:
                seen = 0
                while True:
                    for line in self.lines[seen:]:
                        if match := re.search(pattern, line):
                            return match
                    seen = len(self.lines)
                    if self._silent:
                        break
                    await self._news.wait()
        except TimeoutError:
            pass
        state = "still runs" if self.returncode is None else f"ended with {self.returncode}"
        raise AssertionError(f"'{self._command}' {state} without saying '{pattern}':\n{self.output}")

    def signal(self, number: int) -> None:
        """Send a signal; nothing happens if it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        await self.ended()

    async def terminate(self, timeout: float = 15.0) -> int:
        """Ask it to end, wait, and give its exit code. Raises AssertionError, after killing it, if it takes longer."""
        self.signal(signal.SIGTERM)
        return await self.ended(timeout)

    def pause(self) -> None:
        """Stop it as a long garbage collection or a suspended machine would."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self.signal(signal.SIGCONT)

    async def ended(self, timeout: float = 15.0) -> int:
        """Wait for its end and give its exit code. Raises AssertionError, after killing it, if it takes longer."""
        try:
            async with asyncio.timeout(timeout):
                code = await self._process.wait()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self._process.wait()
            raise AssertionError(f"'{self._command}' did not end in {timeout:g} s:\n{self.output}") from None
        finally:
            if self.returncode is not None:
                _alive.discard(self.pid)
        # A grandchild may hold the output open; the end of this process is what counts.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._reading), 1.0)
        return code

    async def clean_up(self) -> None:
        """Kill it if it still runs, and leave nothing behind."""
        await self.kill()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        stream = self._process.stdout
        try:
            while stream is not None and (line := await stream.readline()):
                async with self._news:
                    self.lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._news.notify_all()
        finally:
            async with self._news:
                self._silent = True
                self._news.notify_all()
