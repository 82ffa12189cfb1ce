"""Whole turns: a worker over a real server, from a message to its turn's end."""

from __future__ import annotations

import asyncio

import pytest

from coordinator.domain.errors import Reentry
from coordinator.domain.records import Ownership, SessionPolicy
from coordinator.settings import Settings
from tests.workers.rig import BOUND, SELF_SETTLED, Puppet, Rig, rig, until
from workers.agents.protocol import DispatchFailed, Prompt, Turn, TurnEnd

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


async def test_messages_run_in_order_on_one_execution(settings: Settings) -> None:
    """The first is placed by arq; the others find the execution alive, and are hinted to it."""
    puppet = Puppet()
    async with rig(settings, puppet) as deployment:
        for word in ("one", "two", "three"):
            await deployment.send("s", word)
        assert await deployment.ends("s", 3) == ["completed"] * 3
        await deployment.send("s", "four")
        assert await deployment.ends("s", 4) == ["completed"] * 4
    assert [prompt.text for prompt in puppet.prompts] == ["one", "two", "three", "four"]
    assert [prompt.ownership.generation for prompt in puppet.prompts] == [1, 2, 3, 4]
    assert len(puppet.started) == 1


async def test_a_short_turn_costs_three_scripts(settings: Settings) -> None:
    """Claim, acceptance, finish; the text travels with the last."""

    async def agent(prompt: Prompt, turn: Turn) -> None:
        await turn.emit(prompt.text)

    async with rig(settings, agent) as deployment:
        await deployment.send("s", "warm up")
        await deployment.ends("s")
        redis = deployment.kernel.store.redis
        before = (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"]
        await deployment.send("s", "hi")
        await deployment.ends("s", 2)
        calls = (await redis.info("commandstats"))["cmdstat_evalsha"]["calls"] - before
        # A heartbeat may fall in between: its renewal is one more.
        assert calls in {1 + 3, 1 + 3 + 1}
        assert await deployment.said("s") == "warm uphi"


async def test_a_turn_sees_its_whole_prompt(settings: Settings) -> None:
    """All next-step messages, then one of next-turn; the text is their bodies."""
    puppet = Puppet()
    async with rig(settings) as deployment:
        await deployment.send("s", "note", list="next-step", wake=False)
        await deployment.send("s", "task")
        await deployment.start(puppet)
        await deployment.ends("s")
    (prompt,) = puppet.prompts
    assert [message.list for message in prompt.messages] == ["next-step", "next-turn"]
    assert prompt.text == "note\ntask"
    assert (prompt.session_id, prompt.turn, prompt.attempt) == ("s", 1, 1)


async def test_output_is_accepted_by_the_agents_own_word(settings: Settings) -> None:
    """An agent that is no plain function accepts by `accepted()`, awaited or not, or by its first output."""
    puppet = Puppet()

    async def accepts(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.text == "await":
            await turn.accepted()
        elif prompt.text == "say":
            _ = turn.accepted()
        await until(lambda: bool(turn.cancelled.is_set()) or accepted.is_set())
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = accepts
    async with rig(settings, puppet) as deployment:
        for count, word in enumerate(("await", "say"), 1):
            accepted = asyncio.Event()
            await deployment.send("s", word)
            await deployment.until("s", "agent.running", count)
            assert len(await deployment.log("s", "turn.ended")) == count - 1
            accepted.set()
            await deployment.ends("s", count)


async def test_steering_enters_at_step_boundaries(settings: Settings) -> None:
    """What was said before is in the log before; each message is taken once."""
    async with rig(settings, "workers.agents.scripted:agent") as deployment:
        await deployment.send("s", "say first\nhold go\nstep\nstep")
        await deployment.until("s", "output")
        await deployment.send("s", "left", list="next-step")
        await deployment.send("s", "right", list="next-step", wake=False)
        await deployment.kernel.store.redis.set("coord:scripted:go", "1")
        await deployment.ends("s")
        assert await deployment.said("s") == "firststeered: left\nsteered: right"


async def test_an_exception_is_an_error_end_and_consumes_its_messages(settings: Settings) -> None:
    """The error is told, and the execution is used again."""
    puppet = Puppet()

    async def fails(prompt: Prompt, turn: Turn) -> TurnEnd:
        raise ValueError(prompt.text)

    puppet.on_prompt = fails
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "boom")
        (ended,) = await deployment.until("s", "turn.ended")
        assert (ended.fields["reason"], ended.fields["error"]) == ("error", "ValueError: boom")
        puppet.on_prompt = None
        await deployment.send("s", "again")
        assert await deployment.ends("s", 2) == ["error", "completed"]
    assert len(puppet.started) == 1


async def test_a_failed_dispatch_gives_the_messages_back_three_times(settings: Settings) -> None:
    """Then they are parked until the next wake; each attempt is a generation of its own."""
    puppet = Puppet()

    async def fails(prompt: Prompt, turn: Turn) -> TurnEnd:
        raise DispatchFailed("the agent's pipe is closed")

    puppet.on_prompt = fails
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "try")
        assert await deployment.ends("s", 3) == ["error"] * 3
        await deployment.coord.session("s").wait_idle(BOUND)
        seen = await deployment.kernel.snapshots.read("s")
        assert [entry.body for entry in seen.inbox.next_turn] == ["try"]
        assert not seen.inbox.next_turn[0].awake
    assert [prompt.attempt for prompt in puppet.prompts] == [1, 2, 3]


