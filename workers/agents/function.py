"""Agents by name: `module:name` to something that makes an agent for each execution."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, cast

from coordinator.domain.errors import AgentInvalid
from coordinator.domain.texts import told
from workers.agents.protocol import Agent, Execution, Prompt, Turn, TurnEnd

AgentFunction: TypeAlias = Callable[[Prompt, Turn], Awaitable[TurnEnd | None]]
AgentFactory: TypeAlias = Callable[[], Agent]

_METHODS: Final = ("start", "prompt", "reset", "stop")
_ALLOWED: Final = (
    "an agent is one of: an async function `async def agent(prompt, turn)`; "
    "a class, or a function without parameters, that gives an object with the async methods "
    "start(execution), prompt(prompt, turn), reset() and stop(); or such an object, shared by all sessions"
)


class FunctionAgent:
    """A plain async function as an agent: shared by all sessions, accepted by the host before its first line."""

    accepted_by_host: Final = True

    def __init__(self, function: AgentFunction) -> None:
        self._function = function

    async def start(self, execution: Execution) -> None:
        """Nothing to boot."""

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Call the function. Nothing returned means completed, and its ownership is filled in."""
        end = await self._function(prompt, turn)
        if end is None:
            return TurnEnd(prompt.ownership)
        return end

    async def reset(self) -> None:
        """Nothing is kept between prompts, but what a function's ends gave to resume from: its worker drops that."""

    async def stop(self) -> None:
        """Nothing to end."""


def load_agent(name: str) -> AgentFactory:
    """Find `module:name`; the working directory is searched too, as `python -m` does.

    Raises AgentInvalid: what can't be imported, is not there, or has not the shape of an agent.
    """
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise AgentInvalid(f"{name!r} names no agent: write module:name, such as workers.agents.scripted:agent.")
    if os.getcwd() not in sys.path and "" not in sys.path:  # noqa: PTH109 - entries of sys.path are text
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 - the same
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise AgentInvalid(f"The agent's module {module_name} can't be imported: {told(error)}.") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise AgentInvalid(f"The module {module_name} has no {path}; check the name after the colon.")
        found = getattr(found, part)
    return factory_of(found, name)


def factory_of(agent: object, name: str = "the agent") -> AgentFactory:
    """What makes an agent for each execution, from any of the allowed shapes.

    Raises AgentInvalid for anything else, and says what is allowed.
    """
    if inspect.isclass(agent):
        _check_methods(agent, name)
        _check_parameters(agent, 0, name)
        return cast("AgentFactory", agent)
    if inspect.iscoroutinefunction(agent):
        _check_parameters(agent, 2, name)
        shared = FunctionAgent(agent)
        return lambda: shared
    if all(hasattr(agent, method) for method in _METHODS):
        _check_methods(agent, name)
        return lambda: cast("Agent", agent)
    if inspect.iscoroutinefunction(getattr(agent, "__call__", None)):  # noqa: B004 - an object that is called and awaited
        _check_parameters(cast("Callable[..., Any]", agent), 2, name)
        called = FunctionAgent(cast("AgentFunction", agent))
        return lambda: called
    if callable(agent):
        _check_parameters(agent, 0, name)
        return _checked(agent, name)
    raise AgentInvalid(f"{name} is {_kind(agent)}; {_ALLOWED}.")


def _checked(factory: Callable[[], object], name: str) -> AgentFactory:
    def make() -> Agent:
        made = factory()
        _check_methods(made, f"what {name} returns")
        return cast("Agent", made)

    return make


def _check_methods(agent: object, name: str) -> None:
    wrong = [method for method in _METHODS if not inspect.iscoroutinefunction(getattr(agent, method, None))]
    if wrong:
        raise AgentInvalid(f"{name} is {_kind(agent)} without the async method {', '.join(wrong)}; {_ALLOWED}.")


def _check_parameters(function: Callable[..., Any], count: int, name: str) -> None:
    try:
        inspect.signature(function).bind(*(None,) * count)
    except TypeError as error:
        wanted = "(prompt, turn)" if count else "no arguments"
        raise AgentInvalid(f"{name} can't be called with {wanted}: {error}; {_ALLOWED}.") from error
    except ValueError:
        return  # Made in C: it does not tell, so the call will.


def _kind(agent: object) -> str:
    return f"the class {agent.__name__}" if inspect.isclass(agent) else f"of type {type(agent).__name__}"
