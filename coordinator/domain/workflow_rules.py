"""What steps must be to each other: names, targets, reachability, loops.

A turn's end is the only thing that leads from step to step by itself, so a loop takes a turn for each of its steps. One
in which no step starts a turn is refused: it does no work, and each message that somebody sends only changes the step's
name; a prompt or `auto_start` was forgotten. One whose every step starts by itself goes on until somebody stops it:
that is what a loop of agents is for.

A move leads to any step, so a step that only moves lead to says so (`by_move`); of any other that no turn's end leads
to it is more likely that a name is wrong.

What a part of the file that is wrong itself could have meant is taken to be right: no problem follows from another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec

from coordinator.domain.errors import InvalidId, WorkflowInvalid
from coordinator.domain.ids import check_id
from coordinator.domain.workflow import NEXT, STAY, Step, Workflow


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """A step as it was found, with defaults for what is wrong in it."""

    step: Step
    """Its name is empty if there is none."""
    is_sound: bool = True
    """Whether each of its keys is known and of its type."""
    knows_target: bool = True
    """Whether `on_turn_complete` is what the file says."""


class Problem(msgspec.Struct, frozen=True):
    """A sentence about a step, by its place in the file, or about the workflow's start (None)."""

    at: int | None
    key: str
    """Empty for the step as a whole."""
    sentence: str


def problems(drafts: Sequence[Draft], start: str | None) -> Iterator[Problem]:
    """Compare one workflow's steps, at least one, with each other. `start` is None if the file does not say."""
    names = _Names(drafts)
    yield from _names(drafts)
    if start is not None and names.misses(start):
        yield Problem(None, "start", f"start names {start!r}, which is no step; there are {names.listed}.")
    targets = []
    for at, draft in enumerate(drafts):
        complaints = [Problem(at, key, sentence) for key, sentence in _alone(draft, names)]
        yield from complaints
        is_known = draft.knows_target and all(one.key != "on_turn_complete" for one in complaints)
        targets.append(_target(at, draft.step, names) if is_known else None)
    reached = _reached(drafts, targets, names.places.get(start or ""))
    for at, draft in enumerate(drafts):
        if at not in reached and names.places.get(draft.step.name, at) == at:
            yield Problem(
                at, "", f"nothing leads to it from {start!r}: name it in an on_turn_complete, or say by_move = true."
            )
    for loop in _loops(drafts, targets):
        if loop[0] in reached and (sentence := _about(loop, drafts)):
            yield Problem(max(loop), "on_turn_complete", sentence)


def checked(workflow: Workflow) -> Workflow:
    """Hold a workflow that was made in Python to what a file is held to; gives what others will read of it.

    Raises WorkflowInvalid, with a sentence for each thing that is wrong, or that it can't be published.
    """
    try:
        published = msgspec.json.decode(workflow.to_json(), type=Workflow)
    except msgspec.ValidationError as error:
        raise WorkflowInvalid(f"Workflow {workflow.name!r} can't be published: {error}.") from error
    found = list(_wrong(published))
    if found:
        raise WorkflowInvalid("\n".join(found))
    return published


def label(workflow: str, at: int | None = None, name: object = "") -> str:
    """Begin a sentence about a workflow, or about its step at that place, by the name that it has, if it has one."""
    if at is None:
        return f"workflow {workflow!r}: "
    shown = repr(name) if name and isinstance(name, str) else str(at + 1)
    return f"step {shown} of workflow {workflow!r}: "


def _wrong(workflow: Workflow) -> Iterator[str]:
    try:
        check_id("workflow", workflow.name)
    except InvalidId as error:
        yield str(error)
    if not workflow.steps:
        yield f"{label(workflow.name)}it has no steps."
        return
    for at, step in enumerate(workflow.steps):
        if not step.name:
            yield f"{label(workflow.name, at)}it has no name."
    for problem in problems([Draft(step=step) for step in workflow.steps], workflow.start):
        name = "" if problem.at is None else workflow.steps[problem.at].name
        yield label(workflow.name, problem.at, name) + problem.sentence