@pytest.mark.parametrize(
    ("end", "says"),
    [
        (TurnEnd(Ownership("x", 99, "c")), "answered prompt"),
        (TurnEnd(Ownership("x", 0, ""), "escalated"), "answered prompt"),
        ("completed", "returned str where a TurnEnd belongs"),
        (None, "returned NoneType"),
    ],
)
async def test_an_adapter_that_mixes_prompts_up_is_found_out(settings: Settings, end: TurnEnd, says: str) -> None:
    """The end that it gave is thrown away, and the real prompt ends as an error."""
    puppet = Puppet()

    async def mixes(prompt: Prompt, turn: Turn) -> TurnEnd:
        return end

    puppet.on_prompt = mixes
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "x")
        (ended,) = await deployment.until("s", "turn.ended")
        assert ended.fields["reason"] == "error"
        assert says in ended.fields["error"]


async def test_an_unknown_reason_is_refused(settings: Settings) -> None:
    """What only Redis may decide, an agent can't claim."""
    puppet = Puppet()

    async def claims(prompt: Prompt, turn: Turn) -> TurnEnd:
        return TurnEnd(prompt.ownership, "escalated")

    puppet.on_prompt = claims
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "x")
        (ended,) = await deployment.until("s", "turn.ended")
        assert ended.fields["reason"] == "error"
        assert "'escalated' as the reason" in ended.fields["error"]


async def test_an_agent_that_cancels_itself_ends_as_an_error(settings: Settings) -> None:
    """Nobody asked for it, so it is no cancel."""
    puppet = Puppet()

    async def gives_up(prompt: Prompt, turn: Turn) -> TurnEnd:
        raise asyncio.CancelledError

    puppet.on_prompt = gives_up
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "x")
        assert await deployment.ends("s") == ["error"]


async def test_a_turn_can_send_to_its_session_but_not_wait_for_it(settings: Settings) -> None:
    """And a task that outlives the turn may."""
    seen: list[str] = []
    later: list[asyncio.Task[object]] = []

    async def agent(prompt: Prompt, turn: Turn) -> None:
        if prompt.text == "first":
            await turn.session.send("second")
            with pytest.raises(Reentry):
                await turn.session.wait_idle(1)

            async def outlives() -> None:
                await over.wait()
                await turn.session.wait_idle(BOUND)

            later.append(asyncio.create_task(outlives()))
        seen.append(prompt.text)

    over = asyncio.Event()
    async with rig(settings, agent) as deployment:
        await deployment.send("s", "first")
        await deployment.ends("s", 2)
        over.set()
        await later[0]
    assert seen == ["first", "second"]


async def test_a_held_guard_keeps_the_next_turn_and_its_release_lets_it_go(settings: Settings) -> None:
    """The driver waits with its claim, and is told."""
    puppet = Puppet()
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.ends("s")
        guard = await deployment.kernel.guards.acquire("s", "tester")
        await deployment.send("s", "two")
        await asyncio.sleep(0.2)
        assert len(puppet.prompts) == 1
        await deployment.kernel.guards.release("s", "tester", guard.number)
        assert await deployment.ends("s", 2) == ["completed"] * 2


async def test_an_unsettled_turn_keeps_the_next_one(settings: Settings) -> None:
    """Until a replica has settled it; here nobody does, and the claim stays without effect."""
    puppet = Puppet()
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one", SessionPolicy())
        await deployment.ends("s")
        await deployment.send("s", "two", SessionPolicy())
        await asyncio.sleep(0.2)
        assert len(puppet.prompts) == 1
        assert (await deployment.kernel.snapshots.read("s")).waiting_for == "settlement"


async def test_many_sessions_run_side_by_side(settings: Settings) -> None:
    """More than one hand-over takes at once, and each in its own order."""

    async def agent(prompt: Prompt, turn: Turn) -> None:
        await turn.emit(prompt.text)

    async with rig(settings, agent) as deployment:
        names = [f"s{number}" for number in range(40)]
        await asyncio.gather(*(_run_three(deployment, name) for name in names))
        assert {await deployment.said(name) for name in names} == {"012"}


async def _run_three(deployment: Rig, name: str) -> None:
    for number in range(3):
        await deployment.send(name, str(number), SELF_SETTLED)
    await deployment.ends(name, 3)
