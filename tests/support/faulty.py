"""A store whose calls to Redis fail where a test says so: before they arrive, or after they ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

import redis.exceptions

from coordinator.store.store import Store

EVERY: Final = 0
"""As an occurrence: each time, until `heal`."""
Hook = Callable[[], Awaitable[object]]
_Where = Literal["call", "reply", "before", "after"]


class FaultyStore:
    """Wraps a store in place, so that every service over it meets the faults; stands for the store itself too.

    Scripts are named as in `lua/`. An occurrence counts the times that this script is sent from now on, repeats after
    a fault included: 1 is the next one.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.sent: Counter[str] = Counter()
        """How often each script was sent, or should have been."""
        self._evaluate = store._evaluate
        self._plans: dict[tuple[_Where, str, int], Hook | None] = {}
        store._evaluate = self._faulty  # type: ignore[method-assign]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def drop_call(self, script: str, occurrence: int = 1) -> None:
        """Lose the call before it reaches Redis: refused, so that the caller knows it did not run."""
        self._plan("call", script, occurrence, None)

    def drop_reply(self, script: str, occurrence: int = 1) -> None:
        """Let the script run and lose its reply."""
        self._plan("reply", script, occurrence, None)

    def before(self, script: str, do: Hook, occurrence: int = 1) -> None:
        """Await `do()` just before the script is sent: the other side of a race."""
        self._plan("before", script, occurrence, do)

    def after(self, script: str, do: Hook, occurrence: int = 1) -> None:
        """Await `do()` after the script ran and before its caller knows."""
        self._plan("after", script, occurrence, do)

    def heal(self) -> None:
        """Forget every fault that has not happened yet."""
        self._plans.clear()

    @property
    def unused(self) -> list[tuple[str, str]]:
        """The planned faults that did not happen: (what, script). A test that ends with some proved nothing."""
        return [(where, script) for where, script, occurrence in self._plans if occurrence != EVERY]

    def _plan(self, where: _Where, script: str, occurrence: int, do: Hook | None) -> None:
        self._plans[where, script, occurrence and self.sent[script] + occurrence] = do

    async def _meet(self, where: _Where, script: str, number: int) -> bool:
        planned = self._plans.get((where, script, EVERY)) if (where, script, EVERY) in self._plans else None
        hit = (where, script, EVERY) in self._plans or (where, script, number) in self._plans
        do = self._plans.pop((where, script, number), planned)
        if do is not None:
            await do()
        return hit

    async def _faulty(self, script: Any, keys: list[str], argv: list[str | int]) -> list[Any]:
        name = script.name
        self.sent[name] += 1
        number = self.sent[name]
        await self._meet("before", name, number)
        if await self._meet("call", name, number):
            raise redis.exceptions.ConnectionError("Error 111 connecting to a test. Connection refused.")
        reply = await self._evaluate(script, keys, argv)
        await self._meet("after", name, number)
        if await self._meet("reply", name, number):
            raise redis.exceptions.ConnectionError("Connection closed by server.")
        return reply
