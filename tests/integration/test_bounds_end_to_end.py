"""Agents that do nothing: each wait for one has an end, which is told, and the session goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator import Orchestrator, Session, SettledTurn
from tests.integration.conftest import Deployment
from tests.integration.recorder import Recorder
from tests.support.watch import BOUND, seen, told
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"acceptance": 0.3, "start_timeout": 0.4, "idle_execution": 0.3, "sweep": 0.1, "handler_tries": 2}


async def test_a_prompt_that_is_never_accepted_goes_back_and_is_parked_the_third_time(deployment: Deployment) -> None:
    """Section 9: ends as lost, first in line again under a fresh execution; the agent that kept silent is stopped."""

    class Silent(Recorder):
        speaks = False

        async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
            self.calls.append(f"attempt {prompt.attempt} of {prompt.text}")
            if not self.speaks:
                try:
                    await asyncio.Event().wait()
                finally:
                    self.calls.append(turn.cancel_cause)
            await turn.accepted()
            return TurnEnd(prompt.ownership)

    await deployment.replica()
    await deployment.worker(Silent)
    session = await deployment.opened()
    sent = [(await session.send(body)).message_id for body in ("first", "second")]
    await seen(session, "error", where="dispatch")
    await session.wait_idle(timeout=BOUND)
    view = await session.snapshot()
    assert [(entry.body, entry.attempt) for entry in view.inbox.next_turn] == [("first", 3), ("second", 0)]
    Silent.speaks = True
    await session.send("wake")
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session, *sent)
    assert [turn.reason for turn in oracle.turns.values()] == ["lost"] * 3 + ["completed"] * 3
    assert len(oracle.workers) == 4
    assert [call for call in Silent.calls if "first" in call] == [
        f"attempt {number} of first" for number in range(1, 5)
    ]
    assert Silent.calls.count("superseded") == 3


@pytest.mark.parametrize("obeys", [True, False])
async def test_an_agent_that_hangs_at_its_start_parks_the_session_and_the_next_wake_tries_again(
    deployment: Deployment, obeys: bool
) -> None:
    """A failed start: told as an error, also when the agent's code ignores that it is cancelled."""
    released = asyncio.Event()

    class Hanging(Recorder):
        hangs = True

        async def start(self, execution: Execution) -> None:
            while self.hangs:
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    if obeys:
                        raise
                else:
                    return
            await super().start(execution)

    await deployment.replica()
    await deployment.worker(Hanging)
    session = await deployment.opened()
    try:
        sent = (await session.send("work")).message_id
        # The worker's own clock and the deadline in Redis run at the same time; either may be first.
        error = await seen(session, "error")
        await session.wait_idle(timeout=BOUND)
        assert "did not start" in error.fields["message"]
        view = await session.snapshot()
        assert (view.turn, [entry.awake for entry in view.inbox.next_turn]) == (0, [False])
        Hanging.hangs = False
        await session.send("wake")
        await session.wait_idle(timeout=BOUND)
    finally:
        released.set()
    assert [call for call in Hanging.calls if call.startswith("prompt")] == ["prompt work", "prompt wake"]
    await deployment.judged(session, sent)


async def test_an_execution_that_had_nothing_to_do_for_long_is_given_up_and_the_next_turn_starts_another(
    deployment: Deployment,
) -> None:
    """Its agent is stopped, its place is free, and the session resumes from its token."""

    class Idle(Recorder):
        pass

    await deployment.replica()
    await deployment.worker(Idle, max_sessions=1)
    session, other = await deployment.opened(), await deployment.opened()
    await session.send("one")
    await session.wait_idle(timeout=BOUND)
    await other.send("two")
    await other.wait_idle(timeout=BOUND)
    assert await told(session, "agent.stopped") == ["agent.stopped"]
    await session.send("three")
    await session.wait_idle(timeout=BOUND)
    assert Idle.calls[-2:] == ["start token-2", "prompt three"]
    for one in (session, other):
        await deployment.judged(one)


async def test_a_handler_that_fails_for_good_leaves_the_outcome_and_later_turns_as_they_are(
    deployment: Deployment,
) -> None:
    """Wake-latch E80: the entry goes to the dead stream, the turn is settled as failed, the session goes on."""
    orchestrator = Orchestrator(deployment.coord)
    keys: list[tuple[str, str]] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        keys.append((session.id, turn.key))
        if turn.turn == 1:
            raise RuntimeError("boom")

    class Plain(Recorder):
        pass

    await deployment.replica(orchestrator)
    await deployment.worker(Plain)
    session = await deployment.opened()
    for body in ("one", "two"):
        await session.send(body)
    await session.wait_idle(timeout=BOUND)
    oracle = await deployment.judged(session)
    assert [(turn.reason, turn.settled) for turn in oracle.turns.values()] == [
        ("completed", ["failed"]), ("completed", ["stayed"]),
    ]  # fmt: skip
    assert len(keys) == 3
    assert len(set(keys)) == 2
