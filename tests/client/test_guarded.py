"""A guard's own cancels and prompts: fenced by its number, given back at acceptance, each wait with a bound."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from coordinator import (
    CancelConflict,
    Coordinator,
    GuardLost,
    OutcomeUnknown,
    PredecessorPending,
    Reentry,
    Session,
    TurnChanged,
)
from coordinator.domain.verdicts import Verdict
from coordinator.domain.workflow import Step, Workflow
from coordinator.services.reentry import inside
from tests.client.hand import Hand


@pytest.fixture
def settings_options() -> dict[str, Any]:
    return {"heartbeat": 4.0, "guard_ttl": 0.6, "guard_hold": 4.0, "predecessor_wait": 0.3, "acceptance": 2.0,
            "handler_timeout": 1.0, "handler_tries": 1}  # fmt: skip


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    found = coord.session("s")
    await found.open()
    return found


async def until(session: Session, kind: str, **fields: str) -> None:
    """Follow the log to an entry of this type and with these fields."""
    async with asyncio.timeout(3):
        async for entry in session.follow():
            if entry.type == kind and fields.items() <= entry.fields.items():
                return


async def works(session: Session, hand: Hand, message_id: str) -> None:
    """Play the worker for a prompt: claim it when it is there, and accept it."""
    await until(session, "inbox.inserted", message_id=message_id)
    await hand.begin("s")


async def test_stop_then_prompt_under_one_guard_which_is_given_back_at_acceptance(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    await session.send("queued")
    async with session.guard() as guard:
        ticket = await guard.cancel()
        await hand.end("s", ownership, "cancelled")
        assert await ticket.outcome(timeout=1) == "cancelled"
        playing = asyncio.create_task(works(session, hand, "p-1"))
        turn = await guard.prompt("now this", message_id="p-1")
        await playing
        assert (turn.message_id, turn.turn, turn.generation) == ("p-1", 2, 2)
        seen = await session.snapshot()
        assert (seen.guard_owner, guard.held, seen.open_turn) == ("", False, 2)
        with pytest.raises(GuardLost):
            await guard.cancel()
        await hand.end("s", (await owner(hand)), text="done")
        result = await turn.result(timeout=1)
    assert (result.turn, result.reason, result.text) == (2, "completed", "done")
    outcomes = [entry.fields["outcome"] async for entry in session.history() if entry.type == "turn.settled"]
    assert outcomes == ["superseded"]


async def owner(hand: Hand) -> Any:
    from coordinator.domain.records import Ownership

    key = hand.kernel.store.keys.session("s")["session"]
    execution, generation, claim = await hand.kernel.store.fields(
        key, "open_execution", "open_generation", "open_claim"
    )
    return Ownership(str(execution), int(generation or 0), str(claim))


async def test_a_holder_that_was_paused_past_its_time_changes_nothing(session: Session, coord: Coordinator) -> None:
    await session.send("work")
    store = coord.kernel.store

    async def hold() -> None:
        async with session.guard() as guard:
            await store.redis.delete(store.keys.session("s")["guard"])
            before = await session.snapshot()
            for call in (guard.cancel(), guard.prompt("late")):
                with pytest.raises(GuardLost):
                    await call
            after = await session.snapshot()
            assert (after.sequence, after.cancel_revision, after.activity) == (
                before.sequence, before.cancel_revision, before.activity,
            )  # fmt: skip

    with pytest.raises(GuardLost):
        await hold()


async def test_an_owed_prompt_is_waited_for_within_its_bound_and_left_as_it_is(session: Session, hand: Hand) -> None:
    await session.send("work")
    ownership = await hand.begin("s")
    async with session.guard() as guard:
        began = time.monotonic()
        with pytest.raises(PredecessorPending, match="owed") as caught:
            await guard.prompt("next")
        assert 0.25 < time.monotonic() - began < 1
        assert (caught.value.generation, caught.value.retryable) == (ownership.generation, True)
        seen = await session.snapshot()
        assert (seen.open_turn, seen.inbox.next_turn, guard.held) == (1, (), True)
        waiting = asyncio.create_task(guard.prompt("next", message_id="p-1"))
        await until(session, "inbox.inserted", message_id="p-1")
        await hand.end("s", ownership)
        await hand.begin("s")
        assert (await waiting).turn == 2


FLOW = Workflow(
    name="flow",
    start="work",
    steps=(
        Step(name="work", on_turn_complete="fresh"),
        Step(name="fresh", on_turn_complete="quick", prompt="look again", auto_start=True, reset_agent_context=True),
        Step(name="quick", prompt="go", auto_start=True),
    ),
)


async def entered(session: Session, body: str) -> None:
    """The entry's end, as a replica reports it."""
    entry = (await session.snapshot()).entering
    assert await session._kernel.workflows.enter_end(session.id, entry, f"{len(body)}-1", body=body)


