"""What agent code does that nobody expects: its turn ends with a sentence, and its worker goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from coordinator.domain.errors import AgentInvalid, ResetFailed
from coordinator.domain.records import Ownership
from coordinator.settings import Settings
from coordinator.store.store import Store
from tests.workers.contexts import Contextual, begin, used
from tests.workers.rig import Puppet, Rig, replaced, rig
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd

pytestmark = pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)


class Panic(BaseException):
    """As what Rust extensions raise: no Exception."""


class Untellable(Exception):
    """An error whose text fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


ODD: list[tuple[BaseException, str]] = [
    (Panic("gone"), "AgentCrashed: The agent's code raised Panic: gone."),
    (SystemExit(3), "AgentCrashed: The agent's code raised SystemExit: 3."),
    (KeyboardInterrupt(), "AgentCrashed: The agent's code raised KeyboardInterrupt."),
    (ValueError("bad \udcff name"), "ValueError: bad \\udcff name"),
    (Untellable(), "Untellable (its text can't be had)"),
    (KeyError(), "KeyError"),
]
odd = pytest.mark.parametrize(("error", "told"), ODD, ids=[type(error).__name__ for error, _ in ODD])


async def one_more(deployment: Rig) -> None:
    """The worker works on."""
    await deployment.send("other", "hello")
    assert await deployment.ends("other") == ["completed"]


@odd
@pytest.mark.parametrize("accepted", [True, False])
async def test_whatever_a_prompt_raises_ends_its_turn(
    settings: Settings, error: BaseException, told: str, accepted: bool
) -> None:
    puppet = Puppet()

    async def raises(prompt: Prompt, turn: Turn) -> TurnEnd:
        if prompt.session_id == "s":
            if accepted:
                await turn.accepted()
            raise error
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = raises
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        (end,) = await deployment.until("s", "turn.ended")
        assert (end.fields["reason"], end.fields["error"]) == ("error", told)
        await one_more(deployment)


@pytest.mark.parametrize("said", [b"bytes", bytearray(20_000), 5, None], ids=lambda said: type(said).__name__)
async def test_emitting_what_is_no_text_ends_the_turn_with_a_sentence(settings: Settings, said: Any) -> None:
    """What was said before is kept, and the execution goes on."""
    puppet = Puppet()

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.emit("good")
        await turn.emit(said if prompt.session_id == "s" else "text")
        return TurnEnd(prompt.ownership)

    puppet.on_prompt = prompt
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        (end,) = await deployment.until("s", "turn.ended")
        assert end.fields["error"].startswith("AgentInvalid: What an agent emits is text")
        assert end.fields["error"].endswith(f"not {type(said).__name__}.")
        assert [entry.fields["text"] for entry in await deployment.until("s", "output")] == ["good"]
        await one_more(deployment)


async def test_of_two_reports_of_a_turn_the_first_counts(settings: Settings) -> None:
    """Invariant 3: one accepted outcome. A provider's callback and its error path may both report."""
    puppet, answers = Puppet(), list[bool]()

    async def prompt(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        answers.append(await turn.report(TurnEnd(prompt.ownership)))
        answers.append(await turn.report(TurnEnd(prompt.ownership, "error", "second")))
        return TurnEnd(prompt.ownership, "blocked")

    puppet.on_prompt = prompt
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        (end,) = await deployment.until("s", "turn.ended")
        assert end.fields["reason"] == "completed"
        assert answers == [True, False]


@odd
async def test_whatever_a_start_raises_is_a_failed_start(settings: Settings, error: BaseException, told: str) -> None:
    puppet = Puppet()

    async def raises(execution: Execution) -> None:
        if execution.session_id == "s":
            raise error

    puppet.on_start = raises
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        (failed,) = await deployment.until("s", "error")
        assert (failed.fields["where"], failed.fields["message"]) == ("start", told)
        await one_more(deployment)


async def test_a_factory_that_exits_is_a_failed_start(settings: Settings) -> None:
    def make() -> Puppet:
        raise SystemExit("no licence")

    async with rig(settings, make) as deployment:
        await deployment.send("s", "one")
        (failed,) = await deployment.until("s", "error")
        assert failed.fields["message"] == "AgentCrashed: The agent's code raised SystemExit: no licence."
        assert deployment.task is not None
        assert not deployment.task.done()


@odd
async def test_whatever_a_reset_raises_is_a_failed_reset(settings: Settings, error: BaseException, told: str) -> None:
    """At once: nobody waits for what will never be said."""
    puppet = Contextual()

    async def raises() -> None:
        raise error

    puppet.on_reset = raises
    async with rig(settings, puppet) as deployment:
        await used(deployment)
        with pytest.raises(ResetFailed) as caught:
            await begin(deployment)
        assert told in str(caught.value)
        await one_more(deployment)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"error": None}, "TurnEnd.error is text, empty for none, and not NoneType."),
        ({"reason": None}, "TurnEnd.reason is text, empty for none, and not NoneType."),
        ({"resume_token": b"x"}, "TurnEnd.resume_token is text, empty for none, and not bytes."),
        ({"resume_token": "\udcff"}, "TurnEnd.resume_token has characters that UTF-8 can't carry"),
    ],
)
async def test_an_end_that_is_no_text_is_refused_where_it_is_made(
    settings: Settings, options: dict[str, Any], told: str
) -> None:
    puppet = Puppet()

    async def ends(prompt: Prompt, turn: Turn) -> TurnEnd:
        return TurnEnd(prompt.ownership, **options)

    puppet.on_prompt = ends
    async with rig(settings, puppet) as deployment:
        await deployment.send("s", "one")
        (end,) = await deployment.until("s", "turn.ended")
        assert end.fields["error"].startswith(f"AgentInvalid: {told}")
    with pytest.raises(AgentInvalid, match="TurnEnd"):
        TurnEnd(Ownership("x", 1, "c"), **options)


@pytest.mark.parametrize("token", [None, 5, "\udcff"])
def test_a_resume_token_is_text_that_can_be_given_back(store: Store, token: Any) -> None:
    execution = Execution("s", "x", "w", "before", store)
    with pytest.raises(AgentInvalid, match=r"Execution\.resume_token"):
        execution.resume_token = token
    assert execution.resume_token == "before"


async def test_what_utf_8_cant_carry_is_said_all_the_same(settings: Settings) -> None:
    """Streams come from processes whose bytes are anything."""

    async def agent(prompt: Prompt, turn: Turn) -> None:
        await turn.emit("a \udcff b")

    async with rig(settings, agent) as deployment:
        await deployment.send("s", "one")
        assert await deployment.ends("s") == ["completed"]
        assert await deployment.said("s") == "a ? b"


async def test_an_abandoned_call_is_not_kept_by_what_it_raises(settings: Settings) -> None:
    """An agent that is told to end, and exits instead, is still one that was stopped."""
    puppet = Puppet()

    async def exits(prompt: Prompt, turn: Turn) -> TurnEnd:
        await turn.accepted()
        try:
            await asyncio.Event().wait()
        finally:
            raise SystemExit(1)

    puppet.on_prompt = exits
    async with rig(replaced(settings, drain=0.2), puppet) as deployment:
        await deployment.send("s", "one")
        await deployment.until("s", "agent.running")
        await deployment.end()
        assert await deployment.ends("s") == ["interrupted"]
