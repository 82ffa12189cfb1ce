"""The exit gap: a send that arrives while a driver ends is seen by it, or starts the next one. None is stranded.

The second test splits the exit into a look and a giving up, which strands messages: so the first one can fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator.services import Kernel
from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.embedded import EmbeddedServer
from coordinator.store.store import Store
from tests.faults.gap import bursts, hosting, split_exit
from tests.support.verdict import at_rest, examine

SESSIONS = 40
A_ROUND = 5
"""Messages: one that wakes, and two of each sender while its turn ends."""


@pytest.fixture
async def kernels(server: EmbeddedServer) -> AsyncIterator[tuple[Kernel, Kernel, Kernel]]:
    """A worker's kernel and two senders', each on connections of its own."""
    settings = Settings(redis_url=server.url, lease=120.0, self_stop=300.0)
    async with AsyncExitStack() as stack:
        made = []
        for _ in range(3):
            client = connections.coordination(settings.redis_url, settings, connections=64)
            stack.push_async_callback(client.aclose)
            made.append(Kernel(Store(client, settings)))
        yield made[0], made[1], made[2]


class Outcome(NamedTuple):
    """What came of a run."""

    stranded: int
    """Rounds after which a message sat on an idle session."""
    sent: int
    claimed: int
    went_on: int
    """Turns whose driver saw another message at its end, and went on."""
    began_anew: int
    """Running intervals: each was begun by a send that came after a driver's end."""


async def run(kernels: tuple[Kernel, Kernel, Kernel], sends: int, *, split: bool = False) -> Outcome:
    """Send so many messages against ending drivers."""
    worker, *senders = kernels
    rounds, went_on, began_anew = sends // SESSIONS // A_ROUND, 0, 0
    async with hosting(worker, SESSIONS, split=split) as host:
        stranded = await asyncio.gather(
            *(bursts(host, lane, (senders[0], senders[1]), rounds, name) for name, lane in host.lanes.items())
        )
        for lane in host.lanes.values():
            oracle = await examine(worker, lane.session_id, sent=lane.sent)
            # What was stranded shows as an awake message of an idle session, and as nothing else.
            rules = {violation.rule for violation in [*oracle.violations, *at_rest(oracle)]}
            assert rules <= {"10"}
            assert ("10" in rules) is (len(lane.claimed) < len(lane.sent))
            went_on += len(oracle.turns) - len(oracle.intervals)
            began_anew += len(oracle.intervals)
    sent = sum(len(lane.sent) for lane in host.lanes.values()) - SESSIONS
    claimed = sum(len(lane.claimed) for lane in host.lanes.values()) - SESSIONS
    return Outcome(sum(stranded), sent, claimed, went_on, began_anew - SESSIONS)


@pytest.mark.slow
@pytest.mark.parametrize("server_kind", ["bundled"], indirect=True)
async def test_ten_thousand_sends_against_ending_drivers_strand_none(
    kernels: tuple[Kernel, Kernel, Kernel],
) -> None:
    """Wake-latch G1: two senders, bursts, every driver just about to end."""
    outcome = await run(kernels, 10_000)
    assert (outcome.stranded, outcome.sent, outcome.claimed) == (0, 10_000, 10_000)
    # Both sides of the edge were met, and often: else the bursts were aimed badly.
    assert outcome.went_on > 1000
    assert outcome.began_anew > 2000 + 500


@pytest.mark.parametrize("server_kind", ["bundled"], indirect=True)
async def test_a_split_exit_strands_messages_so_the_test_above_can_fail(
    kernels: tuple[Kernel, Kernel, Kernel], tmp_path: Path
) -> None:
    """Two calls instead of one: what comes between them sits on an idle session that nobody looks at."""
    split_exit(kernels[0].store, tmp_path)
    outcome = await run(kernels, 1_000, split=True)
    assert outcome.sent == 1_000
    assert outcome.stranded > 0
