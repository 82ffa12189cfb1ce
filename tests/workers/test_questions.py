"""Questions of a turn: asked, answered, and closed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.errors import MessageInvalid, QuestionClosed, StoreUnavailable, Superseded
from coordinator.services.questions import Questions
from coordinator.settings import Settings
from tests.workers.rig import Puppet, asked, expire, replaced, rig, until
from workers.agents.protocol import Prompt, Turn, TurnEnd

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


SLOW: dict[str, Any] = {"heartbeat": 20.0, "lease": 60.0, "self_stop": 90.0, "maintenance_lease": 60.0}


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


async def asks(prompt: Prompt, turn: Turn) -> None:
    """Ask what the prompt says, and say what was answered."""
    await turn.emit("well, ")
    await turn.emit(await turn.ask(prompt.text))


async def test_an_answer_reaches_the_agent_that_waits(settings: Settings) -> None:
    """What was said before is in the log before; one turn it is."""
    async with rig(settings, asks) as deployment:
        session = deployment.coord.session("s")
        await deployment.send("s", "which colour?")
        question_id = await asked(deployment)
        assert await deployment.said("s") == "well, "
        assert (await session.answer(question_id, "blue")).placement == "delivered"
        assert await deployment.ends("s") == ["completed"]
        assert await deployment.said("s") == "well, blue"
        with pytest.raises(QuestionClosed):
            await session.answer(question_id, "red")


async def test_an_answer_comes_by_hint_and_not_by_looking(settings: Settings) -> None:
    """A heartbeat could be a minute."""
    async with rig(replaced(settings, **SLOW), asks) as found:
        await found.send("s", "which colour?")
        question_id = await asked(found)
        await asyncio.sleep(0.1)
        await found.coord.session("s").answer(question_id, "blue")
        assert await found.ends("s") == ["completed"]


async def test_a_heartbeat_after_a_lost_hint_the_answer_is_there(settings: Settings, monkeypatch: Any) -> None:
    """The question asks again by itself."""
    monkeypatch.setattr("workers.telling.Telling.answered", lambda *_: None)
    async with rig(settings, asks) as deployment:
        await deployment.send("s", "which colour?")
        await deployment.coord.session("s").answer(await asked(deployment), "blue")
        assert await deployment.said("s") in {"well, ", "well, blue"}
        assert await deployment.ends("s") == ["completed"]


async def test_a_lost_reply_asks_once(settings: Settings, monkeypatch: Any) -> None:
    """The repeat has the same id."""
    ask, calls = Questions.ask, []

    async def loses(self: Questions, *args: Any) -> Any:
        answer = await ask(self, *args)
        calls.append(args)
        if len(calls) == 1:
            raise StoreUnavailable("the reply is lost")
        return answer

    monkeypatch.setattr(Questions, "ask", loses)
    async with rig(settings, asks) as deployment:
        await deployment.send("s", "which colour?")
        await until(lambda: len(calls) > 1)
        await deployment.coord.session("s").answer(await asked(deployment), "blue")
        assert await deployment.ends("s") == ["completed"]
        assert len(await deployment.log("s", "question.asked")) == 1


async def test_a_stop_ends_the_wait_and_the_turn(settings: Settings) -> None:
    """An agent that does not care is cancelled all the same; the question stays, and its answer is the next prompt."""
    async with rig(replaced(settings, **SLOW), asks) as deployment:
        session = deployment.coord.session("s")
        await deployment.send("s", "which colour?")
        question_id = await asked(deployment)
        ticket = await session.cancel()
        assert await ticket.outcome(timeout=5) == "cancelled"
        assert await deployment.ends("s") == ["cancelled"]
        assert (await session.answer(question_id, "say blue")).placement == "started"
        await asked(deployment, 2)


async def test_nothing_is_asked_in_a_turn_that_is_being_stopped(settings: Settings, monkeypatch: Any) -> None:
    """Even before its agent has heard of the stop: the next heartbeat tells."""
    monkeypatch.setattr("workers.telling.Telling.abort", lambda *_: None)
    puppet, go = Puppet(), asyncio.Event()

    async def late(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        await go.wait()
        assert not turn.cancelled.is_set()
        await turn.ask("which colour?")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = late
    async with rig(replaced(settings, heartbeat=0.5, lease=3.0, self_stop=6.0), puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.until("s", "agent.running")
        await deployment.coord.session("s").cancel()
        go.set()
        assert await deployment.ends("s") == ["cancelled"]
        assert await deployment.log("s", "question.asked") == []


async def test_a_question_that_expires_stops_its_turn(settings: Settings) -> None:
    """The agent is told which question it was, and that nobody answered."""
    puppet = Puppet()
    told: list[str] = []

    async def waits(prompt: Prompt, turn: Turn) -> TurnEnd:
        with pytest.raises(QuestionClosed) as closed:
            await turn.ask("which colour?")
        told.append(str(closed.value))
        with pytest.raises(QuestionClosed, match="being stopped"):
            await turn.ask("again?")
        return TurnEnd(prompt.ownership, "cancelled")

    puppet.on_prompt = waits
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        question_id = await asked(deployment)
        await expire(deployment.kernel, "question", "s")
        assert await deployment.ends("s") == ["cancelled"]
        assert [entry.fields["why"] for entry in await deployment.log("s", "question.expired")] == ["timeout"]
    assert len(told) == 1
    assert f"Question {question_id} has expired" in told[0]


async def test_a_superseded_prompt_gets_no_answer(settings: Settings) -> None:
    """Its agent is stopped."""
    puppet = Puppet()
    told: list[Exception] = []

    async def waits(prompt: Prompt, turn: Turn) -> TurnEnd:
        try:
            await turn.ask("which colour?")
        except Superseded as error:
            told.append(error)
            raise
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = waits
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await asked(deployment)
        await expire(deployment.kernel, "lease", "s")
        await until(lambda: puppet.stopped == 1)
    assert puppet.turns[0].cancelled.is_set()
    with pytest.raises(Superseded):
        await puppet.turns[0].ask("anybody?")


async def test_a_question_needs_text(settings: Settings) -> None:
    """The agent's mistake is its own to see."""
    puppet = Puppet()

    async def waits(prompt: Prompt, turn: Turn) -> TurnEnd:
        with pytest.raises(MessageInvalid):
            await turn.ask("")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = waits
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s") == ["completed"]
