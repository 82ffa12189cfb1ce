"""An agent that does what the test says, when it says so: each prompt is handed to the test, which ends it."""

from __future__ import annotations

import asyncio

import msgspec

from tests.support.watch import BOUND
from workers.agents.protocol import Prompt, Turn, TurnEnd


class Call(msgspec.Struct, frozen=True):
    """One prompt that is with the agent now."""

    prompt: Prompt
    turn: Turn
    outcome: asyncio.Future[TurnEnd | None]

    @property
    def bodies(self) -> list[str]:
        """What its messages say, in order."""
        return [message.body for message in self.prompt.messages]

    def done(self, reason: str = "completed", **fields: str) -> None:
        """End it as its agent would."""
        self.outcome.set_result(TurnEnd(self.prompt.ownership, reason, **fields))

    def returns(self, end: object) -> None:
        """End it with whatever an agent may return."""
        self.outcome.set_result(end)  # type: ignore[arg-type]

    def raises(self, error: Exception) -> None:
        """End it by an exception."""
        self.outcome.set_exception(error)

    async def steered(self) -> list[str]:
        """One step boundary: what was taken there."""
        return [message.body for message in await self.turn.take_steering()]


class Puppet:
    """The agent of a whole worker, as a plain async function. `await puppet.next()` is the barrier of most tests."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[Call] = asyncio.Queue()
        self.prompts: list[Prompt] = []

    async def __call__(self, prompt: Prompt, turn: Turn) -> TurnEnd | None:
        """Hand the prompt over and wait for its end."""
        call = Call(prompt, turn, asyncio.get_running_loop().create_future())
        self.prompts.append(prompt)
        self._calls.put_nowait(call)
        return await call.outcome

    async def completes(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Be an agent that asks nobody: only `prompts` tells what it got."""
        self.prompts.append(prompt)
        await turn.accepted()
        return TurnEnd(prompt.ownership)

    async def next(self) -> Call:
        """The next prompt that any session puts to it."""
        async with asyncio.timeout(BOUND):
            return await self._calls.get()

    @property
    def is_asked(self) -> bool:
        """Whether a prompt waits to be taken by the test."""
        return not self._calls.empty()
