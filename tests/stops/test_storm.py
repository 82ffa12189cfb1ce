"""Everything at once: clients that send, stop, replace and edit by chance, agents that obey, dawdle, ignore or fail.

Replies are lost on the way, hints too. Whatever happens, the oracle finds every rule kept, and nothing is left.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import AsyncExitStack
from typing import Final

import pytest

from coordinator import Coordinator, Session
from coordinator.domain.errors import ContentionError, MessageNotPending, OutcomeUnknown, OwnershipError
from coordinator.domain.ids import new_id
from tests.integration.conftest import Deployment
from tests.support.faulty import FaultyStore
from tests.support.watch import BOUND
from workers.agents.protocol import DispatchFailed, Execution, Prompt, Turn, TurnEnd

pytestmark = [pytest.mark.slow]
SESSIONS: Final = 5
ACTS: Final = 150
SEEDS: Final = 2
REPEATED: Final = ("send", "cancel", "put_first", "finish", "claim", "output", "step", "boot", "escalate")
"""Scripts whose replies are lost now and then, and calls too."""
EXPECTED: Final = (ContentionError, MessageNotPending, OutcomeUnknown, OwnershipError)


class Moody:
    """An agent by chance."""

    def __init__(self, mix: random.Random) -> None:
        self._mix = mix
        self.faulty: list[FaultyStore] = []

    def make(self) -> Moody:
        """One for all executions."""
        return self

    async def start(self, execution: Execution) -> None:
        """Boot, and let the worker's store fail from now on."""
        if not self.faulty:
            self.faulty.append(FaultyStore(execution.store))

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Do something of what agents do."""
        mood = self._mix.random()
        self._lose()
        if mood < 0.05:
            raise DispatchFailed("not now")
        await turn.accepted()
        if mood < 0.1:
            raise ValueError("no good")
        if mood < 0.86:
            await self._until(turn, self._mix.random() * 0.2)
        if mood < 0.2:
            await turn.emit("x" * self._mix.randrange(1, 3000))
            await turn.take_steering()
        if mood > 0.93:
            # Ignores whatever it is told, until it is cancelled.
            await self._until(None, 1.5)
        if mood > 0.86:
            await self._until(turn, 1.5)
            await turn.cannot_cancel("it has no way")
        if turn.cancelled.is_set() and self._mix.random() < 0.8:
            return TurnEnd(prompt.ownership, "cancelled")
        return TurnEnd(
            prompt.ownership, self._mix.choice(("completed", "completed", "completed", "max_tokens", "blocked"))
        )

    async def _until(self, turn: Turn | None, seconds: float) -> None:
        waits = turn.cancelled.wait() if turn is not None else asyncio.Event().wait()
        try:
            await asyncio.wait_for(waits, seconds)
        except TimeoutError:
            return

    def _lose(self) -> None:
        for faulty in self.faulty:
            lose(faulty, self._mix)

    async def reset(self) -> None:
        """Nothing."""

    async def stop(self) -> None:
        """Nothing."""


def lose(faulty: FaultyStore, mix: random.Random) -> None:
    """Lose an answer or a call soon."""
    (faulty.drop_reply if mix.random() < 0.7 else faulty.drop_call)(mix.choice(REPEATED), mix.randrange(1, 4))


class Client:
    """One client of all sessions; its methods without an underscore are what it may do."""

    def __init__(self, coord: Coordinator, mix: random.Random) -> None:
        self._coord = coord
        self._mix = mix
        self._faulty = FaultyStore(coord.kernel.store)
        self.sent: dict[str, list[str]] = {}
        self.refused: Counter[str] = Counter()

    async def _run(self, names: list[str], acts: int) -> None:
        known = [name for name in vars(Client) if not name.startswith("_")]
        for _ in range(acts):
            session, act = self._coord.session(self._mix.choice(names)), self._mix.choice(known)
            if self._mix.random() < 0.2:
                lose(self._faulty, self._mix)
            try:
                await getattr(self, act)(session)
            except EXPECTED as error:
                self.refused[type(error).__name__] += 1
            await asyncio.sleep(self._mix.random() * 0.02)

    def _mine(self, session: Session, message_id: str = "") -> str:
        message_id = message_id or new_id("m")
        self.sent.setdefault(session.id, []).append(message_id)
        return message_id

    async def _some(self, session: Session, number: int) -> list[str]:
        inbox = (await session.snapshot()).inbox
        pending = [one.message_id for one in (*inbox.next_turn, *inbox.next_step)]
        return self._mix.sample(pending, min(number, len(pending)))

    async def send(self, session: Session) -> None:
        """A prompt."""
        self._mine(session, (await session.send("work")).message_id)

    async def send_quietly(self, session: Session) -> None:
        """A prompt that does not wake."""
        self._mine(session, (await session.send("work", wake=False)).message_id)

    async def steer(self, session: Session) -> None:
        """Something for the running turn, waking or not."""
        self._mine(session, (await self._mix.choice((session.steer, session.inject))("look")).message_id)

    async def stop(self, session: Session) -> None:
        """A person's stop, broad now and then; sometimes its end is waited for."""
        ticket = await session.cancel(keep_inbox=self._mix.random() < 0.8)
        if self._mix.random() < 0.3:
            await ticket.outcome(timeout=BOUND)

    async def stop_otherwise(self, session: Session) -> None:
        """Another's stop."""
        await session.cancel(kind=self._mix.choice(("parent", "silent", "system")))

    async def replace(self, session: Session) -> None:
        """Send now."""
        self._mine(session, (await session.replace("instead")).message_id)

    async def replace_by_chosen(self, session: Session) -> None:
        """Send now what is in line."""
        if chosen := await self._some(session, 2):
            await session.replace(entries=chosen)

    async def interrupt(self, session: Session) -> None:
        """A parent that means what it has seen."""
        generation = (await session.snapshot()).generation or None
        self._mine(session, (await session.interrupt("listen", expected_generation=generation)).message_id)

    async def edit(self, session: Session) -> None:
        """Remove, steer, or move something."""
        for one in await self._some(session, 1):
            await self._mix.choice((session.inbox.remove, session.inbox.steer, session.inbox.move))(one)

    async def reorder(self, session: Session) -> None:
        """Move one before another."""
        if len(both := await self._some(session, 2)) == 2:
            await session.inbox.move(both[0], before=both[1])

    async def maintain(self, session: Session) -> None:
        """A short job."""
        async with session.maintain("job"):
            await asyncio.sleep(0.01)

    async def stop_and_prompt(self, session: Session) -> None:
        """Both under the guard."""
        async with session.guard(timeout=BOUND) as guard:
            await (await guard.cancel()).outcome(timeout=BOUND)
            turn = await guard.prompt("under the guard", timeout=3)
            self._mine(session, turn.message_id)


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_storm_breaks_no_rule(deployment: Deployment, seed: int) -> None:
    """Invariants 1 to 13, on a real server, with two workers, two replicas and three clients."""
    mix = random.Random(seed)  # noqa: S311 - which storm it is
    for _ in range(2):
        await deployment.replica()
        await deployment.worker(Moody(random.Random(mix.random())).make)  # noqa: S311 - the same
    sessions = [await deployment.opened(settlement=("required", "none")[number % 2]) for number in range(SESSIONS)]
    names = [session.id for session in sessions]
    async with AsyncExitStack() as stack:
        coords = [await stack.enter_async_context(Coordinator.connect(deployment.coord.settings)) for _ in range(3)]
        clients = [Client(coord, random.Random(mix.random())) for coord in coords]  # noqa: S311 - the same
        await asyncio.gather(*(client._run(names, ACTS) for client in clients))
    reasons: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    for session in sessions:
        if mix.random() < 0.5:
            await session.close()
        await session.wait_idle(timeout=BOUND)
        # What is parked is given up: the last look is at a session at rest.
        if (await session.snapshot()).lifecycle == "open":
            await session.inbox.clear()
        sent = [one for client in clients for one in client.sent.get(session.id, [])]
        oracle = await deployment.judged(session, *sent)
        reasons.update(turn.reason for turn in oracle.turns.values())
        outcomes.update(oracle.operations.outcomes.values())
    refused = sum((client.refused for client in clients), Counter())
    print(f"turns {dict(reasons)}, operations {dict(outcomes)}, refused {dict(refused)}")
    assert min(reasons["completed"], reasons["cancelled"], reasons["escalated"], *outcomes.values()) > 0
