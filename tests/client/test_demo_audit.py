"""The demo's count can fail: it finds what is lost, what is left running, and what was taken twice."""

from __future__ import annotations

from coordinator import Coordinator
from coordinator.cli.demo_audit import audit
from tests.client.hand import Hand


async def test_messages_in_turns_in_the_inbox_and_discarded_are_accounted_for(coord: Coordinator, hand: Hand) -> None:
    session, closed = coord.session("s"), coord.session("closed")
    await session.open()
    await closed.open()
    sent = [("s", (await session.send("work")).message_id)]
    await hand.turn("s")
    sent.append(("s", (await session.send("parked", wake=False)).message_id))
    sent.append(("closed", (await closed.send("never", wake=False)).message_id))
    await closed.close()
    found = await audit(coord, sent, settle=1)
    assert found.problems == ()
    assert found.line == "sessions=2 turns=1 stale=0 lost_messages=0"


async def test_a_message_that_is_nowhere_is_lost(coord: Coordinator) -> None:
    session, store = coord.session("s"), coord.kernel.store
    await session.open()
    message_id = (await session.send("work", wake=False)).message_id
    await store.redis.delete(store.keys.session("s")["next_turn"])
    found = await audit(coord, [("s", message_id), ("s", "never-arrived")], settle=1)
    assert found.lost_messages == 2
    assert [problem.endswith("is lost") for problem in found.problems] == [True, True]


async def test_a_running_or_unsettled_session_is_a_problem(coord: Coordinator, hand: Hand) -> None:
    running, unsettled = coord.session("running"), coord.session("unsettled")
    sent = []
    for session in (running, unsettled):
        await session.open()
        sent.append((session.id, (await session.send("work")).message_id))
    await hand.end("unsettled", await hand.begin("unsettled"))
    found = await audit(coord, sent, settle=0.1)
    assert found.lost_messages == 0
    assert any("running was left running" in problem for problem in found.problems)
    assert any("unsettled ended turns ['1'] and settled []" in problem for problem in found.problems)


async def test_a_message_taken_twice_is_a_problem(coord: Coordinator, hand: Hand) -> None:
    session, store = coord.session("s"), coord.kernel.store
    await session.open()
    message_id = (await session.send("work")).message_id
    await hand.turn("s")
    log = store.keys.session("s")["log"]
    await store.redis.xadd(log, {"type": "inbox.claimed", "message_id": message_id, "turn": "2"})
    found = await audit(coord, [("s", message_id)], settle=1)
    assert found.problems == (f"message {message_id} of s is in several places",)
