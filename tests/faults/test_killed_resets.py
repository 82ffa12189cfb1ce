"""A reset whose caller, replica or worker is killed at each of its moments: the session goes on, in one context."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.session import Session
from tests.conftest import Spawn
from tests.faults.conftest import Fleet
from tests.support.processes import Process
from tests.support.watch import BOUND, eventually, seen

AGENT = "tests.faults.contexts:agent"


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"cancel_timeout": 3.0, "provider_reset": 3.0, "reset_timeout": 7.0, "entry_timeout": 20.0}


class Stage:
    """A session with a turn that runs, a worker, a replica, and the process that resets it."""

    def __init__(self, fleet: Fleet, spawn: Spawn) -> None:
        self._fleet = fleet
        self._spawn = spawn
        self.session: Session
        self.worker: Process
        self.replica: Process
        self.caller: Process
        self.before = ""

    async def set_up(self, resets: str, prompt: str) -> None:
        """Bring it to where the reset begins."""
        env = {**self._fleet.env(), "COORDINATOR_TEST_RESET": resets}
        self.worker, self.replica = await asyncio.gather(
            self._spawn("worker", "--agent", AGENT, "--worker-id", "w1", env=env), self._fleet.replica()
        )
        self.session = await self._fleet.opened()
        await self.session.send("tell")
        await self.session.wait_idle(timeout=BOUND)
        self.before = (await self.session.snapshot()).resume_token
        if prompt:
            await self.session.send(prompt)
            await seen(self.session, "output", text=f"context {self.before}", turn="2")

    async def called(self, *, begins: bool = True) -> None:
        """Let another process reset the session, and wait until the reset has begun."""
        self.caller = await self._spawn("reset", self.session.id, ready="", env=self._fleet.env())
        if begins:
            await seen(self.session, "reset.started")

    async def replaced(self, victim: str) -> None:
        """Kill one of the three; another worker and another replica come, as a deployment has them."""
        await getattr(self, victim).kill()
        if victim == "worker":
            await self._fleet.worker("w2", agent=AGENT)
        elif victim == "replica":
            await self._fleet.replica()

    async def outcome(self) -> str:
        """How the reset has ended; by itself, within its bound."""

        async def look() -> str | None:
            view = await self.session.snapshot()
            return None if view.reset_pending else view.reset_outcome or "never"

        return await eventually(look)

    async def check(self) -> str:
        """The session takes a prompt; its context is the old one, or after a commit a new one, and what is stored."""
        outcome = await self.outcome()
        receipt = await self.session.send("tell")
        result = await self.session.result(receipt.message_id, timeout=BOUND)
        await self.session.wait_idle(timeout=BOUND)
        context = result.text.removeprefix("context ")
        assert (await self.session.snapshot()).resume_token == context
        assert (context != self.before) is (outcome == "committed"), (outcome, self.before, context)
        ends = [
            entry.type async for entry in self.session.history() if entry.type in {"reset.committed", "reset.failed"}
        ]
        assert ends == ([] if outcome == "never" else [f"reset.{outcome}"])
        return outcome


@pytest.fixture
def stage(fleet: Fleet, spawn: Spawn) -> Stage:
    """Nothing is started yet."""
    return Stage(fleet, spawn)


async def test_a_caller_that_dies_before_the_marker_has_changed_nothing(stage: Stage, fleet: Fleet) -> None:
    """It waits for the guard that somebody holds; the turn runs on."""
    await stage.set_up("quick", "run")

    async def subscribers() -> set[str]:
        clients = await fleet.coord.kernel.store.redis.client_list()
        return {client["id"] for client in clients if client["sub"] != "0"}

    async with stage.session.guard():
        before = await subscribers()
        await stage.called(begins=False)

        async def waits() -> bool:
            return bool(await subscribers() - before)

        await eventually(waits)
        await stage.caller.kill()
    assert (await stage.session.snapshot()).open_turn == 2
    await stage.session.cancel()
    assert await stage.check() == "never"


@pytest.mark.parametrize("victim", ["caller", "replica", "worker"])
async def test_one_dies_while_the_turn_is_being_stopped(stage: Stage, fleet: Fleet, victim: str) -> None:
    """The marker is on, the agent has not obeyed yet. A dead worker fails the reset: nobody confirmed the stop."""
    await stage.set_up("quick", "jam gate")
    await stage.called()
    await stage.worker.says(f"agent {stage.session.id} jams")
    await stage.replaced(victim)
    await fleet.gate("gate")
    assert await stage.check() == ("failed" if victim == "worker" else "committed")


@pytest.mark.parametrize("victim", ["caller", "replica", "worker"])
@pytest.mark.parametrize("prompt", ["run", ""], ids=["stopped", "idle"])
async def test_one_dies_while_the_provider_is_called(stage: Stage, fleet: Fleet, victim: str, prompt: str) -> None:
    """The turn is over, the call hangs at a gate, which opens after the death."""
    await stage.set_up("hold", prompt)
    await stage.called()
    await stage.worker.says(f"agent {stage.session.id} resets")
    await stage.replaced(victim)
    await fleet.gate("provider")
    assert await stage.check() == ("failed" if victim == "worker" else "committed")


async def test_a_worker_dies_when_the_provider_has_done_it_and_nobody_was_told(stage: Stage, fleet: Fleet) -> None:
    """The lease fails the reset; the next execution starts from the old token, whatever the provider has by now."""
    await stage.set_up("exit", "run")
    await stage.called()
    await stage.worker.ended(BOUND)
    await fleet.worker("w2", agent=AGENT)
    assert await stage.check() == "failed"


async def test_a_provider_that_hangs_is_fenced_and_the_session_goes_on_elsewhere(stage: Stage, fleet: Fleet) -> None:
    """K12: no answer in time; the late one is discarded, and the execution is not used again."""
    await stage.set_up("hold", "run")
    await fleet.worker("w2", agent=AGENT)
    await stage.called()
    await stage.worker.says(f"agent {stage.session.id} resets")
    assert await stage.outcome() == "failed"
    await fleet.gate("provider")
    assert await stage.check() == "failed"


async def test_a_stubborn_agent_fails_the_reset_before_the_provider_is_called(stage: Stage, fleet: Fleet) -> None:
    """Bug 3, K4: the stop was escalated, not confirmed; nobody calls the provider."""
    await stage.set_up("quick", "jam never")
    await fleet.worker("w2", agent=AGENT)
    await stage.called()
    assert await stage.check() == "failed"
    assert "resets" not in stage.worker.output


@pytest.mark.parametrize("call", ["cancel", "close", "reset"])
async def test_a_hanging_reset_holds_nobody_up(stage: Stage, fleet: Fleet, call: str) -> None:
    """K10: stop, close and a second reset answer at once, and what they ask for is so in the end."""
    await stage.set_up("hold", "run")
    await stage.called()
    await stage.worker.says(f"agent {stage.session.id} resets")
    async with asyncio.timeout(2):
        if call == "cancel":
            ticket = await stage.session.cancel()
            assert await ticket.outcome(timeout=1) in {"idle", "cancelled"}
        elif call == "close":
            await stage.session.close()
        else:
            with pytest.raises(Exception, match="reset"):
                await stage.session.reset(timeout=1)
    if call == "close":
        assert (await stage.session.snapshot()).lifecycle == "closed"
    else:
        await stage.check()
