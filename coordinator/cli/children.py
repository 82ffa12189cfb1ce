"""Processes that a command starts for itself: workers and orchestrators that end with it, whatever ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import coordinator
from coordinator.domain.errors import CoordinatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

_START: Final = 30.0
_DRAIN: Final = 3.0
_HURRY: Final = 10.0
_TOLD: Final = 20


class ChildFailed(CoordinatorError):
    """Raised when a process that a command needs did not start, or ended by itself."""


class Child:
    """One `coordinator …` process. Its stdin is a pipe: when this process is gone, however, it ends itself."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        self.name = name
        self._process = process
        self._told: list[str] = []
        self._errors = asyncio.create_task(self._listen())

    @classmethod
    async def start(cls, name: str, arguments: list[str], env: Mapping[str, str]) -> Self:
        """Start `coordinator ARGUMENTS` with this environment and wait until it says that it is ready.

        Raises `ChildFailed` with what it said if it ends before, or is not ready within 30 seconds.
        """
        # The package that runs here, and no other that lies in the current folder by the same name.
        package = str(Path(coordinator.__file__).parents[1])
        path = os.pathsep.join(filter(None, (package, env.get("PYTHONPATH"))))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "coordinator", *arguments, "--json", "--with-parent",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            env={**env, "PYTHONPATH": path},
            start_new_session=True,
        )  # fmt: skip
        child = cls(name, process)
        try:
            async with asyncio.timeout(_START):
                await child._ready()
        except TimeoutError:
            await child.kill()
            raise ChildFailed(f"{name} was not ready within {_START:g} seconds: {child.told}") from None
        except BaseException:
            await child.kill()
            raise
        return child

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process has not ended."""
        return self._process.returncode is None

    @property
    def told(self) -> str:
        """The last lines of its stderr."""
        return "\n".join(self._told) or "it says nothing"

    async def ended(self) -> int:
        """Wait for its end; gives the exit code."""
        return await self._process.wait()

    async def stop(self) -> None:
        """End it by SIGTERM, by another one that hurries it after 3 seconds, and by SIGKILL after 10 more."""
        for patience in (_DRAIN, _HURRY):
            self._signal(signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await self._process.wait()
                    break
        self._signal(signal.SIGKILL)
        await self._reap()

    async def kill(self) -> None:
        """End it by SIGKILL, as a crash would."""
        self._signal(signal.SIGKILL)
        await self._reap()

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            self._process.send_signal(number)

    async def _reap(self) -> None:
        await self._process.wait()
        await asyncio.gather(self._errors, return_exceptions=True)

    async def _ready(self) -> None:
        output = self._process.stdout
        while output is not None and (line := await output.readline()):
            if _is_ready(line):
                return
        await self._reap()
        raise ChildFailed(f"{self.name} ended at once: {self.told}")

    async def _listen(self) -> None:
        errors = self._process.stderr
        while errors is not None and (line := await errors.readline()):
            self._told = [*self._told[1 - _TOLD :], _sentence(line)]


def _is_ready(line: bytes) -> bool:
    try:
        told: Any = json.loads(line)
    except ValueError:
        return False
    return isinstance(told, dict) and told.get("ready") is True


def _sentence(line: bytes) -> str:
    text = line.decode(errors="replace").rstrip()
    try:
        told = json.loads(text)
    except ValueError:
        return text
    return f"{told['error']}: {told['message']}" if isinstance(told, dict) and "error" in told else text
