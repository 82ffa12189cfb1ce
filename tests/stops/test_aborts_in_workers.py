"""How a stop gets to the agent, and what a worker does with one that does not obey: B22, B27."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from coordinator import Coordinator
from coordinator.domain.errors import Superseded
from coordinator.ticket import Ticket
from tests.integration.conftest import Deployment
from tests.integration.puppet import Call, Puppet
from tests.integration.recorder import Recorder
from tests.stops.scene import Resident, Scene, aborted
from tests.support.proxy import FaultProxy
from tests.support.watch import BOUND, seen
from tests.workers.rig import until
from workers.agents.protocol import Prompt, Turn, TurnEnd
from workers.host import Host

MARGIN: float = 0.5
"""Seconds, for two busy cores."""


async def stopped_after(scene: Scene, call: Call) -> float:
    """Stop, and give the seconds until the agent knew."""
    began = time.monotonic()
    stop = await scene.cancel()
    await aborted(call)
    took = time.monotonic() - began
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"
    return took


class TestHint:
    """Heartbeats are too rare to be what tells the agent."""

    @pytest.fixture
    def settings_options(self) -> dict[str, Any]:
        """Beats every three seconds."""
        return {"heartbeat": 3.0, "lease": 10.0, "self_stop": 20.0, "cancel_timeout": 5.0}

    @pytest.mark.parametrize("accepted", [True, False])
    async def test_a_stop_reaches_the_agent_within_one_hop(self, deployment: Deployment, accepted: bool) -> None:
        """Section 6: operation, hint, worker, agent; also before the agent has accepted."""
        agent = Puppet() if accepted else Resident()
        await deployment.replica()
        await deployment.worker(agent)
        scene = Scene(deployment, agent, await deployment.opened())
        call = await scene.run("one")
        assert await stopped_after(scene, call) < MARGIN
        assert await scene.turns() == [("cancelled", "one")]

    async def test_a_hint_that_overtakes_the_claims_answer_counts(self, resident: Scene) -> None:
        """Recorded after the claim and told before its answer was here: the agent is not called."""
        (await resident.run("one")).done()
        await resident.idle()
        assert isinstance(resident.puppet, Resident)

        async def stop() -> None:
            stops.append(await resident.cancel())
            async with asyncio.timeout(BOUND):
                await heard.wait()

        heard, abort = asyncio.Event(), Host.abort
        stops: list[Ticket] = []

        def hear(host: Host, session_id: str, generation: int, cause: str) -> None:
            abort(host, session_id, generation, cause)
            heard.set()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Host, "abort", hear)
            resident.puppet.faulty.after("claim", stop)
            began = time.monotonic()
            await resident.send("two")
            await seen(resident.session, "cancel.settled")
        assert time.monotonic() - began < 3 * MARGIN
        assert await resident.outcome(stops[0]) == "cancelled"
        assert [prompt.text for prompt in resident.puppet.prompts] == ["one"]
        await resident.judged()


async def test_a_lost_hint_costs_at_most_a_heartbeat(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """B22. Naive: the publish was the cancel; it is lost, the API says OK, and the run goes on."""
    monkeypatch.setattr(Host, "abort", lambda *_: None)
    took = await stopped_after(scene, await scene.run("one"))
    assert took < scene.kernel.store.settings.heartbeat + MARGIN
    assert await scene.turns() == [("cancelled", "one")]


async def test_a_lost_drop_costs_at_most_a_heartbeat(resident: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker of an escalated prompt learns by its renewal that the execution is over, and stops its agent."""
    monkeypatch.setattr(Host, "drop", lambda *_: None)
    call = await resident.run("one")
    assert await resident.outcome(await resident.cancel()) == "escalated"
    assert isinstance(resident.puppet, Resident)
    async with asyncio.timeout(resident.kernel.store.settings.heartbeat + 2 * MARGIN):
        await resident.puppet.stopped.acquire()
    assert call.outcome.cancelled()
    await resident.judged()


async def test_a_stop_during_the_start_keeps_the_execution_for_the_next_prompt(resident: Scene) -> None:
    """The activity is over, its execution is not: it boots, and serves what comes then."""
    assert isinstance(resident.puppet, Resident)
    resident.puppet.may_start.clear()
    await resident.send("one")
    await resident.puppet.starting.acquire()
    assert (await resident.cancel(keep_inbox=False)).known == "cancelled"
    await resident.send("two")
    resident.puppet.may_start.set()
    await resident.goes_on("two")
    assert await resident.turns() == [("completed", "two")]
    assert len(resident.puppet.executions) == 1


