"""The guard through the public interface: what it holds up, what it lets through, and who may wait for what."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextvars import Context
from typing import Any

import pytest

from coordinator import GuardBusy, Reentry
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.support.watch import BOUND, seen


async def outside(call: Coroutine[Any, Any, object]) -> None:
    """Await a call as another client would: a task of the guard's body counts as inside it."""
    await asyncio.get_running_loop().create_task(call, context=Context())


async def test_wait_idle_waits_for_the_settlement_too(deployment: Deployment, puppet: Puppet) -> None:
    """Section 5.6: idle and settled; while the guard holds the settlement up, it waits."""
    session = await deployment.opened()
    await session.send("work")
    call = await puppet.next()
    async with session.guard(timeout=5):
        call.done()
        await seen(session, "session.status", status="idle")
        waiting = asyncio.create_task(outside(session.wait_idle(timeout=BOUND)))
        assert (await session.snapshot()).unsettled_turn == 1
        assert [row.unsettled_turn for row in await deployment.coord.sessions()] == [1]
        assert not waiting.done()
    await waiting
    assert (await session.snapshot()).unsettled_turn == 0
    assert [row.unsettled_turn for row in await deployment.coord.sessions()] == [0]


async def test_the_guard_holds_claims_and_settlements_up_and_lets_the_turn_end(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Section 8: one holder; send, output and finish never look at it; what waited goes on at its release."""
    session = await deployment.opened()
    await session.send("one")
    call = await puppet.next()
    async with session.guard(timeout=5) as guard:
        number = guard.number
        with pytest.raises(GuardBusy) as busy:
            await outside(session.guard(timeout=0).__aenter__())
        assert busy.value.retryable
        await session.send("two")
        call.done()
        await seen(session, "turn.ended", turn="1")
        await guard.check()
        assert (await session.snapshot()).turn == 1
        assert not puppet.is_asked
    (await puppet.next()).done()
    await session.wait_idle(timeout=BOUND)
    async with session.guard(timeout=5) as guard:
        assert guard.number > number
    await deployment.judged(session)


async def test_the_guard_alone_holds_a_claim_up_where_nothing_has_to_be_settled(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Policy `none`: the same worker runs another session's turn meanwhile, and not this one's next."""
    session, other = await deployment.opened(settlement="none"), await deployment.opened()
    await session.send("one")
    call = await puppet.next()
    await session.send("two")
    async with session.guard(timeout=5):
        call.done()
        await seen(session, "turn.settled", turn="1", outcome="none")
        await other.send("other")
        call = await puppet.next()
        assert call.bodies == ["other"]
        call.done()
        await seen(other, "turn.settled")
        view = await session.snapshot()
        assert (view.turn, view.status, view.waiting_for) == (1, "running", "guard")
    (await puppet.next()).done()
    await session.wait_idle(timeout=BOUND)
    await deployment.judged(session)


async def test_under_the_guard_waiting_for_it_or_for_the_session_is_refused_at_once(deployment: Deployment) -> None:
    """Also in the tasks that its body starts; another session is another matter, and so is the time after."""
    session, other = await deployment.opened(), await deployment.opened()
    async with session.guard(timeout=5), other.guard(timeout=5):
        for call in (session.wait_idle(timeout=5), other.wait_idle(timeout=5), session.guard().__aenter__()):
            with pytest.raises(Reentry):
                await call
        with pytest.raises(Reentry):
            await asyncio.create_task(session.wait_idle(timeout=5))
    await session.wait_idle(timeout=5)
