"""A session at one moment: its record, inbox, guard and deadlines, read by one script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from coordinator.domain.records import Deadline, Inbox, InboxEntry, SessionPolicy, Snapshot
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal
from coordinator.services.deadlines import KINDS
from coordinator.store.store import Reply

if TYPE_CHECKING:
    from coordinator.store.store import Store

_LIVE = frozenset({"ready", "running"})


class Snapshots:
    """Reading. Nothing here writes."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def read(self, session_id: str) -> Snapshot:
        """The whole session. Raises SessionUnknown, StoreUnavailable, StoreMisconfigured."""
        reply = await self._store.look("snapshot", session_id, *KINDS)
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id)
        return _snapshot(session_id, reply.details)

    async def is_idle(self, session_id: str) -> bool:
        """Whether nothing runs, is reset, entered, or waits for settlement, and, once closing, the session is closed.

        Raises SessionUnknown, StoreUnavailable, StoreMisconfigured.
        """
        key = self._store.keys.session(session_id)["session"]
        phase, lifecycle, *busy = await self._store.fields(
            key, "phase", "lifecycle", "unsettled", "entering", "reset_id"
        )
        if lifecycle is None:
            raise refusal(Reply(Verdict.NO_SESSION, []), session_id)
        return phase == "idle" and not any(busy) and lifecycle != "closing"


def _snapshot(session_id: str, found: list[Any]) -> Snapshot:
    record, next_turn, next_step, in_flight, messages, message_info, holder, guard_ms, suspects, times, now_ms = found
    fields, bodies, infos, guard = _Fields(_paired(record)), _paired(messages), _paired(message_info), _paired(holder)
    deadlines = tuple(Deadline(kind, at_ms) for kind, at_ms in zip(KINDS, times, strict=True) if at_ms)
    mark = fields.number("park_mark")

    def entries(ids: list[str], *, pending: bool) -> tuple[InboxEntry, ...]:
        return tuple(_entry(one, infos.get(one, ""), bodies.get(one, ""), mark if pending else None) for one in ids)

    phase = fields.text("phase")
    return Snapshot(
        session_id=session_id,
        lifecycle=cast("Any", fields.text("lifecycle")),
        status="running" if phase == "running" else "idle",
        phase=cast("Any", phase),
        policy=SessionPolicy(
            settlement=cast("Any", fields.text("settlement")),
            lost_turns=cast("Any", fields.text("lost_turns")),
            retries=fields.number("retries"),
            after_error=cast("Any", fields.text("after_error")),
            on_handler_failure=cast("Any", fields.text("on_handler_failure")),
        ),
        turn=fields.number("turn"),
        generation=fields.number("generation"),
        open_turn=fields.number("open_turn"),
        attempt=fields.number("open_attempt"),
        accepted=fields.text("open_accepted") == "1",
        activity=fields.text("activity"),
        execution_id=fields.text("execution_id"),
        execution_status=cast("Any", fields.text("execution_status") or "none"),
        worker_id=fields.text("worker_id"),
        resume_token=fields.text("resume_token"),
        unsettled_turn=fields.number("last_turn") if fields.text("unsettled") else 0,
        last_turn=fields.number("last_turn"),
        last_reason=fields.text("last_reason"),
        last_outcome="" if fields.text("unsettled") else fields.text("settled_outcome"),
        handler_failures=fields.number("handler_failures"),
        cancel_pending=bool(fields.text("cancel_id")),
        cancel_kind=fields.text("cancel_kind"),
        cancel_id=fields.text("cancel_id") or fields.text("cancel_last"),
        cancel_outcome="" if fields.text("cancel_id") else fields.text("cancel_outcome"),
        maintenance=fields.text("maintenance"),
        cancel_revision=fields.number("cancel_revision"),
        **_course(fields),
        sequence=fields.number("sequence"),
        park_mark=mark,
        waiting_for=_waiting_for(fields, deadlines, now_ms, guarded=bool(guard)),
        guard_owner=guard.get("owner", ""),
        guard_number=int(guard.get("number", 0)),
        guard_ms=max(0, guard_ms),
        suspects=tuple(sorted(suspects)),
        now_ms=now_ms,
        deadlines=deadlines,
        opened_ms=fields.number("opened_ms"),
        status_ms=fields.number("status_ms"),
        inbox=Inbox(
            next_turn=entries(next_turn, pending=True),
            next_step=entries(next_step, pending=True),
            in_flight=entries(in_flight, pending=False),
        ),
    )


def _course(fields: _Fields) -> dict[str, Any]:
    """Reset, workflow and question."""
    entry, reset = fields.text("step_entry"), fields.text("reset_id")
    return {
        "reset_pending": bool(reset),
        "reset_id": reset or fields.text("reset_last"),
        "reset_outcome": "" if reset else fields.text("reset_outcome"),
        "workflow": fields.text("workflow"),
        "step": fields.text("step"),
        "step_entry": entry,
        "step_failed": bool(fields.text("step_failed")),
        "signalled": bool(entry) and fields.text("signalled") == entry,
        "entering": fields.text("entering"),
        "pending_move": fields.text("move_step"),
        "question": fields.text("question_id"),
        "question_turn": fields.number("question_turn"),
    }


def _paired(flat: list[str]) -> dict[str, str]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


class _Fields:
    """The record, an absent field being empty or 0."""

    def __init__(self, record: dict[str, str]) -> None:
        self._record = record

    def text(self, name: str) -> str:
        return self._record.get(name, "")

    def number(self, name: str) -> int:
        return int(self._record.get(name) or 0)


def _entry(message_id: str, info: str, body: str, mark: int | None) -> InboxEntry:
    sequence, wake, name, kind, attempt, _guard, _digest, sender = (info or "0 0 next-turn unknown 0 0 - -").split(" ")
    return InboxEntry(
        message_id=message_id,
        sequence=int(sequence),
        list=cast("Any", name),
        wake=wake == "1",
        awake=wake == "1" and mark is not None and int(sequence) > mark,
        kind=kind,
        attempt=int(attempt),
        sender=sender,
        body=body,
    )


def _waiting_for(fields: _Fields, deadlines: tuple[Deadline, ...], now_ms: int, *, guarded: bool) -> str:
    if fields.text("reset_id"):
        return "reset"
    if fields.text("open_claim"):
        return "question" if fields.text("question_waits") else ""
    if fields.text("entering"):
        return "entry"
    if fields.text("phase") != "running":
        return "question" if fields.text("phase") == "idle" and fields.text("question_id") else ""
    leased = any(one.kind == "lease" and one.at_ms > now_ms for one in deadlines)
    if fields.text("execution_status") == "starting":
        return "start"
    if not fields.text("activity_execution") and not (leased and fields.text("execution_status") in _LIVE):
        return "placement"
    if fields.text("unsettled"):
        return "settlement"
    return "guard" if guarded else ""
