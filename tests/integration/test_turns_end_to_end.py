"""Prompts in, turns out, through the public interface: delivery, order, and what is decided at a turn's end."""

from __future__ import annotations

import random

import pytest

from coordinator import Session
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.support.watch import BOUND, seen, told
from workers.agents.protocol import Prompt, Turn, TurnEnd

STATUS_AND_TURNS = ("session.status", "turn.started", "turn.ended")


async def echo(prompt: Prompt, turn: Turn) -> TurnEnd | None:
    await turn.emit(f"echo: {prompt.text}")
    return None


async def test_a_prompt_becomes_one_turn_and_its_log_tells_it_in_order(deployment: Deployment) -> None:
    """Wake-latch A1, A15: inserted, started, claimed carry exactly that message, in that order."""
    await deployment.replica()
    await deployment.worker(echo)
    session = await deployment.opened()
    receipt = await session.send("hello")
    result = await session.result(receipt.message_id, timeout=BOUND)
    await session.wait_idle(timeout=BOUND)
    assert (receipt.placement, receipt.sequence, receipt.duplicate) == ("started", 1, False)
    assert (result.turn, result.generation, result.reason, result.text) == (1, 1, "completed", "echo: hello")
    assert await told(session) == [
        "session.opened", "inbox.inserted", "running", "agent.boot_ready", "turn.started", "inbox.claimed",
        "agent.running", "output", "turn.ended", "idle", "turn.settled",
    ]  # fmt: skip
    entries = [entry async for entry in session.history() if "message_id" in entry.fields]
    assert {entry.fields["message_id"] for entry in entries} == {receipt.message_id}
    await deployment.judged(session, receipt.message_id)


async def test_a_burst_is_a_turn_each_in_send_order_in_one_running_interval(deployment: Deployment) -> None:
    """Wake-latch A2: turn numbers 1 to n, one running and one idle in total, and `wait_idle` waits through it all."""
    await deployment.replica()
    await deployment.worker(echo)
    session = await deployment.opened()
    sent = [(await session.send(f"m{number}")).message_id for number in range(20)]
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session, *sent)
    assert [turn.messages for turn in oracle.turns.values()] == [[message_id] for message_id in sent]
    assert oracle.intervals == [list(range(1, 21))]


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_none_is_lost_or_merged_however_sends_and_waits_mix(deployment: Deployment, seed: int) -> None:
    """Wake-latch A3, A4: numbers keep rising and order is kept, whether senders wait in between or not."""
    mix = random.Random(seed)  # noqa: S311 - picks cases, keeps no secret
    await deployment.replica()
    await deployment.worker(echo)
    session = await deployment.opened()
    sent = []
    for number in range(15):
        sent.append((await session.send(f"m{number}")).message_id)
        if mix.random() < 0.4:
            await session.wait_idle(timeout=BOUND)
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session, *sent)
    assert [turn.messages for turn in oracle.turns.values()] == [[message_id] for message_id in sent]
    texts = [turn.text for turn in oracle.turns.values()]
    assert texts == [f"echo: m{number}" for number in range(15)]


