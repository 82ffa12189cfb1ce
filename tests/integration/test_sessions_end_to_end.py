"""Sessions through the public interface: ids and repeats, busy sessions, following, waiting, closing, the guard."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec
import pytest

from coordinator import (
    ConflictingRepeat,
    InvalidId,
    LogEntry,
    MessageTooLarge,
    SessionBusy,
    SessionClosed,
    SessionUnknown,
    UsageError,
)
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.support.keyspace import dump
from tests.support.watch import BOUND, told
from workers.agents.protocol import TurnEnd


async def test_a_message_id_sent_again_is_the_same_message(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch A13, G16: while it waits, while it runs and after it has run; with another text it is refused."""
    session = await deployment.opened()
    first = await session.send("work", message_id="m1")
    call = await puppet.next()
    running = await session.send("work", message_id="m1")
    call.done()
    await session.wait_idle(timeout=BOUND)
    after = await session.send("work", message_id="m1")
    assert (first.duplicate, running.duplicate, after.duplicate) == (False, True, True)
    assert {(one.sequence, one.placement) for one in (first, running, after)} == {(1, "started")}
    with pytest.raises(ConflictingRepeat, match="m1"):
        await session.send("other work", message_id="m1")
    assert (await session.snapshot()).status == "idle"
    assert len((await deployment.judged(session, "m1")).turns) == 1


async def test_bad_input_is_refused_with_nothing_written(deployment: Deployment) -> None:
    """Wake-latch A11, A12: one clear error each, and the keyspace is as it was."""
    session, redis = await deployment.opened(), deployment.coord.kernel.store.redis
    before = await dump(redis)
    with pytest.raises(InvalidId):
        deployment.coord.session("with space")
    with pytest.raises(InvalidId):
        await session.send("work", message_id="a:b")
    with pytest.raises(UsageError, match="empty"):
        await session.send("")
    with pytest.raises(MessageTooLarge, match="1048576"):
        await session.send("ä" * 600_000)
    unknown = deployment.coord.session("unknown")
    for call in (unknown.send("work"), unknown.snapshot(), unknown.wait_idle(timeout=1), unknown.close()):
        with pytest.raises(SessionUnknown, match="unknown"):
            await call
    with pytest.raises(SessionUnknown):
        async with unknown.guard(timeout=1):
            pass
    assert await dump(redis) == before


async def test_on_busy_says_what_a_session_that_is_not_idle_does(deployment: Deployment, puppet: Puppet) -> None:
    """enqueue: a later turn. steer: into this one. reject: nothing is written."""
    session = await deployment.opened()
    await session.send("work", on_busy="reject")
    call = await puppet.next()
    await session.send("later", on_busy="enqueue")
    await session.send("now", on_busy="steer")
    with pytest.raises(SessionBusy, match="running"):
        await session.send("never", on_busy="reject")
    assert await call.steered() == ["now"]
    call.done()
    call = await puppet.next()
    assert call.bodies == ["later"]
    call.done()
    await session.wait_idle(timeout=BOUND)
    assert len((await deployment.judged(session)).messages) == 3


async def test_a_follower_sees_history_then_what_happens_and_resumes_where_it_was(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Two followers, one of which starts late and one of which is interrupted, see the same entries once each."""
    session = await deployment.opened()

    async def follow(after: str = "0") -> list[LogEntry]:
        found: list[LogEntry] = []
        async with asyncio.timeout(BOUND), aclosing(session.follow(after)) as entries:
            async for entry in entries:
                found.append(entry)
                if entry.type == "turn.settled" or (after == "0" and entry.type == "agent.running"):
                    break
        return found

    early = asyncio.create_task(follow())
    await session.send("work")
    call = await puppet.next()
    first = await early
    rest = asyncio.create_task(follow(first[-1].id))
    await call.turn.emit("text")
    call.done()
    whole = first + await rest
    await session.wait_idle(timeout=BOUND)
    assert whole == [entry async for entry in session.history()]
    assert [entry.type for entry in first][:2] == ["session.opened", "inbox.inserted"]


async def test_waiting_has_its_callers_bound_and_changes_nothing(deployment: Deployment, puppet: Puppet) -> None:
    """A caller's own timeout raises TimeoutError and undoes nothing."""
    session = await deployment.opened()
    receipt = await session.send("work")
    call = await puppet.next()
    before = await told(session)
    with pytest.raises(TimeoutError):
        await session.wait_idle(timeout=0.05)
    with pytest.raises(TimeoutError):
        await session.result(receipt.message_id, timeout=0.05)
    assert await told(session) == before
    waiting = asyncio.create_task(session.wait_idle(timeout=BOUND))
    await session.send("more")
    call.done()
    (await puppet.next()).done()
    await waiting
    assert (await session.snapshot()).turn == 2


async def test_closing_discards_the_tail_and_lets_the_open_turn_end(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch E71, E75, G7: the tail never starts; afterwards the session refuses everything, also opening it."""
    session = await deployment.opened()
    await session.send("work")
    call = await puppet.next()
    tail = [(await session.send(body)).message_id for body in ("tail 1", "tail 2")]
    assert await session.close() == "closing"
    waiting = asyncio.create_task(session.wait_idle(timeout=BOUND))
    assert (await session.send("too late")).placement == "parked"
    assert not waiting.done()
    call.done()
    await waiting
    assert await session.close() == "closed"
    assert (await session.snapshot()).lifecycle == "closed"
    for refused in (session.send("more"), session.steer("more"), session.open()):
        with pytest.raises(SessionClosed):
            await refused
    assert not puppet.is_asked
    oracle = await deployment.judged(session, *tail)
    assert [oracle.messages[one].discarded for one in tail] == ["closed", "closed"]
    assert len(oracle.turns) == 1


async def test_two_who_close_at_once_close_once(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch E74: both are told the same, and there is one end."""
    session = await deployment.opened()
    await session.send("work")
    call = await puppet.next()
    assert set(await asyncio.gather(*(session.close() for _ in range(4)))) == {"closing"}
    call.done("error")
    await session.wait_idle(timeout=BOUND)
    assert set(await asyncio.gather(*(session.close() for _ in range(4)))) == {"closed"}
    assert await told(session, "session.closed") == ["session.closed"]
    await deployment.judged(session)


async def test_a_completion_after_the_close_brings_nothing_back(deployment: Deployment, puppet: Puppet) -> None:
    """Kandev L9: no event revives a closed session."""
    session = await deployment.opened()
    await session.send("work")
    call = await puppet.next()
    await session.close()
    call.done()
    await session.wait_idle(timeout=BOUND)
    before = await told(session)
    await call.turn.report(TurnEnd(call.prompt.ownership, "error"))
    stranger = msgspec.structs.replace(call.prompt.ownership, generation=9)
    assert await call.turn.report(TurnEnd(stranger)) is False
    assert (await session.snapshot()).lifecycle == "closed"
    assert await told(session) == [*before, "ready.stale"]
