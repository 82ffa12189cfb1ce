"""Workers that are full: of work, of executions that have nothing to do, and of both."""

from __future__ import annotations

from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.support.watch import BOUND, seen, told


async def test_a_worker_full_of_idle_executions_gives_up_the_one_that_was_idle_for_longest(
    deployment: Deployment,
) -> None:
    """A session that waits for a place does not wait for `idle_execution`; a busy one never loses its place."""
    await deployment.replica()
    full = Puppet()
    await deployment.worker(full, max_sessions=3)
    busy, older, newer, waiting = [await deployment.opened() for _ in range(4)]
    await busy.send("busy")
    call = await full.next()
    for session in (older, newer):
        await session.send("idle")
        (await full.next()).done()
        await session.wait_idle(timeout=BOUND)
    await waiting.send("waiting")
    (await full.next()).done()
    await waiting.wait_idle(timeout=BOUND)
    stopped = await seen(older, "agent.stopped")
    assert stopped.fields["reason"] == "its place is needed"
    assert await told(newer, "agent.stopped") == await told(busy, "agent.stopped") == []
    call.done()
    await busy.wait_idle(timeout=BOUND)
    for session in (busy, older, newer, waiting):
        await deployment.judged(session)


async def test_what_finds_no_place_anywhere_runs_as_soon_as_there_is_one(deployment: Deployment) -> None:
    """All are busy: it waits for a placement, visibly, and nobody is interrupted for it."""
    await deployment.replica()
    full = Puppet()
    await deployment.worker(full, max_sessions=2)
    first, second, waiting = [await deployment.opened() for _ in range(3)]
    calls = []
    for session in (first, second):
        await session.send("busy")
        calls.append(await full.next())
    await waiting.send("waiting")
    assert (await waiting.snapshot()).waiting_for == "placement"
    calls[0].done()
    (await full.next()).done()
    await waiting.wait_idle(timeout=BOUND)
    assert await told(second, "turn.ended", "agent.stopped") == []
    calls[1].done()
    for session in (first, second, waiting):
        await session.wait_idle(timeout=BOUND)
        await deployment.judged(session)