async def test_a_second_prompt_while_a_turn_runs_is_a_turn_of_its_own(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch A5: they are not merged."""
    session = await deployment.opened()
    await session.send("first")
    first = await puppet.next()
    assert (await session.send("second")).placement == "queued"
    first.done()
    second = await puppet.next()
    second.done()
    await session.wait_idle(timeout=BOUND)
    assert (first.bodies, second.bodies) == (["first"], ["second"])
    assert (await deployment.judged(session)).intervals == [[1, 2]]


async def test_what_a_turn_sends_to_its_own_session_runs_after_it(deployment: Deployment) -> None:
    """Wake-latch A6: turn 2 opens after turn 1 was closed."""

    async def agent(prompt: Prompt, turn: Turn) -> TurnEnd | None:
        if prompt.text == "first":
            await turn.session.send("second")
        await turn.emit(prompt.text)
        return None

    await deployment.replica()
    await deployment.worker(agent)
    session = await deployment.opened()
    await session.send("first")
    await seen(session, "turn.ended", turn="2")
    await session.wait_idle(timeout=BOUND)
    assert await told(session, *STATUS_AND_TURNS) == [
        "running", "turn.started", "turn.ended", "turn.started", "turn.ended", "idle",
    ]  # fmt: skip


async def test_steering_reaches_the_open_turn_at_its_next_boundary(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch A7, A8, B22: its first prompt has what was there, each boundary what came since."""
    session = await deployment.opened()
    await session.steer("steer 1")
    call = await puppet.next()
    await session.steer("steer 2")
    await session.inject("inject 1")
    assert await call.steered() == ["steer 2", "inject 1"]
    assert await call.steered() == []
    await session.inject("inject 2")
    assert await call.steered() == ["inject 2"]
    call.done()
    await session.wait_idle(timeout=BOUND)
    assert call.bodies == ["steer 1"]
    assert len((await deployment.judged(session)).turns) == 1


async def test_an_inject_on_an_idle_session_waits_for_the_next_prompt(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch A9: one insertion, no status, no turn; the later prompt's first request has it, in front."""
    session = await deployment.opened()
    assert (await session.inject("ci is red")).placement == "parked"
    assert await told(session) == ["session.opened", "inbox.inserted"]
    await session.send("go on")
    call = await puppet.next()
    call.done()
    await session.wait_idle(timeout=BOUND)
    assert call.bodies == ["ci is red", "go on"]


async def test_a_message_that_does_not_wake_is_an_older_prompt_at_the_next_wake(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Wake-latch 2.2: it stays parked on an idle session, and a driver that runs takes it, first in first out."""
    session = await deployment.opened()
    assert (await session.send("later", wake=False)).placement == "parked"
    assert (await session.snapshot()).status == "idle"
    await session.send("now")
    for body in ("later", "now"):
        call = await puppet.next()
        assert call.bodies == [body]
        call.done()
    await session.wait_idle(timeout=BOUND)


async def test_steering_after_the_last_boundary_gets_the_next_turn(deployment: Deployment, puppet: Puppet) -> None:
    """Wake-latch B26: it is not lost, and the session does not become idle in between."""
    session = await deployment.opened()
    await session.send("work")
    call = await puppet.next()
    assert await call.steered() == []
    await session.steer("one more thing")
    call.done()
    call = await puppet.next()
    assert call.bodies == ["one more thing"]
    call.done()
    await session.wait_idle(timeout=BOUND)
    assert (await deployment.judged(session)).intervals == [[1, 2]]


@pytest.mark.parametrize("reason", ["error", "blocked"])
async def test_a_refused_prompt_parks_the_queue_until_the_next_wake(
    deployment: Deployment, puppet: Puppet, reason: str
) -> None:
    """Wake-latch B16 to B18: consumed itself; what waits stays in order, and the next wake runs all of it."""
    session = await deployment.opened()
    await session.send("refused")
    call = await puppet.next()
    await session.send("queued")
    await session.inject("inject")
    await session.steer("steer")
    call.done(reason)
    await session.wait_idle(timeout=BOUND)
    view = await session.snapshot()
    assert [entry.body for entry in (*view.inbox.next_turn, *view.inbox.next_step)] == ["queued", "inject", "steer"]
    assert not puppet.is_asked
    await session.send("wake")
    seen_bodies = []
    for _ in range(2):
        call = await puppet.next()
        seen_bodies.append(call.bodies)
        call.done()
    await session.wait_idle(timeout=BOUND)
    assert seen_bodies == [["inject", "steer", "queued"], ["wake"]]
    await deployment.judged(session)


async def test_an_agent_that_steers_itself_and_then_fails_leaves_the_steering_parked(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Wake-latch B19, B20, E81: one error, a waiter resolves; the next wake includes what was parked."""
    session = await deployment.opened()
    await session.send("work")
    call = await puppet.next()
    await call.turn.session.steer("look at the logs")
    call.raises(RuntimeError("boom"))
    await session.wait_idle(timeout=BOUND)
    ended = await seen(session, "turn.ended")
    assert (ended.fields["reason"], ended.fields["error"]) == ("error", "RuntimeError: boom")
    await session.send("again")
    call = await puppet.next()
    assert call.bodies == ["look at the logs", "again"]
    call.done()
    await session.wait_idle(timeout=BOUND)


async def test_a_session_that_goes_on_after_errors_restarts_visibly(deployment: Deployment, puppet: Puppet) -> None:
    """Section 5.4, row 3, with `after_error="continue"`: idle and running are both logged between the turns."""
    session: Session = await deployment.opened(after_error="continue")
    await session.send("bad")
    call = await puppet.next()
    await session.send("good")
    call.done("error")
    (await puppet.next()).done()
    await session.wait_idle(timeout=BOUND)
    assert (await deployment.judged(session)).intervals == [[1], [2]]


async def test_a_token_limit_is_a_natural_end_and_does_not_leak_into_the_next_turn(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Wake-latch B27."""
    session = await deployment.opened()
    await session.send("long")
    call = await puppet.next()
    await session.send("short")
    call.done("max_tokens")
    (await puppet.next()).done()
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session)
    assert [turn.reason for turn in oracle.turns.values()] == ["max_tokens", "completed"]
    assert oracle.intervals == [[1, 2]]
