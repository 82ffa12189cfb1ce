"""Agents of every allowed shape, and what becomes of a turn when one does what it should not."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from coordinator import MessageNotPending, Reentry
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.integration.recorder import Recorder
from tests.support.watch import BOUND, seen, told
from workers.agents.protocol import Prompt, Turn, TurnEnd


async def test_an_agent_class_is_started_once_and_told_what_to_resume_from(deployment: Deployment) -> None:
    """One object an execution; a later execution gets the newest resume token, of start or of a turn's end."""

    class Plain(Recorder):
        pass

    await deployment.replica()
    first = await deployment.worker(Plain)
    session = await deployment.opened()
    for text in ("one", "two"):
        await session.result((await session.send(text)).message_id, timeout=BOUND)
    await session.wait_idle(timeout=BOUND)
    first.ask()
    await seen(session, "agent.stopped")
    await deployment.worker(Plain)
    await session.result((await session.send("three")).message_id, timeout=BOUND)
    await session.wait_idle(timeout=BOUND)
    assert Plain.calls == ["start fresh", "prompt one", "prompt two", "stop", "start token-2", "prompt three"]
    oracle = await deployment.judged(session)
    assert len(oracle.workers) == 2


async def test_an_exception_ends_the_turn_as_an_error_and_the_next_turn_works(
    deployment: Deployment, puppet: Puppet
) -> None:
    """The execution is kept; the message is consumed."""
    session = await deployment.opened()
    receipt = await session.send("bad")
    (await puppet.next()).raises(ValueError("no such file"))
    result = await session.result(receipt.message_id, timeout=BOUND)
    assert (result.reason, result.error) == ("error", "ValueError: no such file")
    await session.send("good")
    (await puppet.next()).done()
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session)
    assert len(oracle.workers) == 1


@pytest.mark.parametrize("part", ["execution_id", "generation", "claim_id"])
async def test_an_end_with_another_prompts_ownership_is_found_out(
    deployment: Deployment, puppet: Puppet, part: str
) -> None:
    """Kandev A16, A23: an adapter that mixes prompts up completes nothing with the wrong triple."""
    session = await deployment.opened()
    receipt = await session.send("work")
    call = await puppet.next()
    wrong: dict[str, Any] = {part: 99 if part == "generation" else "another"}
    call.returns(TurnEnd(msgspec.structs.replace(call.prompt.ownership, **wrong)))
    result = await session.result(receipt.message_id, timeout=BOUND)
    assert result.reason == "error"
    assert "the end of another" in result.error
    await session.wait_idle(timeout=BOUND)
    await deployment.judged(session)


@pytest.mark.parametrize("end", ["done", 7, None, TurnEnd])
async def test_what_is_no_end_of_a_turn_is_an_error_that_says_so(
    deployment: Deployment, puppet: Puppet, end: object
) -> None:
    """None is the plain function's way to say completed; a reason that is not an agent's to give is refused."""
    session = await deployment.opened()
    receipt = await session.send("work")
    call = await puppet.next()
    call.returns(TurnEnd(call.prompt.ownership, "escalated") if end is TurnEnd else end)
    result = await session.result(receipt.message_id, timeout=BOUND)
    assert result.reason == ("completed" if end is None else "error")
    assert bool(result.error) is (end is not None)


async def test_big_output_arrives_whole_in_pieces_that_followers_can_bear(
    deployment: Deployment, puppet: Puppet
) -> None:
    """No entry is over 16 KiB of UTF-8, no character is cut, and nothing is lost or doubled."""
    session = await deployment.opened()
    receipt = await session.send("work")
    call = await puppet.next()
    parts = ["x" * 100_000, "äöü€😀" * 20_000, *(f"line {number}\n" for number in range(2000))]
    for part in parts:
        await call.turn.emit(part)
    call.done()
    result = await session.result(receipt.message_id, timeout=BOUND)
    assert result.text == "".join(parts)
    sizes = [len(entry.fields["text"].encode()) async for entry in session.history() if entry.type == "output"]
    assert max(sizes) <= 16 * 1024
    await session.wait_idle(timeout=BOUND)
    await deployment.judged(session)


async def test_inside_a_turn_waiting_for_that_turn_is_refused_at_once(deployment: Deployment) -> None:
    """Wake-latch G18: also from tasks that the turn starts; sending, reading and other sessions are free."""
    refused: list[str] = []
    other = await deployment.opened()

    async def agent(prompt: Prompt, turn: Turn) -> TurnEnd | None:
        session, message_id = turn.session, prompt.messages[0].message_id
        tries = {
            "wait_idle": session.wait_idle(),
            "result": session.result(message_id),
            "close": session.close(),
            "guard": session.guard().__aenter__(),
            "in a task": asyncio.create_task(session.wait_idle()),
        }
        for name, call in tries.items():
            try:
                await call
            except Reentry:
                refused.append(name)
        await session.inject(f"{(await session.snapshot()).open_turn}")
        await deployment.coord.session(other.id).wait_idle(timeout=5)
        return None

    await deployment.replica()
    await deployment.worker(agent)
    session = await deployment.opened()
    receipt = await session.send("work")
    result = await session.result(receipt.message_id, timeout=BOUND)
    assert (result.reason, result.error) == ("completed", "")
    assert refused == ["wait_idle", "result", "close", "guard", "in a task"]


async def test_what_an_agent_says_after_its_turn_has_ended_is_refused(deployment: Deployment, puppet: Puppet) -> None:
    """Kandev L8: late frames change nothing."""
    session = await deployment.opened()
    receipt = await session.send("work")
    call = await puppet.next()
    call.done()
    await session.result(receipt.message_id, timeout=BOUND)
    await session.wait_idle(timeout=BOUND)
    before = await told(session)
    with pytest.raises(Exception, match="ended"):
        await call.turn.emit("late")
    assert await told(session) == before
    with pytest.raises(MessageNotPending):
        await session.result("never-sent", timeout=1)
