"""Which things are agents, and what is said about those that are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from coordinator.domain.errors import AgentInvalid
from coordinator.domain.records import Ownership
from tests.workers.rig import Puppet
from workers.agents.function import FunctionAgent, factory_of, load_agent
from workers.agents.protocol import Agent, Prompt, Turn, TurnEnd
from workers.agents.scripted import ScriptedAgent

OWNERSHIP = Ownership("x", 1, "c")
PROMPT = Prompt("s", "text", (), OWNERSHIP, 1, 1)


async def plain(prompt: Prompt, turn: Turn) -> None:
    """An agent that does nothing."""


def no_agent(one: object, two: object) -> None:
    """Neither async nor without parameters."""


def gives_nothing() -> None:
    """A factory of no agents."""


class HalfAnAgent:
    async def start(self, execution: object) -> None: ...


class NeedsArguments(Puppet):
    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


class Callable2:
    async def __call__(self, prompt: Prompt, turn: Turn) -> None: ...


def test_a_plain_function_is_shared_by_all_executions() -> None:
    """One function, one agent: it holds nothing between prompts."""
    factory = factory_of(plain)
    assert factory() is factory()
    assert isinstance(factory(), FunctionAgent)


async def test_a_plain_functions_end_is_filled_in() -> None:
    """Who returns nothing has completed the prompt that it was given."""
    end = await FunctionAgent(plain).prompt(PROMPT, None)  # type: ignore[arg-type]
    assert end == TurnEnd(OWNERSHIP, "completed")


def test_a_class_gives_a_fresh_agent_for_each_execution() -> None:
    """Agents hold a process or a conversation, so no two sessions share one."""
    factory = factory_of(Puppet)
    assert isinstance(factory(), Agent)
    assert factory() is not factory()


def test_a_function_without_parameters_is_a_factory() -> None:
    """So is the scripted agent's."""
    factory = load_agent("workers.agents.scripted:agent")
    assert isinstance(factory(), ScriptedAgent)
    assert factory() is not factory()


def test_an_agent_itself_and_an_awaitable_object_are_shared() -> None:
    """They were made by who gave them, once."""
    puppet = Puppet()
    assert factory_of(puppet)() is puppet
    assert isinstance(factory_of(Callable2())(), FunctionAgent)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing", "module:name"),
        (":agent", "module:name"),
        ("tests.workers.missing:agent", "can't be imported: ModuleNotFoundError"),
        ("tests.workers.test_loading:absent", "has no absent"),
        ("tests.workers.test_loading:no_agent", "no arguments"),
        ("tests.workers.test_loading:PROMPT", "of type Prompt"),
        ("tests.workers.test_loading:HalfAnAgent", "without the async method prompt, reset, stop"),
        ("tests.workers.test_loading:NeedsArguments", "missing a required argument: 'key'"),
    ],
)
def test_what_is_no_agent_is_refused_and_the_sentence_says_why(name: str, says: str) -> None:
    """The error names the thing, its fault, and for a wrong shape all that is allowed."""
    with pytest.raises(AgentInvalid, match=says) as caught:
        load_agent(name)
    assert name.partition(":")[0] in str(caught.value) or "module:name" in str(caught.value)


def test_a_factory_that_gives_no_agent_is_found_out_when_it_is_asked() -> None:
    """Only calling it shows what it gives."""
    factory = factory_of(gives_nothing, "the factory")
    with pytest.raises(AgentInvalid, match="what the factory returns is of type NoneType"):
        factory()


def test_a_module_that_fails_is_named_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken agent module is its author's to mend: they get its error, and no traceback of ours."""
    (tmp_path / "broken_agent.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(AgentInvalid, match="broken_agent can't be imported: ZeroDivisionError"):
        load_agent("broken_agent:agent")
    assert "broken_agent" not in sys.modules
