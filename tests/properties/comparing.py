"""What a session shows, against the model and against the invariants of PROTOCOL, section 11."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from coordinator.domain.records import Snapshot
from tests.properties.model import Model
from tests.scripts.scene import Scene
from tests.support.verdict import examine

SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "session.status": ("status",),
    "session.closed": (),
    "turn.started": ("turn",),
    "turn.ended": ("turn", "reason"),
    "turn.settled": ("turn", "outcome"),
    "turn.cancelled_by_user": ("turn",),
    "inbox.inserted": ("message_id",),
    "inbox.claimed": ("message_id",),
    "inbox.returned": ("message_id",),
    "inbox.moved": ("message_id",),
    "inbox.discarded": ("message_id", "why"),
    "cancel.requested": ("operation_id", "kind", "revision"),
    "cancel.settled": ("operation_id", "outcome", "revision"),
    "reset.started": ("reset_id",),
    "reset.committed": ("reset_id",),
    "reset.failed": ("reset_id",),
    "step.entered": ("step",),
    "move.pending": ("step",),
    "move.applied": ("step",),
    "question.asked": ("question_id",),
    "question.answered": ("question_id",),
    "question.expired": ("question_id", "why"),
}
RUNS: Final = frozenset({"placement", "lease", "start", "acceptance", "settlement", "cancel", "reset", "entry"})
"""Deadlines that end or move a running session."""


async def check(scene: Scene, model: Model, accepted: Collection[str] | None) -> None:
    """The session is the model's and keeps the invariants; with the ids of accepted messages its log is judged."""
    view, log = await scene.view(), await scene.log()
    _compare(view, model)
    shown = [(e["type"], *(e[name] for name in SHOWN[e["type"]])) for e in log if e["type"] in SHOWN]
    _same("log", shown[-12:], model.log[-12:])
    _same("entries", len(shown), len(model.log))
    for ticket, outcome in list(model.outcomes.items())[-2:]:
        _same(ticket, await scene.kernel.stops.outcome(scene.sid, ticket), outcome)
    for reset_id, ended in list(model.resets.items())[-1:]:
        _same(reset_id, (await scene.kernel.resets.state(scene.sid, reset_id))[0], ended)
    broken = [*_of_markers(view), *_of_rest(view), *_of_deadlines(view), *_of_settlements(log)]
    if accepted is not None:
        broken += map(str, (await examine(scene.kernel, scene.sid, sent=accepted)).violations)
    assert broken == [], broken


def _compare(view: Snapshot, model: Model) -> None:
    shown = [(entry.message_id, entry.awake) for entry in (*view.inbox.next_step, *view.inbox.next_turn)]
    flying = [one.message_id for one in view.inbox.in_flight]
    _same("pending", shown, [(one.id, model.is_awake(one)) for one in model.pending])
    _same("in flight", flying, [one.id for one in (model.prompt.batch if model.prompt else [])])
    wanted = {
        "phase": model.phase,
        "lifecycle": model.lifecycle,
        "turn": model.turn,
        "generation": model.generation,
        "unsettled": model.unsettled,
        "open": model.prompt.turn if model.prompt else 0,
        "operation": (model.operation[1] if model.operation else "", model.revision),
        "execution": (model.up, model.suspects, model.resume),
        "guard": model.guard,
    }
    _same("turns", _turns_of(view), wanted)
    wanted = {
        "reset": model.reset,
        "step": (model.workflow, model.step, model.entering, model.failed, model.signalled == model.entry > 0),
        "move": model.moving,
        "question": (model.question, model.question_turn),
    }
    _same("steps", _steps_of(view), wanted)


def _same(what: str, found: object, wanted: object) -> None:
    assert found == wanted, f"{what}: {found}, not {wanted}"


def _turns_of(view: Snapshot) -> dict[str, Any]:
    return {
        "phase": view.phase,
        "lifecycle": view.lifecycle,
        "turn": view.turn,
        "generation": view.generation,
        "unsettled": view.unsettled_turn,
        "open": view.open_turn,
        "operation": (view.cancel_kind, view.cancel_revision),
        "execution": (bool(view.execution_id), len(view.suspects), view.resume_token),
        "guard": view.guard_number if view.guard_owner else 0,
    }


def _steps_of(view: Snapshot) -> dict[str, Any]:
    return {
        "reset": view.reset_id if view.reset_pending else "",
        "step": (view.workflow, view.step, bool(view.entering), view.step_failed, view.signalled),
        "move": view.pending_move,
        "question": (view.question, view.question_turn),
    }


def _of_markers(view: Snapshot) -> list[str]:
    found = []
    if view.reset_pending and view.open_turn and view.cancel_kind not in {"system", "close"}:
        found.append(f"6: turn {view.open_turn} is open under a reset, stopped by {view.cancel_kind or 'nothing'}")
    if view.reset_pending and view.phase != ("running" if view.open_turn else "maintenance"):
        found.append(f"6: the session is {view.phase} under a reset")
    if view.reset_pending and not view.open_turn and (view.suspects or not view.execution_id):
        found.append("6: a provider is reset without an execution, or beside a suspect one")
    if view.lifecycle != "open" and (view.reset_pending or view.entering or view.question):
        found.append(f"{view.lifecycle}, with a reset, an entry or a question")
    return found


def _of_rest(view: Snapshot) -> list[str]:
    awake = any(entry.awake for entry in (*view.inbox.next_turn, *view.inbox.next_step))
    if view.phase == "idle" and view.lifecycle == "open" and awake:
        return ["10: idle, and a message is awake"]
    return []


def _of_deadlines(view: Snapshot) -> list[str]:
    """Whatever can hang has its deadline, and what is over has none."""
    there = {one.kind for one in view.deadlines}
    wanted = {
        "reset": view.reset_pending,
        "entry": bool(view.entering),
        "question": bool(view.question),
        "cancel": view.cancel_pending,
        "settlement": bool(view.unsettled_turn),
        "acceptance": bool(view.open_turn) and not view.accepted,
        "maintenance": view.phase == "maintenance" and not view.reset_pending,
        "lease": bool(view.execution_id),
    }
    found = [f"10: {kind} is {due}, deadlines are {there}" for kind, due in wanted.items() if due != (kind in there)]
    if view.phase == "running" and not there & RUNS:
        found.append("10: running, and no deadline will end it")
    return found


def _of_settlements(log: list[dict[str, str]]) -> list[str]:
    """At most once a turn: a question only puts its evaluation off."""
    outcomes: dict[str, list[str]] = {}
    for entry in log:
        if entry["type"] == "turn.settled":
            outcomes.setdefault(entry["turn"], []).append(entry["outcome"])
    return [
        f"5: turn {turn} was settled {words}"
        for turn, words in outcomes.items()
        if len(words) > 1 and not (len(words) == 2 and words[0] == "question")
    ]