@pytest.mark.parametrize("step", ["quick", "fresh"])
async def test_a_move_and_a_prompt_under_one_guard(session: Session, hand: Hand, step: str) -> None:
    """The prompt goes before the step's, which waits for the guard; behind a reset it would wait in vain."""
    await session._kernel.workflows.publish([FLOW])
    await session.open(workflow="flow")
    await entered(session, "")
    async with session.guard() as guard:
        assert await guard.move(step) == "applied"
        if step == "fresh":
            with pytest.raises(PredecessorPending, match="entering step fresh, which resets"):
                await guard.prompt("mine", message_id="mine")
            await session._kernel.stops.put_direct("s", "known", message_id="known", guard_number=guard.number, wait=9)
            with pytest.raises(PredecessorPending, match="withdrawn"):
                await guard.prompt("known", message_id="known")
            assert (await session.snapshot()).inbox.next_turn == ()
        else:
            waiting = asyncio.create_task(guard.prompt("mine", message_id="mine"))
            await until(session, "inbox.inserted", message_id="mine")
            await entered(session, "go")
            await hand.begin("s")
            assert (await waiting).message_id == "mine"
            assert [entry.kind for entry in (await session.snapshot()).inbox.next_turn] == ["entry"]


async def test_what_no_turn_takes_in_time_is_withdrawn(session: Session) -> None:
    async with session.guard() as guard:
        with pytest.raises(PredecessorPending, match="withdrawn"):
            await guard.prompt("nobody works", timeout=0.1)
        assert guard.held
    seen = await session.snapshot()
    assert seen.inbox.next_turn == ()
    assert seen.guard_owner == ""


async def test_a_prompt_that_was_taken_and_not_accepted_is_unknown_and_not_withdrawn(
    session: Session, hand: Hand
) -> None:
    async with session.guard() as guard:
        waiting = asyncio.create_task(guard.prompt("slow", timeout=0.3, message_id="p-1"))
        await until(session, "inbox.inserted", message_id="p-1")
        assert (await hand.claim("s")).verdict is Verdict.OK
        with pytest.raises(OutcomeUnknown, match="p-1"):
            await waiting
    assert [entry.message_id for entry in (await session.snapshot()).inbox.in_flight] == ["p-1"]


@pytest.mark.parametrize("how", ["cancel", "clear", "close"])
async def test_a_waiting_prompt_that_was_taken_away_is_named(session: Session, how: str) -> None:
    async with session.guard() as guard:
        waiting = asyncio.create_task(guard.prompt("waits", message_id="p-1"))
        await until(session, "inbox.inserted", message_id="p-1")
        if how == "cancel":
            await session.cancel()
        elif how == "clear":
            await session.inbox.clear()
        else:
            await session.close()
        with pytest.raises(CancelConflict, match="p-1"):
            await waiting


async def test_an_expectation_holds_under_the_guard_too(session: Session) -> None:
    async with session.guard() as guard:
        with pytest.raises(TurnChanged):
            await guard.cancel(expected_turn=3)


@pytest.mark.parametrize("kind", ["turn", "handler"])
async def test_a_prompt_from_inside_the_session_is_refused_at_once(session: Session, kind: str) -> None:
    async with session.guard() as guard:
        with inside(kind, "s"), pytest.raises(Reentry, match="prompt"):  # type: ignore[arg-type]
            await guard.prompt("x")
