"""Questions whose agents wait no longer: they stay open, and no answer is lost on the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.errors import SessionBusy, StoreUnavailable
from coordinator.services.questions import Questions
from coordinator.settings import Settings
from tests.workers.rig import Puppet, Rig, asked, replaced, rig, until
from workers.agents.protocol import Prompt, Turn, TurnEnd
from workers.orders import Orders

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


async def test_a_wait_of_its_own_ends_and_the_answer_becomes_a_prompt(settings: Settings) -> None:
    """The turn that waits no longer is stopped for it."""
    puppet = Puppet()

    async def waits(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn == 1:
            with pytest.raises(TimeoutError, match="stays open"):
                await turn.ask("which colour?", timeout=0.2)
            with pytest.raises(SessionBusy):
                await turn.ask("and which shape?")
            await turn.emit("no answer")
            await turn.cancelled.wait()
            return TurnEnd(prompt.ownership, "cancelled")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = waits
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        question_id = await asked(deployment)
        await deployment.until("s", "output")
        receipt = await deployment.coord.session("s").answer(question_id, "blue")
        assert receipt.placement == "latched"
        assert await deployment.ends("s", 2) == ["cancelled", "completed"]
    assert [prompt.text for prompt in puppet.prompts] == ["one", "blue"]
    assert puppet.turns[0].cancel_cause == "silent"


async def test_an_answer_that_comes_while_the_agent_leaves_is_its_own(settings: Settings, monkeypatch: Any) -> None:
    """Having left, it looks once more."""
    leave = Questions.leave

    async def answered_before(self: Questions, session_id: str, question_id: str) -> None:
        await deployment.coord.session("s").answer(question_id, "blue")
        await leave(self, session_id, question_id)

    monkeypatch.setattr(Questions, "leave", answered_before)

    async def agent(prompt: Prompt, turn: Turn) -> None:
        await turn.emit(await turn.ask("which colour?", timeout=0.2))

    async with rig(replaced(settings, heartbeat=1.0, lease=5.0, self_stop=20.0), agent) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s") == ["completed"]
        assert await deployment.said("s") == "blue"


async def test_a_cancelled_wait_leaves_its_question(settings: Settings) -> None:
    """In the background: its answer is a prompt, too."""
    puppet = Puppet()

    async def waits(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn == 1:
            asking = asyncio.create_task(turn.ask("which colour?"))
            await asked(deployment)
            asking.cancel()
            await asyncio.sleep(0.2)
            await turn.emit("gave it up")
            await turn.cancelled.wait()
            return TurnEnd(prompt.ownership, "cancelled")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = waits
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.until("s", "output")
        receipt = await deployment.coord.session("s").answer(await asked(deployment), "blue")
        assert receipt.placement == "latched"
        assert await deployment.ends("s", 2) == ["cancelled", "completed"]


async def test_a_worker_that_leaves_ends_the_wait(settings: Settings) -> None:
    """The question outlives its turn."""
    puppet = Puppet()

    async def waits(prompt: Prompt, turn: Turn) -> TurnEnd:
        return TurnEnd(prompt.ownership, error=await turn.ask(prompt.text))

    puppet.on_prompt = waits
    async with rig(replaced(settings, drain=0.2), puppet) as deployment:
        await deployment.send("s", "which colour?")
        question_id = await asked(deployment)
        await deployment.end()
        assert await deployment.ends("s") == ["interrupted"]
        assert (await deployment.coord.session("s").snapshot()).question == question_id


async def test_that_an_agent_waits_no_longer_is_said_until_redis_has_it(settings: Settings, monkeypatch: Any) -> None:
    """Else the answer would be given to an agent that has left."""
    leave, calls = Questions.leave, []

    async def fails_first(self: Questions, *args: Any) -> None:
        calls.append(args)
        if len(calls) == 1:
            raise StoreUnavailable("away for longer than the store's patience")
        await leave(self, *args)

    monkeypatch.setattr(Questions, "leave", fails_first)
    puppet = Puppet()

    async def leaves(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn > 1:
            return TurnEnd(prompt.ownership)
        with pytest.raises(TimeoutError, match="will be the next prompt"):
            await turn.ask("which colour?", timeout=0.1)
        await turn.cancelled.wait()
        return TurnEnd(prompt.ownership, "cancelled")

    puppet.on_prompt = leaves
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        question_id = await asked(deployment)
        await until(lambda: left(deployment))
        assert (await deployment.coord.session("s").answer(question_id, "blue")).placement == "latched"
        assert await deployment.ends("s", 2) == ["cancelled", "completed"]
    assert [prompt.text for prompt in puppet.prompts] == ["one", "blue"]


async def left(deployment: Rig) -> bool:
    """Whether nobody waits for the answer of session s any more."""
    seen = await deployment.coord.session("s").snapshot()
    return bool(seen.question) and seen.waiting_for != "question"


async def test_an_answer_before_the_word_of_a_cancelled_wait_is_the_next_prompt(
    settings: Settings, monkeypatch: Any
) -> None:
    """It was given to the turn, whose agent does not hear it any more: the turn is stopped for it."""
    leave, placements = Questions.leave, []

    async def answered_before(self: Questions, session_id: str, question_id: str) -> None:
        placements.append((await deployment.coord.session("s").answer(question_id, "blue")).placement)
        await leave(self, session_id, question_id)

    monkeypatch.setattr(Questions, "leave", answered_before)
    puppet = Puppet()

    async def gives_up(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn > 1:
            return TurnEnd(prompt.ownership)
        asking = asyncio.create_task(turn.ask("which colour?"))
        await asked(deployment)
        asking.cancel()
        await turn.cancelled.wait()
        return TurnEnd(prompt.ownership, "cancelled")

    puppet.on_prompt = gives_up
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s", 2) == ["cancelled", "completed"]
    assert (placements, [prompt.text for prompt in puppet.prompts]) == (["delivered"], ["one", "blue"])


async def test_an_answer_that_nobody_heard_before_the_turn_s_end_is_the_next_prompt(
    settings: Settings, monkeypatch: Any
) -> None:
    """The agent's own time is over and it ends its turn, while the hint of the answer is still on its way."""
    monkeypatch.setattr(Orders, "answered", lambda _: None)
    placements: list[str] = []
    puppet = Puppet()

    async def gives_up(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn > 1:
            return TurnEnd(prompt.ownership)
        asking = asyncio.create_task(turn.ask("which colour?"))
        question_id = await asked(deployment)
        placements.append((await deployment.coord.session("s").answer(question_id, "blue")).placement)
        asking.cancel()
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = gives_up
    async with rig(replaced(settings, heartbeat=1.0, lease=5.0, self_stop=20.0), puppet) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s", 2) == ["completed", "completed"]
    assert (placements, [prompt.text for prompt in puppet.prompts]) == (["delivered"], ["one", "blue"])


async def test_the_end_of_a_turn_leaves_a_question_that_is_still_waited_for(settings: Settings) -> None:
    """A task that the agent has forgotten is told so; its question stays open."""
    forgotten: list[asyncio.Task[str]] = []

    async def forgets(prompt: Prompt, turn: Turn) -> None:
        forgotten.append(asyncio.create_task(turn.ask("which colour?")))
        await asked(deployment)

    async with rig(settings, forgets) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s") == ["completed"]
        with pytest.raises(TimeoutError, match="will be the next prompt"):
            await forgotten[0]
        seen = await deployment.coord.session("s").snapshot()
        assert (seen.question != "", seen.question_turn, seen.open_turn) == (True, 1, 0)


async def test_a_turn_asks_one_thing_at_a_time(settings: Settings) -> None:
    """A second question while the first one's answer is on its way would take that answer's place."""
    said: list[str] = []

    async def agent(prompt: Prompt, turn: Turn) -> None:
        first = asyncio.create_task(turn.ask("which colour?"))
        question_id = await asked(deployment)
        # Answered, and not yet heard: the answer's hint comes while this task runs on.
        await deployment.coord.session("s").answer(question_id, "blue")
        if not first.done():
            with pytest.raises(SessionBusy):
                await turn.ask("which shape?")
        said.append(await first)
        second = asyncio.create_task(turn.ask("which shape?"))
        await until(lambda: open_question(deployment))
        await deployment.coord.session("s").answer((await deployment.coord.session("s").snapshot()).question, "round")
        said.append(await second)

    async with rig(settings, agent) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s") == ["completed"]
    assert said == ["blue", "round"]


async def open_question(deployment: Rig) -> bool:
    """Whether session s asks something."""
    return bool((await deployment.coord.session("s").snapshot()).question)
