"""Handlers of events that settle nothing: what they are run for, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from coordinator.client import Coordinator
from coordinator.domain.events import QuestionAsked, StepEntered
from coordinator.domain.records import CancelKind, SessionPolicy
from coordinator.domain.workflow import Step
from coordinator.handlers import EVENTS, SettledTurn
from coordinator.orchestrator import Orchestrator
from coordinator.session import Session
from coordinator.store.keys import GROUP
from tests.orchestrator.conftest import (
    OnStep,
    Replica,
    all_handled,
    at,
    counters,
    eventually,
    flow,
    pending,
    settled,
)
from tests.orchestrator.player import Player

Make = Callable[[str], Player]
FLOW = flow(Step(name="a", on_turn_complete="next"), Step(name="b"))


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"handler_timeout": 0.5, "handler_tries": 3, "settlement": 1.0}


async def test_a_hook_hears_of_each_entered_step_and_may_move_on(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord, FLOW)
    seen: list[StepEntered] = []

    @orchestrator.on_step_entered
    async def entered(event: StepEntered, session: Session) -> None:
        seen.append(event)
        if event.step == "a":
            await session.move("b", operation_id=f"move-{event.key}")

    await replica(orchestrator)
    session = player("s")
    await session.open(workflow="flow")
    view = await at(coord, "s", "b")
    await eventually(lambda: _as_many(seen, 2))
    assert [(event.workflow, event.step) for event in seen] == [("flow", "a"), ("flow", "b")]
    assert seen[1].key == seen[1].entry_id == view.step_entry


async def test_a_hook_hears_of_a_question_and_may_answer_it(coord: Coordinator, player: Make, replica: Replica) -> None:
    orchestrator = Orchestrator(coord)

    @orchestrator.on_question
    async def asked(event: QuestionAsked, session: Session) -> None:
        assert event.key == event.question_id
        await session.answer(event.question_id, f"the answer to: {event.text}", message_id=f"answer-{event.key}")

    await replica(orchestrator)
    session = player("s")
    await session.open()
    claim = await session.begin()
    assert claim.ownership is not None
    ownership = claim.ownership
    await coord.kernel.questions.ask("s", ownership, "q1", "why?")

    async def answered() -> bool:
        return (await coord.kernel.questions.ask("s", ownership, "q1", "why?")).answer == "the answer to: why?"

    await eventually(answered)


@pytest.mark.parametrize("policy", ["continue", "park"])
async def test_a_hook_that_always_fails_is_given_up_visibly(
    coord: Coordinator, player: Make, replica: Replica, policy: Any
) -> None:
    orchestrator = Orchestrator(coord, FLOW)
    keys: list[str] = []

    @orchestrator.on_step_entered
    async def entered(event: StepEntered, session: Session) -> None:
        keys.append(event.key)
        await session.send("before it failed", message_id=f"sent-{event.key}")
        raise RuntimeError("never")

    await replica(orchestrator)
    session = player("s")
    await session.open(SessionPolicy(on_handler_failure=policy), workflow="flow")
    await eventually(lambda: _counted(coord, "s", "dead", 1))
    view = await at(coord, "s", "a")
    assert keys == [view.step_entry] * 3
    (error,) = await session.log("error")
    assert error["where"] == "handler"
    assert "RuntimeError: never" in error["message"]
    store = coord.kernel.store
    dead = [fields for _, fields in await store.redis.xrange(store.keys.session("s")["dead"])]
    assert [(fields["type"], fields["session_id"]) for fields in dead] == [("step.entered", "s")]
    assert await pending(coord.kernel, "s") == []
    assert view.status == ("idle" if policy == "park" else "running")
    assert len(view.inbox.next_turn) == 1


async def test_a_hook_that_hangs_holds_up_no_settlement(coord: Coordinator, on_step: OnStep) -> None:
    """Only the hooks of later events of its session."""
    orchestrator = Orchestrator(coord, FLOW)
    seen: list[str] = []
    go_on = asyncio.Event()

    @orchestrator.on_step_entered
    async def entered(event: StepEntered, session: Session) -> None:
        seen.append(event.step)
        if event.step == "a":
            await go_on.wait()

    orchestrator._handlers._timeout = 20
    session = await on_step(orchestrator, "a")
    await session.turn()
    await at(coord, "s", "b")
    assert seen == ["a"]
    go_on.set()
    await eventually(lambda: _as_many(seen, 2))
    assert seen == ["a", "b"]


async def test_what_redis_leaves_unanswered_is_no_failure_of_the_hook(
    coord: Coordinator, on_step: OnStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coordinator.streams.group import Entry, Group

    orchestrator = Orchestrator(coord, FLOW)
    runs, refused = 0, 0
    acknowledge = Group.acknowledge

    async def refusing(self: Group, entry: Entry) -> None:
        nonlocal refused
        if entry.fields["type"] == "step.entered" and refused < 4:
            refused += 1
            raise ConnectionError("gone")
        await acknowledge(self, entry)

    monkeypatch.setattr(Group, "acknowledge", refusing)

    @orchestrator.on_step_entered
    async def entered(event: StepEntered, session: Session) -> None:
        nonlocal runs
        runs += 1
        if runs in {2, 5}:
            raise RuntimeError("not now")

    session = await on_step(orchestrator, "a")
    await eventually(lambda: all_handled(coord, "s"))
    assert (runs, refused) == (7, 4)
    assert await session.log("error") == []


async def test_a_hook_that_kills_every_replica_is_not_run_again(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    """Nobody lived to count the failure, so the deliveries are counted."""
    session = player("s")
    await session.open()
    await session.send("work")
    await session.start()
    redis, events = coord.kernel.store.redis, coord.kernel.store.keys.session("s")["events"]
    await redis.xgroup_create(events, GROUP, "0", mkstream=True)
    ((_, entries),) = await redis.xreadgroup(GROUP, "dead:1:x", {events: ">"})
    await redis.xclaim(events, GROUP, "dead:1:x", 0, [entries[-1][0]], retrycount=9)
    orchestrator = Orchestrator(coord)
    runs = 0

    @orchestrator.on_event("agent.boot_ready")
    async def booted(event: object, session: Session) -> None:
        nonlocal runs
        runs += 1

    await replica(orchestrator)
    await eventually(lambda: _counted(coord, "s", "dead", 1))
    assert runs == 0
    (error,) = await session.log("error")
    assert "every replica was gone" in error["message"]
    assert await pending(coord.kernel, "s") == []


@pytest.mark.parametrize("kind", ["user", "silent"])
async def test_without_settlement_a_stopped_turn_is_no_completion(
    coord: Coordinator, player: Make, replica: Replica, kind: CancelKind
) -> None:
    """Even if its agent had completed it by then."""
    orchestrator = Orchestrator(coord)
    turns: asyncio.Queue[int] = asyncio.Queue()

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        await turns.put(turn.turn)

    await replica(orchestrator)
    session = player("s")
    await session.open(SessionPolicy(settlement="none"))
    claim = await session.begin()
    await coord.session("s").cancel(kind=kind)
    await session.finish(claim)
    await session.turn()
    async with asyncio.timeout(5):
        assert await turns.get() == 2


async def test_with_settlement_a_stopped_turn_is_no_completion_without_a_step_that_says_so(
    coord: Coordinator, player: Make, replica: Replica
) -> None:
    orchestrator = Orchestrator(coord)
    turns: list[int] = []

    @orchestrator.on_turn_complete
    async def after(turn: SettledTurn, session: Session) -> None:
        turns.append(turn.turn)

    await replica(orchestrator)
    session = player("s")
    await session.open()
    claim = await session.begin()
    await coord.session("s").cancel()
    await session.finish(claim)
    await settled(coord, "s", 1)
    await session.turn()
    await settled(coord, "s", 2)
    assert turns == [2]


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_can_be_handled(coord: Coordinator, name: str) -> None:
    async def handler(event: object, session: Session) -> None: ...

    assert Orchestrator(coord).on_event(name)(handler) is handler


async def _as_many(found: list[Any], number: int) -> bool:
    return len(found) >= number


async def _counted(coord: Coordinator, session_id: str, what: str, number: int) -> bool:
    return int((await counters(coord.kernel, session_id)).get(what, "0")) >= number
