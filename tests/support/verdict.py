"""The oracle's last word on a session: its log against its snapshot, its readies, and what its senders were told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from coordinator.domain.events import AgentReady, decode
from coordinator.domain.records import LogEntry
from tests.support.history import Violation
from tests.support.oracle import Oracle

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from coordinator.domain.records import Snapshot
    from coordinator.services import Kernel

_MOVES: Final = frozenset({"placement", "lease", "start", "acceptance", "settlement", "cancel", "reset", "entry"})
"""The deadlines that end or move a running session."""


async def read_log(redis: Redis, key: str) -> list[LogEntry]:
    """A whole log, as `follow` would give it."""
    return [LogEntry(entry_id, fields.pop("type"), fields) for entry_id, fields in await redis.xrange(key)]


async def read_readies(redis: Redis, key: str) -> list[AgentReady]:
    """All readies on a partition's event stream."""
    events = [decode(fields) for _, fields in await redis.xrange(key)]
    return [event for event in events if isinstance(event, AgentReady)]


async def examine(kernel: Kernel, session_id: str, *, sent: Collection[str] = ()) -> Oracle:
    """Read one session and judge all of it. `sent` are the ids of messages whose senders have a receipt."""
    entries, view, readies = await _of_one_moment(kernel, session_id)
    oracle = Oracle(settlement=view.policy.settlement, lost_turns=view.policy.lost_turns)
    oracle.feed_all(entries)
    against_snapshot(oracle, view)
    against_readies(oracle, [one for one in readies if one.session_id == session_id])
    against_senders(oracle, sent)
    return oracle


async def _of_one_moment(kernel: Kernel, session_id: str) -> tuple[list[LogEntry], Snapshot, list[AgentReady]]:
    """The log, and the snapshot and the readies that were read while nothing was added to it."""
    redis, keys = kernel.store.redis, kernel.store.keys.session(session_id)
    entries: list[LogEntry] | None = None
    while True:
        before, view = entries, await kernel.snapshots.read(session_id)
        readies = await read_readies(redis, keys["events"])
        entries = await read_log(redis, keys["log"])
        if before == entries:
            return entries, view, readies


def against_senders(oracle: Oracle, sent: Collection[str]) -> None:
    """Invariant 9: what was accepted is in a turn, in the inbox, or visibly discarded."""
    oracle.violations += [
        Violation("9", f"{one} was accepted and is missing") for one in sent if one not in oracle.messages
    ]
    pending = {one for line in oracle.pending.values() for one in line}
    for message in oracle.messages.values():
        places = (bool(message.turns) and message.returned < len(message.turns)) + bool(message.discarded)
        places += message.message_id in pending
        _must(oracle, "9", f"{message.message_id} is in {places} places", holds=places == 1)
        twice = len(message.turns) > 1 + message.returned
        _must(oracle, "9", f"{message.message_id} was in turns {message.turns}", holds=not twice)


def against_snapshot(oracle: Oracle, view: Snapshot) -> None:
    """The record and the inbox are what the log says; a session at rest rests rightly, a running one can end."""
    turn = oracle.open
    for name, line in (("next-turn", view.inbox.next_turn), ("next-step", view.inbox.next_step)):
        shown = [entry.message_id for entry in line]
        _must(oracle, "9", f"{name} shows {shown}, not {oracle.pending[name]}", holds=shown == oracle.pending[name])
    flying = [entry.message_id for entry in view.inbox.in_flight]
    _must(oracle, "9", f"in flight: {flying}", holds=flying == (turn.messages if turn else []))
    _must(oracle, "1", f"open turn {view.open_turn}", holds=view.open_turn == (turn.turn if turn else 0))
    newest = max((one.generation for one in oracle.turns.values()), default=0)
    _must(oracle, "2", f"generation {view.generation}, not {newest}", holds=view.generation == newest)
    unsettled = [one.turn for one in oracle.turns.values() if one.generation and one.reason and not one.settled]
    again = view.unsettled_turn in oracle.turns and oracle.turns[view.unsettled_turn].settled == ["question"]
    shown_unsettled = [view.unsettled_turn] if view.unsettled_turn and not again else []
    _must(oracle, "3", f"unsettled: {shown_unsettled}, not {unsettled}", holds=shown_unsettled == unsettled)
    waits = any(deadline.kind == "cancel" for deadline in view.deadlines)
    _must(oracle, "11", "an operation is pending without a deadline", holds=waits or not view.cancel_pending)
    same = view.cancel_pending == bool(oracle.operations.pending) and view.cancel_kind == oracle.operations.kind
    _must(oracle, "11", f"pending: {view.cancel_kind}, not {oracle.operations.kind}", holds=same)
    revision = oracle.operations.revision
    _must(oracle, "11", f"revision {view.cancel_revision}, not {revision}", holds=view.cancel_revision == revision)
    awake = any(entry.awake for entry in (*view.inbox.next_turn, *view.inbox.next_step))
    at_rest = view.phase == "idle" and view.lifecycle == "open" and not unsettled
    _must(oracle, "10", "idle, and a message is awake", holds=not (at_rest and awake))
    ends = any(deadline.kind in _MOVES for deadline in view.deadlines)
    _must(oracle, "10", "running, and no deadline will end it", holds=view.phase != "running" or ends)


def against_readies(oracle: Oracle, readies: Iterable[AgentReady]) -> None:
    """Every numbered turn that ended has one ready, which names it; written again it says the same."""
    by_turn: dict[int, set[bytes]] = {}
    for ready in readies:
        by_turn.setdefault(ready.turn, set()).add(msgspec.json.encode(ready))
        turn = oracle.turns.get(ready.turn)
        known = turn and (turn.generation, turn.execution_id, turn.claim_id, turn.reason, turn.attempt)
        named = (ready.generation, ready.execution_id, ready.claim_id, ready.reason, ready.attempt)
        _must(oracle, "4", f"ready of turn {ready.turn} names {named}, not {known}", holds=known == named)
    for number, turn in oracle.turns.items():
        wanted = 1 if turn.generation and turn.reason else 0
        found = len(by_turn.get(number, ()))
        _must(oracle, "3", f"turn {number} has {found} different readies", holds=found == wanted)


def at_rest(oracle: Oracle) -> list[Violation]:
    """What is still under way, at a moment when nothing should be."""
    found = [Violation("10", f"turn {turn.turn} is open") for turn in oracle.turns.values() if not turn.reason]
    found += [Violation("10", "it is running")] * oracle.running
    found += [Violation("11", f"{oracle.operations.pending} is pending")] * bool(oracle.operations.pending)
    found += [
        Violation("10", f"turn {turn.turn} is not settled")
        for turn in oracle.turns.values()
        if turn.generation and not turn.settled
    ]
    return found + [Violation("10", f"{name} holds {line}") for name, line in oracle.pending.items() if line]


def _must(oracle: Oracle, rule: str, what: str, *, holds: bool) -> None:
    if not holds:
        oracle.violations.append(Violation(rule, what))