class _Names:
    def __init__(self, drafts: Sequence[Draft]) -> None:
        self.count = len(drafts)
        self.places: dict[str, int] = {}
        for at, draft in enumerate(drafts):
            self.places.setdefault(draft.step.name, at)
        # A step without a name may be the one that another names.
        self._are_complete = self.places.pop("", None) is None
        self.listed = ", ".join(self.places)

    def misses(self, name: str) -> bool:
        """Whether there is certainly no such step."""
        return self._are_complete and name not in self.places


def _names(drafts: Sequence[Draft]) -> Iterator[Problem]:
    seen: set[str] = set()
    for at, name in enumerate(draft.step.name for draft in drafts):
        if not name:
            continue
        try:
            check_id("step", name)
        except InvalidId as error:
            yield Problem(at, "name", str(error))
        if name in {NEXT, STAY}:
            yield Problem(at, "name", f"{name!r} is a word of on_turn_complete; give the step another name.")
        if name in seen:
            yield Problem(at, "name", "an earlier step has this name; give one of them another.")
        seen.add(name)


def _alone(draft: Draft, names: _Names) -> Iterator[tuple[str, str]]:
    """What is wrong with a step whatever leads to it: the key, and a sentence."""
    step, target = draft.step, draft.step.on_turn_complete
    if target not in {NEXT, STAY} and names.misses(target):
        yield "on_turn_complete", f"on_turn_complete names {target!r}, which is no step; there are {names.listed}."
    if step.terminal and target != STAY:
        yield "on_turn_complete", "on_turn_complete leads on from a terminal step; take one of the two away."
    if step.terminal and step.requires_signal:
        yield (
            "requires_signal",
            "requires_signal has nothing to let go on in a terminal step; take one of the two away.",
        )
    if draft.is_sound and step.auto_start and not step.prompt:
        yield "auto_start", "auto_start has no prompt to send; give the step one."


_Targets: TypeAlias = Sequence[tuple[int, ...] | None]
"""For each step the one that a turn's end leads to, if it leads anywhere; None where that can't be told."""


def _target(at: int, step: Step, names: _Names) -> tuple[int, ...] | None:
    if step.on_turn_complete == STAY:
        return ()
    if step.on_turn_complete == NEXT:
        return (at + 1,) if at + 1 < names.count else ()
    found = names.places.get(step.on_turn_complete)
    return None if found is None else (found,)


def _reached(drafts: Sequence[Draft], targets: _Targets, start: int | None) -> set[int]:
    """The steps that some turn's end, or a move that the file knows of, can lead to."""
    everything = set(range(len(drafts)))
    if start is None:
        return everything
    waiting = [start, *(at for at, draft in enumerate(drafts) if draft.step.by_move)]
    reached: set[int] = set()
    while waiting:
        at = waiting.pop()
        if at not in reached:
            reached.add(at)
            target = targets[at]
            waiting.extend(everything if target is None else target)
    return reached


def _loops(drafts: Sequence[Draft], targets: _Targets) -> Iterator[list[int]]:
    """Each loop once, from the step that is first in the file; through steps that are right only."""
    ahead = {at: target[0] for at, target in enumerate(targets) if target and drafts[at].is_sound}
    done: set[int] = set()
    for first in ahead:
        path: list[int] = []
        at: int | None = first
        while at is not None and at not in done:
            done.add(at)
            path.append(at)
            at = ahead.get(at)
        if at in path:
            loop = path[path.index(at) :]
            least = loop.index(min(loop))
            yield loop[least:] + loop[:least]


def _about(loop: list[int], drafts: Sequence[Draft]) -> str:
    steps = [drafts[at].step for at in loop]
    way = ", ".join(step.name for step in (*steps, steps[0]))
    if not any(step.auto_start for step in steps):
        return (
            f"on_turn_complete closes the loop {way}, in which no step starts an agent turn: give one of them a prompt "
            'and auto_start = true, or let one "stay".'
        )
    return ""
