"""Public bug reports that concern stopping, tried one by one: B16 to B20, B24, B25. B22 and B27 are with the workers.

Each docstring says what the naive version does.
"""

from __future__ import annotations

import asyncio

import pytest

from coordinator import Reentry
from coordinator.domain.errors import GuardBusy
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Resident, Scene, aborted
from tests.support.faulty import FaultyStore
from tests.support.watch import BOUND, seen
from workers.agents.protocol import TurnEnd


async def test_b16_a_lost_completion_blocks_neither_prompts_nor_stops(deployment: Deployment) -> None:
    """B16. Naive: the state leaves RUNNING by one event only; when that is lost, stops and restarts don't help.

    Here the completion never comes, and the only replica is new.
    """
    agent = Puppet()
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    await scene.run("one")
    await scene.send("two")
    stop = await scene.cancel()
    await scene.send("three")
    await deployment.replica()
    assert await scene.outcome(stop) == "escalated"
    await scene.goes_on("two", "three")
    assert [taken for _, taken in await scene.turns()] == ["one", "two", "three"]


async def test_b16_a_ready_that_was_trimmed_away_is_found_by_its_deadline(deployment: Deployment) -> None:
    """B16, the other half: the turn ended, and the entry that says so is gone; nothing is stuck, also no stop."""
    agent = Puppet()
    await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    (await scene.run("one", "two")).done()
    await seen(scene.session, "turn.ended")
    keys = scene.kernel.store.keys.session(scene.session.id)
    await scene.kernel.store.redis.xtrim(keys["events"], maxlen=0, approximate=False)
    assert (await scene.cancel()).known == "cancelled"
    await scene.send("three")
    assert (await scene.session.snapshot()).waiting_for == "settlement"
    assert any(one.kind == "settlement" for one in (await scene.session.snapshot()).deadlines)


async def test_b17_a_guard_that_is_held_keeps_no_stop_away(scene: Scene) -> None:
    """B17. Naive: the dispatch holds the guard until its prompt is accepted, and the stop waits for the guard.

    Here the driver waits for the holder, the holder for nobody, and a stop looks at no guard.
    """
    (await scene.run("one")).done()
    await scene.idle()
    async with scene.session.guard(timeout=BOUND):
        await scene.send("two")
        await seen(scene.session, "session.status", status="running")
        other = scene.deployment.coord.session(scene.session.id)
        async with asyncio.timeout(BOUND):
            ticket = await other.cancel()
        assert ticket.known == "cancelled"
    assert await scene.pending() == ["two"]
    assert not scene.puppet.is_asked


async def test_b18_a_guard_taken_twice_in_one_task_is_refused_at_once(scene: Scene) -> None:
    """B18. Naive: a subscriber under the guard takes it again, and both wait for ever. Elsewhere: bounded."""
    async with scene.session.guard(timeout=BOUND):
        with pytest.raises(Reentry):
            await scene.session.guard(timeout=BOUND).__aenter__()
    await scene.kernel.guards.acquire(scene.session.id, "another-process")
    with pytest.raises(GuardBusy):
        await scene.session.guard(timeout=0.05).__aenter__()


async def test_b19_a_wake_during_the_stop_is_replayed_by_whoever_ends_the_turn(resident: Scene) -> None:
    """B19. Naive: it sees `still running`, and nobody looks again. Sent right before and right after the end."""
    call = await resident.run("one")
    assert isinstance(resident.puppet, Resident)
    stop, faulty = await resident.cancel(), resident.puppet.faulty

    async def send(text: str) -> None:
        await resident.send(text)

    faulty.before("finish", lambda: send("before"))
    faulty.after("finish", lambda: send("after"))
    await aborted(call)
    call.done("cancelled")
    await resident.outcome(stop)
    await resident.goes_on("before", "after")
    assert faulty.unused == []
    await resident.judged()


@pytest.mark.parametrize("keep", [True, False])
async def test_b20_a_stop_says_what_becomes_of_the_queue_and_that_happens(scene: Scene, keep: bool) -> None:
    """B20. Naive: shown, stored, and never answered. Here kept in order and run once, or each discarded visibly."""
    call = await scene.run("one", "m2", "m3")
    await scene.cancelled(call, keep_inbox=keep)
    await scene.idle()
    assert await scene.pending() == ["m2", "m3"] * keep
    await scene.send("wake")
    await scene.goes_on(*["m2", "m3"] * keep, "wake")
    oracle = await scene.judged()
    assert [one.discarded for one in oracle.messages.values()] == ["", *["" if keep else "cancelled"] * 2, ""]


async def test_b24_every_stop_gets_an_answer(deployment: Deployment, scene: Scene) -> None:
    """B24. Naive: the second one waits for an event that can't come. Settled: at once; at the same time: one ticket."""
    call = await scene.run("one")
    first, second = await asyncio.gather(scene.cancel(), scene.cancel())
    assert first.id == second.id
    await aborted(call)
    call.done("cancelled")
    assert {await first.outcome(), await second.outcome()} == {"cancelled"}
    async with asyncio.timeout(BOUND):
        assert await (await scene.cancel()).outcome() == "idle"
        assert await deployment.coord.session(scene.session.id).ticket(first.id).outcome() == "cancelled"
    await scene.judged()


async def test_b24_a_stop_whose_answer_was_lost_gets_the_first_answer(scene: Scene) -> None:
    """B24: the repeat finds its own receipt; neither a second operation nor a stop of the turn that came after."""
    call, faulty = await scene.run("one"), FaultyStore(scene.kernel.store)

    async def end_and_go_on() -> None:
        await aborted(call)
        call.done("cancelled")
        await seen(scene.session, "cancel.settled")
        await scene.send("two")
        await seen(scene.session, "turn.started", turn="2")

    faulty.after("cancel", end_and_go_on)
    faulty.drop_reply("cancel")
    assert await scene.outcome(await scene.cancel()) == "cancelled"
    assert faulty.unused == []
    await scene.goes_on("two")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two")]


async def test_b25_every_end_is_one_event_of_one_type(deployment: Deployment) -> None:
    """B25. Naive: watchers know `complete` only, and an aborted turn runs for ever. An unknown kind is an error."""
    agent = Puppet()
    await deployment.replica()
    leaving = await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    for reason in ("completed", "max_tokens", "error", "blocked", "cancelled", "as the agent pleases"):
        call = await scene.run("go on")
        call.returns(TurnEnd(call.prompt.ownership, reason))
        await scene.idle()
    await scene.run("ignore")
    await scene.outcome(await scene.cancel())
    await scene.idle()
    await scene.run("leave")
    leaving.ask()
    leaving.ask()
    oracle = await scene.judged()
    assert [turn.reason for turn in oracle.turns.values()] == [
        "completed", "max_tokens", "error", "blocked", "cancelled", "error", "escalated", "interrupted",
    ]  # fmt: skip
    kinds = await scene.told("turn.started", "turn.ended", "turn.settled")
    assert kinds.count("turn.started") == kinds.count("turn.ended") == kinds.count("turn.settled") == 8
