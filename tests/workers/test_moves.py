"""Moves and signals of a turn: its session goes on to another workflow step when it is settled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from coordinator.domain.errors import StoreUnavailable, Superseded, UnknownStep
from coordinator.domain.workflow import Step, Workflow
from coordinator.orchestrator import Orchestrator
from coordinator.services.workflows import Workflows
from coordinator.settings import Settings
from tests.workers.rig import BOUND, Puppet, Rig, rig, until
from workers.agents.protocol import Prompt, Turn, TurnEnd
from workers.driver import LOOK_AGAIN

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)

FLOW = Workflow(
    name="flow",
    start="draft",
    steps=(
        Step(name="draft", on_turn_complete="next", requires_signal=True),
        Step(name="review", prompt="check", auto_start=True),
        Step(name="other", by_move=True),
    ),
)


@asynccontextmanager
async def flowing(settings: Settings, puppet: Puppet) -> AsyncIterator[Rig]:
    """A worker, an orchestrator, and session s at the first step of a workflow."""
    async with rig(settings, puppet) as deployment:
        orchestrating = asyncio.create_task(Orchestrator(deployment.coord, workflow=FLOW).run(handle_signals=False))
        try:
            await until(lambda: published(deployment))
            await deployment.coord.session("s").open(workflow="flow")
            await deployment.until("s", "step.entered")
            yield deployment
        finally:
            orchestrating.cancel()
            await asyncio.wait({orchestrating})


async def test_no_turn_opens_while_a_step_is_entered(settings: Settings) -> None:
    """The driver waits with its claim, and is told when the entry is over; its prompt goes first."""
    puppet = Puppet()
    async with rig(settings, puppet) as deployment:
        session, kernel = deployment.coord.session("s"), deployment.kernel
        await kernel.workflows.publish([FLOW])
        await session.open(workflow="flow")
        await session.send("one")
        await deployment.until("s", "agent.boot_ready")
        await asyncio.sleep(0.2)
        view = await session.snapshot()
        assert (view.waiting_for, puppet.prompts) == ("entry", [])
        began = asyncio.get_running_loop().time()
        assert await kernel.workflows.enter_end("s", view.entering, "0-1", body="draft")
        assert await deployment.ends("s") == ["completed"]
        assert asyncio.get_running_loop().time() - began < LOOK_AGAIN / 2
    assert puppet.prompts[0].text == "draft"


@pytest.mark.parametrize("through", ["turn", "session"])
async def test_a_move_is_made_when_its_turn_is_settled(settings: Settings, through: str) -> None:
    """The last one counts; until then the session stays where it is."""
    puppet = Puppet()
    seen: list[tuple[str, str]] = []

    async def moves(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn == 1:
            for step in ("other", "review"):
                await (turn if through == "turn" else turn.session).move(step)
                view = await turn.session.snapshot()
                seen.append((view.step, view.pending_move))
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = moves
    async with flowing(settings, puppet) as deployment:
        session = deployment.coord.session("s")
        await session.send("one")
        assert await deployment.ends("s", 2) == ["completed"] * 2
        await session.wait_idle(BOUND)
        assert [entry.fields["outcome"] for entry in await deployment.log("s", "turn.settled")] == ["moved", "stayed"]
        assert (await session.snapshot()).step == "review"
    assert seen == [("draft", "other"), ("draft", "review")]
    assert [prompt.text for prompt in puppet.prompts] == ["one", "check"]


async def test_a_signal_lets_the_turns_end_lead_on(settings: Settings) -> None:
    """Without one the step is kept."""
    puppet = Puppet()

    async def signals(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.text == "two":
            await turn.signal()
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = signals
    async with flowing(settings, puppet) as deployment:
        session = deployment.coord.session("s")
        for word in ("one", "two"):
            await session.send(word)
        assert await deployment.ends("s", 3) == ["completed"] * 3
        await session.wait_idle(BOUND)
        settled = [entry.fields["outcome"] for entry in await deployment.log("s", "turn.settled")]
        assert settled == ["stayed", "advanced", "stayed"]
    assert [prompt.text for prompt in puppet.prompts] == ["one", "two", "check"]


async def test_a_lost_reply_moves_once(settings: Settings, monkeypatch: Any) -> None:
    """The repeat carries the same id."""
    move, answers = Workflows.move, []

    async def loses(self: Workflows, *args: Any, **options: Any) -> Any:
        answers.append(await move(self, *args, **options))
        if len(answers) == 1:
            raise StoreUnavailable("the reply is lost")
        return answers[-1]

    monkeypatch.setattr(Workflows, "move", loses)
    puppet = Puppet()

    async def moves(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.turn == 1:
            await turn.move("other")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = moves
    async with flowing(settings, puppet) as deployment:
        await deployment.coord.session("s").send("one")
        await deployment.until("s", "turn.settled")
        assert len(await deployment.log("s", "move.pending")) == 1
    assert answers == ["pending"] * 2


async def test_what_is_wrong_is_told_to_the_agent(settings: Settings) -> None:
    """An unknown step; and on a session without a workflow, any."""
    puppet = Puppet()
    told: list[str] = []

    async def mistakes(prompt: Prompt, turn: Turn) -> TurnEnd:
        calls = [turn.move("nowhere")] if prompt.session_id == "s" else [turn.move("nowhere"), turn.signal()]
        for call in calls:
            with pytest.raises(UnknownStep) as error:
                await call
            told.append(f"{prompt.session_id}: {error.value}")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = mistakes
    async with flowing(settings, puppet) as deployment:
        await deployment.coord.session("s").send("one")
        assert await deployment.ends("s") == ["completed"]
        await deployment.send("plain", "one")
        assert await deployment.ends("plain") == ["completed"]
    assert [line.partition(": ")[0] for line in told] == ["s", "plain", "plain"]
    assert "no step 'nowhere'" in told[0]
    assert all("on no workflow" in line for line in told[1:])


async def test_a_turn_that_is_over_moves_and_signals_nothing(settings: Settings) -> None:
    """Its session may be at another turn."""
    puppet = Puppet()
    async with flowing(settings, puppet) as deployment:
        await deployment.coord.session("s").send("one")
        await deployment.until("s", "turn.settled")
        turn = puppet.turns[0]
        for call in (turn.move("other"), turn.signal()):
            with pytest.raises(Superseded):
                await call
        view = await deployment.coord.session("s").snapshot()
        assert (view.step, view.signalled) == ("draft", False)


async def published(deployment: Rig) -> bool:
    return await deployment.kernel.workflows.names() == ["flow"]
