"""Why a session is where it is: who holds what, what is owed, what ends by itself, what was refused, what to do."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from coordinator import overview
from coordinator.domain.records import Snapshot
from coordinator.reasons import advice, reasons
from coordinator.scene import Scene
from coordinator.services import Kernel
from coordinator.services.workflows import Published
from coordinator.store.store import Store
from coordinator.streams.reading import read

_TAIL: Final = 500
_MOST: Final = 10
_FAILED: Final = frozenset({"error", "blocked", "lost", "escalated", "interrupted"})


class TimeLeft(msgspec.Struct, frozen=True):
    """Something that ends by itself. `left_ms` is negative when it is overdue."""

    kind: str
    left_ms: int


class Refused(msgspec.Struct, frozen=True):
    """Something in the session's log that did not go well. `at_ms` is on the server's clock."""

    at_ms: int
    type: str
    why: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """One session explained. Names are the snapshot's; `why` and `advice` are sentences for people."""

    session_id: str
    lifecycle: str
    status: str
    phase: str
    waiting_for: str
    turn: int
    generation: int
    open_turn: int
    """The turn whose prompt is owed; 0 when none is."""
    accepted: bool
    unsettled_turn: int
    cancel_pending: bool
    cancel_kind: str
    cancel_id: str
    cancel_outcome: str
    cancel_revision: int
    maintenance: str
    reset_pending: bool
    reset_id: str
    reset_outcome: str
    reset_why: str
    """Why the last reset has failed, while it is the last one."""
    workflow: str
    step: str
    step_entry: str
    step_failed: bool
    signalled: bool
    entering: str
    pending_move: str
    question: str
    question_turn: int
    question_text: str
    guard_owner: str
    guard_number: int
    guard_ms: int
    execution_id: str
    execution_status: str
    worker_id: str
    worker: str
    """`alive`, `overdue` (its registration ran out), `unknown` (not registered); empty when no worker is concerned."""
    suspects: tuple[str, ...]
    pending: int
    awake: int
    in_flight: int
    deadlines: tuple[TimeLeft, ...]
    refused: tuple[Refused, ...]
    """The newest first, of the last entries of the log."""
    why: tuple[str, ...]
    advice: tuple[str, ...]


async def explain(kernel: Kernel, session_id: str) -> Explanation:
    """Look at everything that concerns a session. Raises `SessionUnknown`, `StoreUnavailable`, `StoreMisconfigured`."""
    store, seen = kernel.store, await kernel.snapshots.read(session_id)
    workers = await overview.workers(store)
    tail = await read(store, "XREVRANGE", store.keys.session(session_id)["log"], "+", "-", "COUNT", _TAIL)
    alive = [row for row in workers if row.lease_ms > 0]
    host = next((row for row in workers if row.worker_id == seen.worker_id), None)
    scene = Scene(
        seen=seen,
        left={one.kind: one.at_ms - seen.now_ms for one in seen.deadlines},
        worker="" if not seen.worker_id else "unknown" if host is None else "alive" if host in alive else "overdue",
        workers=len(alive),
        room=sum(max(0, row.capacity - row.hosted) for row in alive),
        published=await kernel.workflows.published(seen.workflow, seen.step) if seen.workflow else Published(),
        **await _told(store, seen),
    )
    return _explanation(scene, seen, _refused(tail))


async def _told(store: Store, seen: Snapshot) -> dict[str, str]:
    """What only the log has: texts, which a record doesn't hold."""
    log = store.keys.session(seen.session_id)["log"]

    async def field(name: str, kind: str, **fields: str) -> str:
        entry = await store.newest(log, kind, **fields)
        return entry.get(name, "") if entry else ""

    told = {}
    if seen.question:
        told["question_text"] = await field("text", "question.asked", question_id=seen.question)
    if seen.reset_outcome == "failed":
        told["reset_why"] = await field("why", "reset.failed", reset_id=seen.reset_id)
    if seen.step_failed:
        told["entry_why"] = await field("message", "error", where="entry", entry_id=seen.step_entry)
    return told


def _explanation(scene: Scene, seen: Snapshot, refused: tuple[Refused, ...]) -> Explanation:
    pending = (*seen.inbox.next_step, *seen.inbox.next_turn)
    same = {name: getattr(seen, name) for name in Explanation.__struct_fields__ if name in seen.__struct_fields__}
    return Explanation(
        **same
        | {
            "worker": scene.worker,
            "question_text": scene.question_text,
            "reset_why": scene.reset_why,
            "pending": len(pending),
            "awake": sum(entry.awake for entry in pending),
            "in_flight": len(seen.inbox.in_flight),
            "deadlines": tuple(
                TimeLeft(kind, left) for kind, left in sorted(scene.left.items(), key=lambda item: item[1])
            ),
            "refused": refused,
            "why": tuple(reasons(scene)),
            "advice": tuple(advice(scene)),
        }
    )


def _refused(tail: list[Any]) -> tuple[Refused, ...]:
    found = []
    for entry_id, fields in tail:
        if why := _why(fields):
            found.append(Refused(int(entry_id.partition("-")[0]), fields["type"], why))
    return tuple(found[:_MOST])


def _why(fields: dict[str, str]) -> str:
    match fields.get("type"):
        case "ready.stale":
            return (
                f"a completion of generation {fields.get('generation', '?')} came late: its {fields.get('why')} differs"
            )
        case "error":
            return f"{fields.get('where')}: {fields.get('message')}"
        case "turn.ended" if fields.get("reason") in _FAILED:
            told = f": {fields['error']}" if fields.get("error") else ""
            return f"turn {fields.get('turn')} ended {fields['reason']}{told}"
        case "reset.failed":
            return f"reset {fields.get('reset_id')} has failed: {fields.get('why')}"
        case "question.expired":
            return f"question {fields.get('question_id')} has expired ({fields.get('why')})"
        case "inbox.returned":
            return f"message {fields.get('message_id')} went back in line, attempt {fields.get('attempt')}"
        case _:
            return ""
