"""An Agent class for tests: complete, obedient, and made to be changed in one method."""

from __future__ import annotations

from typing import ClassVar

from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd


class Recorder:
    """An Agent class; what the executions of one subclass are told is in its `calls`."""

    calls: ClassVar[list[str]]

    def __init_subclass__(cls) -> None:
        cls.calls = []

    def __init__(self) -> None:
        self.execution: Execution | None = None

    async def start(self, execution: Execution) -> None:
        self.calls.append(f"start {execution.resume_token or 'fresh'}")
        self.execution = execution
        execution.resume_token = execution.resume_token or "token-1"

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        self.calls.append(f"prompt {prompt.text}")
        await turn.accepted()
        return TurnEnd(prompt.ownership, resume_token="token-2")

    async def reset(self) -> None:
        self.calls.append("reset")

    async def stop(self) -> None:
        self.calls.append("stop")
