"""The agents that are measured: they do nothing, so that what is left is the product."""

from __future__ import annotations

import time
from typing import Final

from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd

WAIT: Final = "wait"


async def tiny(prompt: Prompt, turn: Turn) -> None:
    """Say one text."""
    await turn.emit("done")


class Stamping:
    """Says how many nanoseconds ago its prompt's text, a monotonic time of this machine, was.

    It is called as soon as the claim is answered, since the host does not accept for it. Told to wait it does so until
    its turn is stopped, and says what the time was when it knew.
    """

    async def start(self, execution: Execution) -> None:
        """Nothing to boot."""

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Look at the clock first."""
        if prompt.text == WAIT:
            await turn.accepted()
            await turn.cancelled.wait()
            await turn.emit(str(time.monotonic_ns()))
            return TurnEnd(prompt.ownership, "cancelled")
        now = time.monotonic_ns()
        await turn.emit(str(now - int(prompt.text)))
        return TurnEnd(prompt.ownership)

    async def reset(self) -> None:
        """Nothing is kept between prompts."""

    async def stop(self) -> None:
        """Nothing to end."""
