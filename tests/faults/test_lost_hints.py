"""Messages between processes that get lost: hints, doorbells, queue jobs. Each delays work, and loses none."""

from __future__ import annotations

import pytest

from coordinator.session import Session
from coordinator.streams.reading import read
from tests.faults.conftest import SHORT, Fleet
from tests.support.faulty import EVERY, FaultyStore
from tests.support.watch import BOUND, seen

MARGIN_MS = 1000
"""For two busy cores."""


async def delay_ms(session: Session, turn: int) -> int:
    """From the send that woke the session to the start of its turn, on the server's clock."""
    started = await seen(session, "turn.started", turn=str(turn))
    entries = [entry async for entry in session.history() if entry.type == "session.status" and entry.id < started.id]
    return int(started.fields["at_ms"]) - int(entries[-1].fields["at_ms"])


@pytest.mark.parametrize("settings_options", [{"placement": 30.0}])
async def test_a_lost_control_hint_costs_at_most_about_a_heartbeat(fleet: Fleet) -> None:
    """The worker's subscription is cut right before the send: the next renewal says `run`."""
    await fleet.start("w1")
    session = await fleet.opened()
    await fleet.ran(session)
    faulty = FaultyStore(fleet.coord.kernel.store)
    redis, control = fleet.coord.kernel.store.redis, fleet.coord.kernel.store.keys.control("w1")
    listening: list[int] = []

    async def cut() -> None:
        await redis.client_kill_filter(_type="pubsub")

    async def count() -> None:
        listening.append((await redis.pubsub_numsub(control))[0][1])

    faulty.before("send", cut)
    faulty.after("send", count)
    await fleet.ran(session)
    assert listening == [0]
    assert await delay_ms(session, 2) < SHORT["heartbeat"] * 1000 + MARGIN_MS
    assert len((await fleet.judged(session)).workers) == 1


async def test_a_lost_placement_is_offered_again_by_its_deadline(fleet: Fleet) -> None:
    """Job and doorbell are gone before any worker is there."""
    await fleet.start()
    store = fleet.coord.kernel.store
    session = await fleet.opened()
    sent = (await session.send("say hello")).message_id
    jobs = [name async for name in store.redis.scan_iter(match="arq:*")]
    assert await store.redis.delete(*jobs, store.keys.doorbell) == len(jobs) + 1 == 3
    await fleet.worker()
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, sent)
    assert [turn.reason for turn in oracle.turns.values()] == ["completed"]


async def test_a_lost_doorbell_costs_at_most_one_look_at_the_queue(fleet: Fleet) -> None:
    """The job is in the queue, and nobody was told: workers look about once a second."""
    await fleet.start("w1")
    session = await fleet.opened()
    fleet.coord.kernel.store.keys.doorbell = "rings-elsewhere"
    await fleet.ran(session)
    assert await read(fleet.coord.kernel.store, "LLEN", "rings-elsewhere") == 1
    assert await delay_ms(session, 1) < 1000 + MARGIN_MS
    await fleet.judged(session)


async def test_pub_sub_may_be_gone_altogether(fleet: Fleet) -> None:
    """With every hint cut before every script of the client, turns and waits go on by heartbeats."""
    await fleet.start("w1")
    session = await fleet.opened()
    store = fleet.coord.kernel.store
    faulty = FaultyStore(store)

    async def cut() -> None:
        await store.redis.client_kill_filter(_type="pubsub")

    faulty.before("send", cut, EVERY)
    sent = [(await session.send(f"say {number}")).message_id for number in range(5)]
    await session.wait_idle(timeout=BOUND)
    oracle = await fleet.judged(session, *sent)
    assert [turn.text for turn in oracle.turns.values()] == [str(number) for number in range(5)]
