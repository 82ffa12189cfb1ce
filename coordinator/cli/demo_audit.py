"""What became of every message, counted from logs and records alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.client import Coordinator
    from coordinator.domain.records import LogEntry

_SETTLE: Final = 10.0
_TAKEN: Final = "inbox.claimed"


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The counts of the summary line, and everything that is not as promised."""

    sessions: int
    turns: int
    stale: int
    lost_messages: int
    problems: tuple[str, ...]

    @property
    def line(self) -> str:
        """The summary line."""
        return f"sessions={self.sessions} turns={self.turns} stale={self.stale} lost_messages={self.lost_messages}"


async def audit(coord: Coordinator, sent: list[tuple[str, str]], *, settle: float = _SETTLE) -> Audit:
    """Read the logs of all sessions that were sent to, and account for each message: one turn, or visibly none.

    A session that is not at rest within `settle` seconds was left running.
    """
    turns = stale = lost = 0
    problems: list[str] = []
    session_ids = sorted({session_id for session_id, _ in sent})
    for session_id in session_ids:
        problems += await _left_running(coord, session_id, settle)
        entries = [entry async for entry in coord.session(session_id).history()]
        turns += sum(entry.type == "turn.ended" for entry in entries)
        stale += sum(entry.type == "ready.stale" for entry in entries)
        problems += _unsettled(session_id, entries)
        pending = await _pending(coord, session_id)
        for message_id in (message for owner, message in sent if owner == session_id):
            fate = _fate(message_id, entries, pending)
            if fate != "accounted":
                problems.append(f"message {message_id} of {session_id} is {fate}")
            lost += fate == "lost"
    return Audit(sessions=len(session_ids), turns=turns, stale=stale, lost_messages=lost, problems=tuple(problems))


def _fate(message_id: str, entries: Iterable[LogEntry], pending: set[str]) -> str:
    """A message is in exactly one turn, which may have ended as lost, or in the inbox, or visibly discarded."""
    kinds = [entry.type for entry in entries if entry.fields.get("message_id") == message_id]
    turns = kinds.count(_TAKEN) - kinds.count("inbox.returned")
    places = turns + kinds.count("inbox.discarded") + (message_id in pending)
    if places == 1:
        return "accounted"
    return "in several places" if places else "lost"


def _unsettled(session_id: str, entries: list[LogEntry]) -> list[str]:
    ended = sorted(
        entry.fields["turn"] for entry in entries if entry.type == "turn.ended" and "empty" not in entry.fields
    )
    settled = sorted(entry.fields["turn"] for entry in entries if entry.type == "turn.settled")
    return [] if ended == settled else [f"{session_id} ended turns {ended} and settled {settled}"]


async def _left_running(coord: Coordinator, session_id: str, settle: float) -> list[str]:
    try:
        await coord.session(session_id).wait_idle(timeout=settle)
    except TimeoutError:
        return [f"{session_id} was left running"]
    return []


async def _pending(coord: Coordinator, session_id: str) -> set[str]:
    inbox = (await coord.session(session_id).snapshot()).inbox
    return {entry.message_id for entry in (*inbox.next_turn, *inbox.next_step)}
