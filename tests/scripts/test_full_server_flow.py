"""A Redis without room, while a context is reset, a step entered, a question open: all of it still ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import StoreMisconfigured
from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import advanced, entries, on_workflow, unsettled
from tests.scripts.resetting import resetting
from tests.scripts.scene import unchanged
from tests.scripts.states import owned
from tests.scripts.test_full_server import Full
from tests.scripts.test_questions import ask, asked
from tests.support.servers import KINDS

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from coordinator.services import Kernel

pytestmark = pytest.mark.parametrize("backend_kind", KINDS, indirect=True)


@pytest.fixture
async def full(backend: Redis) -> AsyncIterator[Full]:
    yield Full(backend)
    await backend.config_set("maxmemory", 0)


async def test_a_reset_ends(kernel: Kernel, full: Full) -> None:
    """The stopped prompt, and the worker's report; a new one does not begin."""
    scene = await resetting(kernel, "open")
    guard = await kernel.guards.acquire(scene.sid, "another")
    await full.now()
    assert (await scene.finished(await owned(scene), "cancelled")).verdict is Verdict.GONE
    assert await kernel.resets.end(scene.sid, "e1", "r", committed=True, resume_token="fresh")
    async with unchanged(kernel):
        with pytest.raises(StoreMisconfigured, match="out of memory"):
            await kernel.resets.begin(scene.sid, "r2", guard.number)


async def test_a_step_is_entered_and_led_on_from(kernel: Kernel, full: Full) -> None:
    """Else a session on a workflow would stand still for ever; a move brings more in."""
    scene, _, _ = await unsettled(kernel)
    await full.now()
    await advanced(scene)
    event_id, event = (await entries(scene))[-1]
    assert await kernel.workflows.enter_end(scene.sid, event.entry_id, event_id, body="build it")
    with pytest.raises(StoreMisconfigured, match="out of memory"):
        await kernel.workflows.move(scene.sid, "review")


async def test_a_direct_prompt_is_taken_back_and_a_question_left(kernel: Kernel, full: Full) -> None:
    """Both need no room; asking and answering do."""
    scene = await asked(kernel)
    await kernel.stops.put_direct(scene.sid, "direct", wait=0, message_id="d")
    await full.now()
    assert (await kernel.stops.withdraw(scene.sid, "d")).verdict is Verdict.OK
    await kernel.questions.leave(scene.sid, "q")
    for refused in (kernel.questions.answer(scene.sid, "q", "so"), ask(scene)):
        with pytest.raises(StoreMisconfigured, match="out of memory"):
            await refused


@pytest.mark.parametrize("kind", ["reset", "entry", "question"])
async def test_every_deadline_is_acted_on(kernel: Kernel, full: Full, kind: str) -> None:
    """Expire carries allow-oom."""
    if kind == "entry":
        scene = await on_workflow(kernel)
    else:
        scene = await (resetting(kernel, "called") if kind == "reset" else asked(kernel))
    score = await scene.make_due(kind)
    await full.now()
    assert (await kernel.deadlines.expire(kind, scene.sid, score)).verdict is Verdict.OK
