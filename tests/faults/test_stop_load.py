"""Five hundred running sessions on two workers, stopped at once by two clients; a tenth ignores it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final, TypeVar

import pytest

from coordinator.session import Session
from tests.conftest import Spawn
from tests.faults.conftest import Fleet
from tests.support.watch import BOUND, seen

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
T = TypeVar("T")
SESSIONS: Final = 500
PARTS: Final = ((0, 300), (200, 500))
"""What each client stops: a hundred sessions are stopped by both."""
CANCEL: Final = 4.0
SWEEP: Final = 0.5
SLACK_MS: Final = 3000
"""For hundreds of endings in one sweep on two busy cores."""
SCRIPTED: Final = "workers.agents.scripted:agent"


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"cancel_timeout": CANCEL, "sweep": SWEEP, "heartbeat": 1.0, "lease": 10.0, "self_stop": 20.0}


def ignores(number: int) -> bool:
    """Whether the agent of this session ignores the stop."""
    return number % 10 == 0


async def all_of(work: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """So many at once as one client would do."""
    slots = asyncio.Semaphore(48)

    async def one(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    return await asyncio.gather(*map(one, work))


async def prompted(number: int, session: Session) -> list[str]:
    """Give a session a prompt that runs until it is stopped, and one in line."""
    await session.open()
    text = "hold end\nsay never" if not ignores(number) else "ignore-cancel\nhold end\nsay never"
    return [(await session.send(body)).message_id for body in (text, "say queued")]


async def took_ms(session: Session) -> list[int]:
    """How long each operation of a session took."""
    asked: dict[str, int] = {}
    found = []
    async for entry in session.history():
        if entry.type == "cancel.requested":
            asked.setdefault(entry.fields["operation_id"], int(entry.fields["at_ms"]))
        elif entry.type == "cancel.settled":
            found.append(int(entry.fields["at_ms"]) - asked.pop(entry.fields["operation_id"]))
    assert asked == {}
    return found


async def test_every_stop_under_load_ends_in_time_and_no_message_is_lost(fleet: Fleet, spawn: Spawn) -> None:
    """Each operation within its deadline and a sweep, nothing left running, every message in a turn of its own."""
    workers = [fleet.worker(name, agent=SCRIPTED, max_sessions=SESSIONS) for name in ("w1", "w2")]
    await asyncio.gather(*workers, fleet.replica())
    sessions = [fleet.coord.session(f"load-{number}") for number in range(SESSIONS)]
    sent = await all_of(partial(prompted, *one) for one in enumerate(sessions))
    await all_of(partial(seen, one, "agent.running") for one in sessions)
    clients = [await spawn(*map(str, part), program="tests.faults.stopper", env=fleet.env()) for part in PARTS]
    await fleet.gate("stop")
    for client in clients:
        await client.says("^done$", timeout=45)
    outcomes = [line.split()[-1] for client in clients for line in client.lines if line.startswith("outcome ")]
    assert len(outcomes) == sum(last - first for first, last in PARTS)
    for first, last in PARTS:
        for number in range(first, last):
            sent[number].append(f"after-{number}-{first}")
    # Whoever stopped last has sent something behind it: nothing stays parked.
    await all_of(partial(one.wait_idle, timeout=BOUND) for one in sessions)
    judged = await all_of(partial(fleet.judged, one, *sent[number]) for number, one in enumerate(sessions))
    took = [ms for found in await all_of(partial(took_ms, one) for one in sessions) for ms in found]
    print(f"outcomes {dict(Counter(outcomes))}; {len(took)} operations, the longest {max(took)} ms")
    assert max(took) < (CANCEL + SWEEP) * 1000 + SLACK_MS
    reasons = Counter((ignores(number), oracle.turns[1].reason) for number, oracle in enumerate(judged))
    assert reasons == {(False, "cancelled"): SESSIONS * 9 // 10, (True, "escalated"): SESSIONS // 10}
    messages = [message for oracle in judged for message in oracle.messages.values()]
    assert {(len(message.turns), message.discarded) for message in messages} == {(1, "")}
