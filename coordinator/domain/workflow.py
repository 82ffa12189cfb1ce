"""A workflow: named steps, and what the end of a turn does in each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Final

import msgspec

from coordinator.domain.errors import WorkflowInvalid
from coordinator.domain.texts import told

NEXT: Final = "next"
STAY: Final = "stay"


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step. Names are the keys of the file."""

    name: str
    """An id, and neither `next` nor `stay`."""
    prompt: str = ""
    """What entering the step sends first in line, if it starts by itself; nothing sends it otherwise."""
    auto_start: bool = False
    reset_agent_context: bool = False
    """Whether entering it gives the agent a fresh context first; a turn that is open then is stopped."""
    on_turn_complete: str = STAY
    """Where a turn's end leads: `next`, the step that follows in the file, `stay`, or a step's name."""
    cancel_triggers_turn_complete: bool = False
    """Whether a turn that a person stopped counts as completed here."""
    requires_signal: bool = False
    """Whether a turn's end leads on only after a signal for this entry into the step. A person's stop needs none."""
    terminal: bool = False
    """Whether a turn's end never leads on. A move still does."""
    by_move: bool = False
    """Whether the step is meant to be reached by moves, so that no step before it has to lead to it."""


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """Steps in their order. One made in Python is checked, as a file is, by the Orchestrator that is given it."""

    name: str
    start: str
    """The step that a session enters when it is opened on the workflow."""
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step | None:
        """The step of that name, or None."""
        return next((step for step in self.steps if step.name == name), None)

    def after(self, name: str) -> str:
        """The step that a completed turn leads to from this one, or "" to stay: signals are the caller's to see to."""
        step = self.step(name)
        if step is None or step.terminal or step.on_turn_complete == STAY:
            return ""
        if step.on_turn_complete != NEXT:
            return step.on_turn_complete
        following = self.steps.index(step) + 1
        return self.steps[following].name if following < len(self.steps) else ""

    def to_json(self) -> str:
        """What is published of it; defaults are left out. Raises WorkflowInvalid if that can't be."""
        try:
            return msgspec.json.encode(self).decode()
        except (UnicodeEncodeError, TypeError) as error:
            raise WorkflowInvalid(f"Workflow {self.name!r} can't be published: {told(error)}.") from error

    @classmethod
    def from_json(cls, text: str) -> Workflow:
        """Read what was published; keys that a later version may have added are ignored. Raises WorkflowInvalid."""
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise WorkflowInvalid(
                f"A published workflow can't be read ({error}); start an orchestrator with its file."
            ) from error

    @staticmethod
    def from_toml(path: str | PathLike[str]) -> Workflows:
        """Read all workflows of a file.

        Raises WorkflowInvalid when something in it is wrong, or it can't be read: a sentence with its line for each.
        """
        from coordinator.domain.workflow_file import load

        return load(path)


class Workflows(Mapping[str, Workflow]):
    """Workflows by name, in the file's order. Raises WorkflowInvalid when two have the same."""

    def __init__(self, workflows: Iterable[Workflow] = ()) -> None:
        self._named: dict[str, Workflow] = {}
        for workflow in workflows:
            if workflow.name in self._named:
                raise WorkflowInvalid(f"There are two workflows {workflow.name!r}; give one another name.")
            self._named[workflow.name] = workflow

    def __getitem__(self, name: str) -> Workflow:
        return self._named[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._named)

    def __len__(self) -> int:
        return len(self._named)

    def __repr__(self) -> str:
        return f"Workflows({list(self._named.values())!r})"
