"""What outlives the processes: what waits, the numbers, the place where a session lives, and late news of it."""

from __future__ import annotations

import asyncio

from coordinator import AgentBootReady, Orchestrator, Session, SettledTurn
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.support.watch import BOUND, seen, told


async def test_what_waits_survives_a_restart_and_starts_nothing_by_itself(deployment: Deployment) -> None:
    """Wake-latch F82, F83: still pending, no turn of its own; numbers go on where they were."""
    first, second = Puppet(), Puppet()
    end_replica = await deployment.replica()
    stop = await deployment.worker(first)
    session = await deployment.opened()
    await session.send("one")
    (await first.next()).done()
    await session.wait_idle(timeout=BOUND)
    await session.inject("ci is red")
    stop.ask()
    await seen(session, "agent.stopped")
    await end_replica()
    before = await told(session)
    await deployment.replica()
    await deployment.worker(second)
    assert await told(session) == before
    await session.send("two")
    call = await second.next()
    call.done()
    await session.wait_idle(timeout=BOUND)
    assert call.bodies == ["ci is red", "two"]
    oracle = await deployment.judged(session)
    assert [(turn.turn, turn.generation) for turn in oracle.turns.values()] == [(1, 1), (2, 2)]


async def test_a_session_stays_where_it_lives(deployment: Deployment) -> None:
    """Wake-latch F84, kandev A22: one execution at a time; with two workers every turn goes to the live one."""
    await deployment.replica()
    puppets = [Puppet(), Puppet()]
    for puppet in puppets:
        await deployment.worker(puppet.completes)
    session = await deployment.opened()
    for number in range(6):
        await session.send(f"m{number}")
        await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session)
    assert len(oracle.workers) == 1
    assert sorted(len(puppet.prompts) for puppet in puppets) == [0, 6]


async def test_a_waiting_worker_takes_over_what_another_gives_up(deployment: Deployment) -> None:
    """Section 9: a drained worker's idle execution is released, and the next turn resumes elsewhere at once."""
    await deployment.replica()
    first, second = Puppet(), Puppet()
    stop = await deployment.worker(first)
    session = await deployment.opened()
    await session.send("one")
    call = await first.next()
    await deployment.worker(second)
    await session.send("two")
    stop.ask()
    call.done()
    call = await second.next()
    call.done()
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session)
    assert [turn.reason for turn in oracle.turns.values()] == ["completed", "completed"]
    assert len({turn.execution_id for turn in oracle.turns.values()}) == 2


async def test_boot_ready_under_a_handler_evaluates_nothing_and_the_next_turn_waits_for_the_handler(
    deployment: Deployment,
) -> None:
    """Kandev A12, A24, A25: a new execution boots while a handler holds the guard; one evaluation a turn, in order."""
    orchestrator = Orchestrator(deployment.coord)
    evaluated: list[int] = []
    boots: list[str] = []
    entered, leave = asyncio.Event(), asyncio.Event()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        evaluated.append(turn.turn)
        entered.set()
        await leave.wait()

    @orchestrator.on_event("agent.boot_ready")
    async def boot(event: AgentBootReady, session: Session) -> None:
        boots.append(event.execution_id)

    await deployment.replica(orchestrator)
    first, second = Puppet(), Puppet()
    stop = await deployment.worker(first)
    session = await deployment.opened()
    await session.send("one")
    (await first.next()).done()
    async with asyncio.timeout(BOUND):
        await entered.wait()
        stop.ask()
        stopped = await seen(session, "agent.stopped")
        await deployment.worker(second)
        await session.send("two")
        booted = await seen(session, "agent.boot_ready", after=stopped.id)
    assert (evaluated, second.is_asked, (await session.snapshot()).turn) == ([1], False, 1)
    leave.set()
    (await second.next()).done()
    await session.wait_idle(timeout=BOUND)
    assert (evaluated, boots[1:]) == ([1, 2], [booted.fields["execution_id"]])
    await deployment.judged(session)


async def test_a_late_ready_says_what_it_was_born_with_and_changes_nothing(deployment: Deployment) -> None:
    """Kandev A6: two turns end before any replica reads; each ready still names its own turn."""
    puppet = Puppet()
    await deployment.worker(puppet)
    session = await deployment.opened(settlement="none")
    for body in ("one", "two"):
        await session.send(body)
        (await puppet.next()).done()
    await seen(session, "turn.settled", turn="2")
    before = await told(session)
    orchestrator = Orchestrator(deployment.coord)
    heard: asyncio.Queue[tuple[int, int]] = asyncio.Queue()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        heard.put_nowait((turn.turn, turn.generation))

    await deployment.replica(orchestrator)
    async with asyncio.timeout(BOUND):
        assert [await heard.get(), await heard.get()] == [(1, 1), (2, 2)]
    assert await told(session) == before
    await deployment.judged(session)
