"""The scripted agent on a worker: its contexts, what its resets are told to do, and its questions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.errors import ResetFailed
from coordinator.settings import Settings
from tests.workers.rig import BOUND, Rig, asked, replaced, rig
from workers.agents.scripted import agent

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)

KEY = "coord:scripted:reset:s"


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 0.1, "lease": 0.6, "self_stop": 1.2}


async def context(deployment: Rig, turn: int) -> tuple[int, str]:
    """Run turn `turn` of session s: which of its context it is, and the context's id."""
    session = deployment.coord.session("s")
    message_id = await deployment.send("s", "context")
    text = (await session.result(message_id, timeout=BOUND)).text
    word, kind, number, _, found = text.split(" ")
    assert (word, kind) == ("context:", "turn")
    assert len(await deployment.ends("s", turn)) == turn
    return int(number), found


async def test_a_context_outlives_its_execution_and_ends_by_a_reset(settings: Settings) -> None:
    """It is in the resume token, with the number of turns."""
    async with rig(replaced(settings, idle_execution=0.3), agent) as deployment:
        first = await context(deployment, 1)
        assert await context(deployment, 2) == (2, first[1])
        await deployment.until("s", "agent.stopped")
        third = await context(deployment, 3)
        assert third == (3, first[1])
        await deployment.coord.session("s").reset(timeout=BOUND)
        fourth = await context(deployment, 4)
        assert fourth[0] == 1
        assert fourth[1] != first[1]
        assert (await deployment.coord.session("s").snapshot()).resume_token == f"{fourth[1]}.1"


async def test_a_reset_that_is_told_to_fail_keeps_the_context(settings: Settings) -> None:
    """The next execution goes on with it."""
    async with rig(settings, agent) as deployment:
        number, before = await context(deployment, 1)
        await deployment.kernel.store.redis.set(KEY, "fail no such model")
        with pytest.raises(ResetFailed, match="no such model"):
            await deployment.coord.session("s").reset(timeout=BOUND)
        assert await context(deployment, 2) == (number + 1, before)


async def test_a_reset_that_is_held_goes_on_when_let(settings: Settings) -> None:
    """Or else it fails by its bound."""
    async with rig(settings, agent) as deployment:
        _, before = await context(deployment, 1)
        await deployment.kernel.store.redis.set(KEY, "hold")
        resetting = asyncio.create_task(deployment.coord.session("s").reset(timeout=BOUND))
        await deployment.until("s", "reset.started")
        await asyncio.sleep(0.2)
        assert not resetting.done()
        await deployment.kernel.store.redis.delete(KEY)
        await resetting
        number, after = await context(deployment, 2)
        assert number == 1
        assert after != before


async def test_a_question_gets_its_answer_and_a_stop_ends_it(settings: Settings) -> None:
    """In the line that asks."""
    async with rig(settings, agent) as deployment:
        session = deployment.coord.session("s")
        await deployment.send("s", "say so\nask which one?\nsay done")
        await session.answer(await asked(deployment), "the red one")
        assert await deployment.ends("s") == ["completed"]
        assert await deployment.said("s") == "soanswer: the red one\ndone"
        await deployment.send("s", "ask and now?\nsay never")
        await asked(deployment, 2)
        await session.cancel()
        assert await deployment.ends("s", 2) == ["completed", "cancelled"]
        assert "never" not in await deployment.said("s")
