"""Field failures B11, B15, B19: what arq does to a job that is stopped, and that a session is none.

Each docstring says what the naive version does; arq is shown doing it.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from arq.connections import ArqRedis
from arq.jobs import Job
from arq.worker import Worker, func

from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Scene
from tests.support.watch import BOUND


async def burst(pool: ArqRedis, function: Any) -> None:
    """Run what arq has, as a worker of its own would, until nothing is due."""
    worker = Worker(
        functions=[func(function, name="turn")], redis_pool=pool, burst=True, poll_delay=0.01, handle_signals=False
    )
    await worker.async_run()


async def test_b11_a_prompt_that_was_stopped_before_its_start_never_runs(deployment: Deployment) -> None:
    """B11. Naive: `Job.abort` makes a job that is scheduled for later due now, and workers run it.

    Here the placement is no order but an offer: the worker asks the record, whose activity is over.
    """
    agent, scene = Puppet(), Scene(deployment, Puppet(), await deployment.opened())
    await scene.send("one")
    redis, keys = scene.kernel.store.redis, scene.kernel.store.keys
    assert await redis.zcard(keys.queue) == 1
    await scene.cancel()
    await deployment.replica()
    await deployment.worker(agent)
    async with asyncio.timeout(BOUND):
        while await redis.zcard(keys.queue):  # noqa: ASYNC110 - arq tells nobody that it took a job
            await asyncio.sleep(0.01)
    other = Scene(deployment, agent, await deployment.opened())
    await other.send("other")
    (await agent.next()).done()
    await other.idle()
    assert [prompt.text for prompt in agent.prompts] == ["other"]
    assert (await scene.pending(), await scene.told("turn.started")) == (["one"], [])


async def test_b11_arq_runs_a_scheduled_job_that_is_aborted(deployment: Deployment) -> None:
    """B11, the naive version: scheduled in an hour, aborted, run at once."""
    ran: list[str] = []

    async def turn(ctx: dict[str, Any], text: str) -> None:
        ran.append(text)

    pool = ArqRedis.from_url(deployment.coord.settings.redis_url)
    job = await pool.enqueue_job("turn", "one", _defer_by=timedelta(hours=1))
    assert job is not None
    with pytest.raises(TimeoutError):
        await Job(job.job_id, pool).abort(timeout=0, poll_delay=0.01)
    await burst(pool, turn)
    await pool.aclose()
    assert ran == ["one"]


async def test_b15_a_session_that_was_stopped_once_survives_its_workers_drain(deployment: Deployment) -> None:
    """B15. Naive: the id stays in the worker's set of aborted jobs, so its shutdown drops the next job of that id.

    Here an activity has a token of its own and nothing is aborted through arq: the drain lets the turn end.
    """
    agent = Puppet()
    await deployment.replica()
    leaving = await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened())
    await scene.cancelled(await scene.run("one"))
    call = await scene.run("two", "three")
    leaving.ask()
    await deployment.worker(agent)
    call.done()
    await scene.goes_on("three")
    assert await scene.turns() == [("cancelled", "one"), ("completed", "two"), ("completed", "three")]


async def test_b19_arq_forgets_a_job_that_is_enqueued_while_it_runs(deployment: Deployment) -> None:
    """B19, the naive version: one job a session; the wake that comes while it runs is answered None, and is gone."""
    ran, answers = [], []

    async def turn(ctx: dict[str, Any]) -> None:
        ran.append(ctx["job_id"])
        answers.append(await pool.enqueue_job("turn", _job_id="drain:s"))

    pool = ArqRedis.from_url(deployment.coord.settings.redis_url)
    await pool.enqueue_job("turn", _job_id="drain:s")
    await burst(pool, turn)
    await pool.aclose()
    assert (ran, answers) == (["drain:s"], [None])
