"""The agents that are measured: they do nothing, so that what is left is the product."""

from __future__ import annotations

import time

from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd


async def tiny(prompt: Prompt, turn: Turn) -> None:
    """Say one text."""
    await turn.emit("done")


class Stamping:
    """Says how many nanoseconds ago its prompt's text, a monotonic time of this machine, was.

    It is called as soon as the claim is answered, since the host does not accept for it.
    """

    async def start(self, execution: Execution) -> None:
        """Nothing to boot."""

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Look at the clock first."""
        now = time.monotonic_ns()
        await turn.emit(str(now - int(prompt.text)))
        return TurnEnd(prompt.ownership)

    async def reset(self) -> None:
        """Nothing is kept between prompts."""

    async def stop(self) -> None:
        """Nothing to end."""
