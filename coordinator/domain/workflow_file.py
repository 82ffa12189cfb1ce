"""Reading a file of workflows: everything that is wrong in it is told at once, each with its line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec

from coordinator.domain import workflow_rules
from coordinator.domain.errors import InvalidId, WorkflowInvalid
from coordinator.domain.ids import check_id
from coordinator.domain.toml_lines import Path as Place
from coordinator.domain.toml_lines import first_line, lines_of
from coordinator.domain.workflow import Step, Workflow, Workflows
from coordinator.domain.workflow_rules import Draft

_TYPES: Final[dict[str, type]] = {field.name: field.type for field in msgspec.structs.fields(Step)}
_LEADS: Final = frozenset({"on_turn_complete", "terminal"})
"""The keys that say where a turn's end leads."""
_KINDS: Final[dict[type, str]] = {
    str: "a string",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "an array",
    dict: "a table",
}
_POSITION: Final = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def load(path: str | os.PathLike[str]) -> Workflows:
    """Read and check a file. Raises WorkflowInvalid."""
    shown = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise WorkflowInvalid(f"{shown} can't be read: {error.strerror}.") from error
    reader = _Reader()
    try:
        found = reader.read(_decoded(data))
    except _NoTomlError as error:
        found, reader.problems = [], [(error.line, str(error))]
    if reader.problems:
        ordered = sorted(reader.problems, key=lambda problem: problem[0])
        raise WorkflowInvalid("\n".join(f"{shown}:{line}: {sentence}" for line, sentence in ordered))
    return Workflows(found)


class _NoTomlError(Exception):
    """Raised when the text has no structure to look at."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(f"this is no TOML: {why}.")
        self.line = line


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _NoTomlError(data[: error.start].count(b"\n") + 1, "it is not UTF-8") from error


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise _NoTomlError(1, "it is nested too deeply") from error
    except ValueError as error:
        why = str(error)
        position = _POSITION.search(why)
        if position is None or position[1] is None:
            last = max(1, text.count("\n") + (not text.endswith("\n")))
            raise _NoTomlError(last if position else 1, _POSITION.sub(" (at the end)", why)) from error
        why, line = why[: position.start()], int(position[1])
        if why.startswith("Cannot "):
            # Names that are taken: the position is behind the value, which may be of many lines.
            raise _NoTomlError(first_line(text, line), why) from error
        raise _NoTomlError(line, f"{why} (column {position[2]})") from error


class _Reader:
    """From a text to workflows. What is wrong is in `problems`, line and sentence, in no order."""

    def __init__(self) -> None:
        self.problems: list[tuple[int, str]] = []
        self._lines: dict[Place, int] = {}

    def read(self, text: str) -> list[Workflow]:
        document = _parsed(text)
        self._lines = lines_of(text)
        self._unknown((), "", document, ("workflow",))
        tables = document.get("workflow", {})
        if tables == {}:
            if not self.problems:
                self._complain((), "", "there is no workflow; begin one with [workflow.NAME].")
            return []
        if not isinstance(tables, dict):
            self._complain(("workflow",), "", f"workflow is {_kind(tables)}; begin each with [workflow.NAME].")
            return []
        return [workflow for name, table in tables.items() for workflow in self._workflow(name, table)]

    def _workflow(self, name: str, table: Any) -> Iterator[Workflow]:
        place, label = ("workflow", name), workflow_rules.label(name)
        try:
            check_id("workflow", name)
        except InvalidId as error:
            self._complain(place, "", str(error))
        if not isinstance(table, dict):
            self._complain(place, label, f"it is {_kind(table)}, and has to be a table.")
            return
        meant = self._unknown(place, label, table, ("start", "step"))
        steps = self._steps(name, table.get("step", [] if "step" not in meant else None))
        start = table.get("start")
        if start is None and "start" not in meant:
            self._complain(place, label, "start is missing; it names the step that a session enters first.")
        elif start is not None and not isinstance(start, str):
            self._complain((*place, "start"), label, f"start is {_kind(start)}, and has to be a string.")
            start = None
        if not steps:
            return
        for problem in workflow_rules.problems(steps, start):
            at = problem.at
            where = place if at is None else (*place, "step", at)
            said = label if at is None else workflow_rules.label(name, at, steps[at].step.name)
            self._complain((*where, problem.key) if problem.key else where, said, problem.sentence)
        yield Workflow(name=name, start=start or "", steps=tuple(draft.step for draft in steps))

    def _steps(self, workflow: str, found: Any) -> list[Draft]:
        place, label = ("workflow", workflow), workflow_rules.label(workflow)
        begin = f"begin each step with [[workflow.{workflow}.step]]"
        if found is None:
            return []
        if not isinstance(found, list):
            self._complain((*place, "step"), label, f"step is {_kind(found)}; {begin}.")
            return []
        if not found:
            self._complain(place, label, f"it has no steps; {begin}.")
        return [self._step(workflow, at, table) for at, table in enumerate(found)]

    def _step(self, workflow: str, at: int, table: Any) -> Draft:
        place: Place = ("workflow", workflow, "step", at)
        before = len(self.problems)
        if not isinstance(table, dict):
            self._complain(place, workflow_rules.label(workflow, at), f"it is {_kind(table)}, and has to be a table.")
            return Draft(step=Step(name=""), is_sound=False, knows_target=False)
        name = table.get("name")
        label = workflow_rules.label(workflow, at, name)
        meant = self._unknown(place, label, table, _TYPES)
        good: dict[str, Any] = {"name": ""}
        for key, kind in _TYPES.items():
            value = table.get(key)
            if isinstance(value, kind):
                good[key] = value
            elif value is not None:
                self._complain((*place, key), label, f"{key} is {_kind(value)}, and has to be {_KINDS[kind]}.")
                meant.add(key)
        if name == "" or (name is None and "name" not in meant):
            self._complain((*place, "name") if name == "" else place, label, "it has no name.")
        return Draft(
            step=Step(**good),
            is_sound=len(self.problems) == before,
            knows_target=not meant & _LEADS,
        )

    def _unknown(self, place: Place, label: str, table: dict[str, Any], known: Collection[str]) -> set[str]:
        """Complain of unknown keys; gives the known ones that seem to be meant."""
        meant = set()
        for key in table:
            if key in known:
                continue
            near = get_close_matches(key, known, 1)
            meant.update(near)
            told = f"did you mean {near[0]!r}?" if near else f"there {_listed(known)}."
            self._complain((*place, key), label, f"there is no key {key!r}; {told}")
        return meant

    def _complain(self, place: Place, label: str, sentence: str) -> None:
        while place and place not in self._lines:
            place = place[:-1]
        self.problems.append((self._lines.get(place, 1), label + sentence))


def _listed(names: Collection[str]) -> str:
    return f"is {next(iter(names))}" if len(names) == 1 else f"are {', '.join(names)}"


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), "a date or time")
