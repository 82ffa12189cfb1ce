"""Placements of activities that begin where a reset, an entry or a question ends: offered, and again for a repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from tests.scripts.flow import entered, on_workflow
from tests.scripts.resetting import begun, resetting
from tests.scripts.scene import Scene
from tests.scripts.states import brought
from tests.scripts.test_questions import answered, asked

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from tests.support.faulty import FaultyStore

BEGINNINGS = {
    "enter_end": "an entry's prompt",
    "reset_begin": "a reset with nobody to call",
    "release": "an execution given up under a reset",
    "answer": "an answer",
    "put_direct": "a direct prompt",
}


async def begin(kernel: Kernel, script: str) -> Scene:
    """An activity begins by that script, with no live execution."""
    if script == "enter_end":
        scene = await on_workflow(kernel)
        await entered(scene, "plan it")
    elif script == "reset_begin":
        scene = await brought(kernel, "reserved")
        await kernel.store.redis.delete(kernel.store.keys.queue)
        await begun(scene)
    elif script == "release":
        scene = await resetting(kernel, "called")
        await kernel.store.redis.delete(kernel.store.keys.queue)
        await kernel.executions.release(scene.sid, "e1")
    elif script == "answer":
        scene = await asked(kernel, ended="completed")
        await kernel.executions.release(scene.sid, "e1")
        await kernel.store.redis.delete(kernel.store.keys.queue)
        await answered(scene)
    else:
        scene = await Scene(kernel).opened()
        await kernel.stops.put_direct(scene.sid, "direct", wait=30)
    return scene


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("script", BEGINNINGS)
async def test_what_begins_is_offered(kernel: Kernel, faulty: FaultyStore, script: str, lost: bool) -> None:
    """Under its own token; where the repeat of a lost reply can't tell, by the placement's deadline."""
    if lost:
        faulty.drop_reply(script)
    scene = await begin(kernel, script)
    view = await scene.view()
    offers = await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1)
    assert view.status == "running"
    if lost and script in {"release", "answer", "put_direct"}:
        assert offers == []
        assert await scene.expired("placement") == Verdict.PLACE
        offers = await kernel.store.redis.zrange(kernel.store.keys.queue, 0, -1)
    assert [view.activity in offer for offer in offers] == [True]


async def test_what_begins_on_a_live_execution_is_told_to_it(kernel: Kernel) -> None:
    """No offer: its worker has a hint."""
    scene = await asked(kernel, ended="completed")
    await kernel.store.redis.delete(kernel.store.keys.queue)
    assert (await answered(scene)).placement == "started"
    assert not await kernel.store.redis.exists(kernel.store.keys.queue)
