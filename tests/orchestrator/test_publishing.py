"""A replica makes its workflows the ones that all replicas go by."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

import coordinator
from coordinator.client import Coordinator
from coordinator.domain.errors import StoreUnavailable, UsageError, WorkflowInvalid
from coordinator.domain.workflow import Step, Workflow
from coordinator.orchestrator import Orchestrator
from coordinator.services.workflows import Workflows
from tests.orchestrator.conftest import (
    Replica,
    Stepping,
    eventually,
    flow,
    stop,
)

FILE = """
[workflow.one]
start = "a"
[[workflow.one.step]]
name = "a"
on_turn_complete = "next"
[[workflow.one.step]]
name = "b"
terminal = true

[workflow.two]
start = "x"
[[workflow.two.step]]
name = "x"
"""


async def test_all_workflows_of_a_file_are_published_before_anything_is_read(
    coord: Coordinator, tmp_path: Path, replica: Replica
) -> None:
    (tmp_path / "flow.toml").write_text(FILE)
    workflows = Workflow.from_toml(tmp_path / "flow.toml")
    await replica(Orchestrator(coord, workflow=workflows))
    assert await coord.kernel.workflows.names() == ["one", "two"]
    assert await coord.kernel.workflows.definition("one") == workflows["one"]


async def test_the_one_that_started_last_wins_and_one_without_leaves_all(coord: Coordinator, replica: Replica) -> None:
    first, second = flow(Step(name="a")), flow(Step(name="b"))
    await replica(Orchestrator(coord, first))
    await replica(Orchestrator(coord, second))
    await replica(Orchestrator(coord, flow(Step(name="z"), name="other")))
    await replica()
    assert await coord.kernel.workflows.definition("flow") == second
    assert await coord.kernel.workflows.names() == ["flow", "other"]


async def test_publishing_is_retried(coord: Coordinator, replica: Replica, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0
    publish = Workflows.publish

    async def refused(self: Workflows, workflows: Iterable[Workflow]) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise StoreUnavailable("not now")
        await publish(self, workflows)

    monkeypatch.setattr(Workflows, "publish", refused)
    await replica(Orchestrator(coord, flow(Step(name="a"))))
    assert tries == 3
    assert await coord.kernel.workflows.names() == ["flow"]


async def test_a_replica_starts_again_and_settles_on_a_full_server(
    coord: Coordinator, stepping: Stepping, replica: Replica
) -> None:
    """What is published already and the groups that are there are not written again, which would be refused."""
    workflow, redis = flow(Step(name="a", on_turn_complete="next"), Step(name="b")), coord.kernel.store.redis
    first, session = await stepping(Orchestrator(coord, workflow), "a")
    await stop(first.task)
    await session.turn()

    async def entered() -> bool:
        return await session.steps() == ["a", "b"]

    await redis.config_set("maxmemory", 1)
    try:
        await replica(Orchestrator(coord, workflow))
        await eventually(entered)
    finally:
        await redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("prompt", ["\udcff", object()])
async def test_what_cant_be_published_is_refused_when_the_replica_is_made(coord: Coordinator, prompt: Any) -> None:
    """Not tried for ever by one that never reads."""
    with pytest.raises(WorkflowInvalid, match="Workflow 'flow' can't be published: "):
        Orchestrator(coord, flow(Step(name="a", prompt=prompt)))


BAD = [
    ((), "workflow 'flow': it has no steps."),
    ((Step(name=""),), "step 1 of workflow 'flow': it has no name."),
    ((Step(name="a", on_turn_complete="b"),), "on_turn_complete names 'b', which is no step"),
    ((Step(name="a"), Step(name="b")), "step 'b' of workflow 'flow': nothing leads to it from 'a'"),
    ((Step(name="a", on_turn_complete="a"),), "closes the loop a, a, in which no step starts an agent turn"),
    ((Step(name="a", auto_start=True),), "auto_start has no prompt to send"),
    ((Step(name="a"), Step(name="a")), "an earlier step has this name"),
    ((Step(name="a", auto_start=cast("bool", "yes")),), "Expected `bool`, got `str`"),
]


@pytest.mark.parametrize(("steps", "sentence"), BAD)
async def test_a_workflow_made_in_python_is_held_to_what_a_file_is(
    coord: Coordinator, steps: tuple[Step, ...], sentence: str
) -> None:
    made = Workflow(name="flow", start="a", steps=steps)
    for given in (made, coordinator.Workflows([made])):
        with pytest.raises(WorkflowInvalid, match=re.escape(sentence)):
            Orchestrator(coord, given)
    assert await coord.kernel.workflows.names() == []


async def test_what_python_took_for_steps_is_published_as_steps(coord: Coordinator) -> None:
    steps = cast("tuple[Step, ...]", [{"name": "a"}])
    orchestrator = Orchestrator(coord, Workflow(name="flow", start="a", steps=steps))
    task = asyncio.create_task(orchestrator.run(handle_signals=False))

    async def published() -> bool:
        return await coord.kernel.workflows.names() == ["flow"]

    try:
        await eventually(published)
    finally:
        await stop(task)
    assert await coord.kernel.workflows.definition("flow") == Workflow(name="flow", start="a", steps=(Step(name="a"),))


@pytest.mark.parametrize("given", ["flow.toml", Path("flow.toml"), [Workflow(name="f", start="a", steps=())]])
async def test_what_is_no_workflow_is_refused(coord: Coordinator, given: Any) -> None:
    with pytest.raises(UsageError, match="from_toml reads a file"):
        Orchestrator(coord, given)


async def test_all_that_is_wrong_with_it_is_told_at_once(coord: Coordinator) -> None:
    made = Workflow(name="my flow", start="z", steps=(Step(name="a", on_turn_complete="b"), Step(name="stay")))
    with pytest.raises(WorkflowInvalid) as refused:
        Orchestrator(coord, made)
    assert len(str(refused.value).splitlines()) == 4