class Swallowing(Recorder):
    """Works in a child process of its own group, and takes no for an answer from nobody but that process."""

    children: list[asyncio.subprocess.Process]
    turns: list[Turn]

    def __init__(self) -> None:
        super().__init__()
        self.child: asyncio.subprocess.Process | None = None

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.text == "quick":
            return TurnEnd(prompt.ownership)
        program = (
            "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
        )
        self.child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, start_new_session=True, stdout=asyncio.subprocess.PIPE
        )
        self.children.append(self.child)
        assert self.child.stdout is not None
        await self.child.stdout.readline()
        self.turns.append(turn)
        await turn.accepted()
        while self.child.returncode is None:
            with suppress(asyncio.CancelledError):
                await self.child.wait()
        return TurnEnd(prompt.ownership)

    async def stop(self) -> None:
        self.calls.append("stop")
        if self.child is not None and self.child.returncode is None:
            os.killpg(self.child.pid, signal.SIGKILL)


async def test_an_agent_that_swallows_everything_is_ended_with_its_processes(deployment: Deployment) -> None:
    """B27. Naive: the cancel is a notice; the agent works on, its children survive, and the session is stuck.

    The ladder: request, escalation at the bound, task cancel, the agent's `stop` for its process group. The session
    takes prompts from the escalation on, the execution is never used again, and its late words are refused.
    """

    class Agent(Swallowing):
        children: list[asyncio.subprocess.Process] = []  # noqa: RUF012 - this test's own
        turns: list[Turn] = []  # noqa: RUF012 - the same

    await deployment.replica()
    await deployment.worker(Agent)
    scene = Scene(deployment, Puppet(), await deployment.opened())
    await scene.send("work")
    await seen(scene.session, "agent.running")
    stop = await scene.cancel()
    await scene.send("quick")
    assert await scene.outcome(stop) == "escalated"
    await seen(scene.session, "turn.ended", turn="2", reason="completed")
    (child,) = Agent.children
    async with asyncio.timeout(BOUND):
        assert await child.wait() == -signal.SIGKILL
    with pytest.raises(Superseded):
        await Agent.turns[0].emit("too late")
    oracle = await scene.judged()
    assert oracle.turns[1].execution_id not in {turn.execution_id for turn in list(oracle.turns.values())[1:]}
    await until(lambda: _no_suspects(scene))
    assert Agent.calls == ["start fresh", "start token-1", "stop"]


async def _no_suspects(scene: Scene) -> bool:
    return not (await scene.session.snapshot()).suspects


@pytest.mark.parametrize("obeys", [True, False])
@pytest.mark.parametrize("hurries", [True, False])
async def test_a_worker_that_leaves_during_a_stop_ends_it(deployment: Deployment, obeys: bool, hurries: bool) -> None:
    """Section 9: with an operation recorded the prompt is used up: put back, it would undo the stop.

    An agent that obeys the stop has ended its turn by itself, also if its worker is in a hurry by then.
    """
    agent = Puppet()
    await deployment.replica()
    leaving = await deployment.worker(agent)
    scene = Scene(deployment, agent, await deployment.opened(lost_turns="retry"))
    call = await scene.run("one", "two")
    stop = await scene.cancel()
    await aborted(call)
    leaving.ask()
    if hurries:
        leaving.ask()
    if obeys:
        call.done("cancelled")
    assert await scene.outcome(stop) == ("cancelled" if obeys else "escalated")
    assert call.turn.cancel_cause == "user"
    assert await scene.turns(rests=False) == [("cancelled" if obeys else "escalated", "one")]
    assert await scene.pending() == ["two"]


async def test_a_worker_that_is_cut_off_during_a_stop_ends_its_agent_itself(
    proxy: FaultProxy, deployment: Deployment
) -> None:
    """The operation ends without it, at its deadline; what it reports when it is back is stale."""
    agent, settings = Resident(), deployment.coord.settings
    await deployment.replica()
    async with Coordinator.connect(settings) as beyond:
        beyond.settings = type(settings)(**{**_options(settings), "redis_url": proxy.url, "self_stop": 2.1})
        await Deployment(beyond, deployment._stack).worker(agent)
        scene = Scene(deployment, agent, await deployment.opened())
        call = await scene.run("one")
        proxy.black_hole()
        stop = await scene.cancel()
        assert await scene.outcome(stop) == "escalated"
        # Told by its own clock, since no hint and no heartbeat comes through.
        assert await aborted(call) == "self-stop"
        proxy.heal()
        async with asyncio.timeout(BOUND):
            await agent.stopped.acquire()
        await scene.send("two")
        await scene.goes_on("two")
        assert await scene.turns() == [("escalated", "one"), ("completed", "two")]


def _options(settings: Any) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__ if name != "queue_url"}
