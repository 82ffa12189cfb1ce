"""Lists and counts over all sessions and workers, for people and their tools. Each row is of its own moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from coordinator.services.deadlines import OVERDUE_MS
from coordinator.store.store import Store
from coordinator.streams.reading import Command, read, read_many

_ROWS: Final = 200
_FIELDS: Final = (
    "lifecycle", "phase", "turn", "generation", "open_turn", "last_turn", "unsettled", "execution_status",
    "worker_id", "status_ms", "cancel_id", "reset_id", "step", "entering", "question_id",
)  # fmt: skip


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a session list."""

    session_id: str
    lifecycle: str
    status: str
    phase: str
    turn: int
    generation: int
    open_turn: int
    unsettled_turn: int
    cancel_pending: bool
    reset_pending: bool
    step: str
    entering: str
    question: str
    execution_status: str
    worker_id: str
    pending: int
    status_ms: int


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """One registered worker. `lease_ms` is what is left of its registration, negative when it is overdue."""

    worker_id: str
    capacity: int
    hosted: int
    lease_ms: int
    host: str
    pid: int
    version: str


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of one deployment. `counters` are the partitions' sums since the data began; see lua/README.md."""

    sessions: int
    running: int
    workers: int
    hosted: int
    capacity: int
    deadlines: int
    events: int
    events_pending: int
    dead: int
    """Entries that were given up, in `dead_streams`."""
    dead_streams: tuple[str, ...]
    unswept_ms: int | None
    """Since the last sweep of all partitions: a few seconds while any orchestrator lives. None: there was none."""
    counters: dict[str, int]


async def sessions(store: Store, *, limit: int = 1000) -> list[SessionRow]:
    """List the sessions whose status changed last, newest first, at most `limit`."""
    partitions = range(store.settings.partitions)
    found = await read_many(
        store,
        [("ZRANGE", store.keys.partition(p)["sessions"], 0, limit - 1, "REV", "WITHSCORES") for p in partitions],
    )
    newest = sorted((pair for pairs in found for pair in _scored(_sound(pairs))), key=lambda pair: -pair[1])
    rows: list[SessionRow] = []
    ids = [session_id for session_id, _ in newest[:limit]]
    for start in range(0, len(ids), _ROWS):
        rows += await _session_rows(store, ids[start : start + _ROWS])
    return rows


async def workers(store: Store) -> list[WorkerRow]:
    """List the registered workers by id."""
    found = _scored(await read(store, "ZRANGE", store.keys.workers, 0, -1, "WITHSCORES"))
    now = _ms(await read(store, "TIME"))
    hashes = await read_many(store, [("HGETALL", store.keys.worker(worker_id)) for worker_id, _ in found])
    rows = zip(found, hashes, strict=True)
    return [_worker_row(worker_id, round(at) - now, fields) for (worker_id, at), fields in rows]


async def overdue(store: Store) -> list[str]:
    """Sessions with deadlines that a sweep should have met long ago, each as `session (kind)`."""
    late = _ms(await read(store, "TIME")) - OVERDUE_MS
    keys = [store.keys.partition(partition)["deadlines"] for partition in range(store.settings.partitions)]
    found = await read_many(store, [("ZRANGE", key, "-inf", late, "BYSCORE") for key in keys])
    members = [member.partition(":") for one in found for member in _sound(one)]
    return [f"{session_id} ({kind})" for kind, _, session_id in members]


async def stats(store: Store) -> Stats:
    """Count sessions, events and what the scripts counted, over all partitions."""
    commands: list[Command] = []
    for partition in range(store.settings.partitions):
        keys = store.keys.partition(partition)
        commands += [
            ("HGETALL", keys["counters"]),
            ("ZCARD", keys["sessions"]),
            ("ZCARD", keys["deadlines"]),
            ("XLEN", keys["events"]),
            ("XLEN", keys["dead"]),
            ("XINFO GROUPS", keys["events"]),
        ]
    time, *answers = await read_many(store, [("TIME",), *commands])
    counters: dict[str, int] = {}
    for fields in answers[0::6]:
        for name, text in _counts(fields):
            counters[name] = counters.get(name, 0) + int(text)
    swept = [int(_sound(fields).get("swept_ms", 0)) for fields in answers[0::6]]
    working = await workers(store)
    listed = await sessions(store, limit=max(1, sum(answers[1::6])))
    groups = [group for found in answers[5::6] if isinstance(found, list) for group in found]
    return Stats(
        sessions=sum(answers[1::6]),
        running=sum(row.status == "running" for row in listed),
        workers=sum(row.lease_ms > 0 for row in working),
        hosted=sum(row.hosted for row in working if row.lease_ms > 0),
        capacity=sum(row.capacity for row in working if row.lease_ms > 0),
        deadlines=sum(answers[2::6]),
        events=sum(answers[3::6]),
        events_pending=sum(int(group["pending"]) for group in groups),
        dead=sum(answers[4::6]),
        dead_streams=tuple(
            store.keys.partition(partition)["dead"] for partition, length in enumerate(answers[4::6]) if length
        ),
        unswept_ms=max(0, _ms(_sound(time)) - min(swept)) if all(swept) else None,
        counters=dict(sorted(counters.items())),
    )


def _ms(time: Any) -> int:
    seconds, micros = time
    return int(seconds) * 1000 + int(micros) // 1000


async def _session_rows(store: Store, ids: list[str]) -> list[SessionRow]:
    commands: list[Command] = []
    for session_id in ids:
        keys = store.keys.session(session_id)
        commands += [("HMGET", keys["session"], *_FIELDS), ("LLEN", keys["next_turn"]), ("LLEN", keys["next_step"])]
    answers = await read_many(store, commands)
    found = zip(ids, answers[0::3], answers[1::3], answers[2::3], strict=True)
    # A record that retention removed between the two reads is no session any more.
    rows = ((sid, _sound(fields), turns + steps) for sid, fields, turns, steps in found)
    return [_session_row(*row) for row in rows if row[1][0]]


def _session_row(session_id: str, fields: list[str | None], pending: int) -> SessionRow:
    lifecycle, phase, turn, generation, open_turn, last, unsettled, execution, worker, status_ms, *rest = fields
    cancel, reset, step, entering, question = (text or "" for text in rest)
    return SessionRow(
        session_id=session_id,
        lifecycle=lifecycle or "",
        status="running" if phase == "running" else "idle",
        phase=phase or "idle",
        turn=int(turn or 0),
        generation=int(generation or 0),
        open_turn=int(open_turn or 0),
        unsettled_turn=int(last or 0) if unsettled else 0,
        cancel_pending=bool(cancel),
        reset_pending=bool(reset),
        step=step,
        entering=entering,
        question=question,
        execution_status=execution or "none",
        worker_id=worker or "",
        pending=pending,
        status_ms=int(status_ms or 0),
    )


def _worker_row(worker_id: str, lease_ms: int, fields: dict[str, str]) -> WorkerRow:
    return WorkerRow(
        worker_id=worker_id,
        capacity=int(fields.get("capacity") or 0),
        hosted=int(fields.get("hosted") or 0),
        lease_ms=lease_ms,
        host=fields.get("host", ""),
        pid=int(fields.get("pid") or 0),
        version=fields.get("version", ""),
    )


def _scored(flat: list[Any]) -> list[tuple[str, float]]:
    return [(str(member), float(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)]


def _counts(fields: Any) -> Iterator[tuple[str, str]]:
    # Among the counters the sweeper keeps the time of its last round.
    return ((name, text) for name, text in _sound(fields).items() if not name.endswith("_ms"))


def _sound(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
