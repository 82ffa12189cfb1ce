"""The oracle itself: it passes a good log, and every log from which something was taken, doubled or moved fails."""

from __future__ import annotations

import pytest

from coordinator.domain.events import AgentReady
from coordinator.domain.records import LogEntry
from tests.support.oracle import Oracle
from tests.support.verdict import against_readies, against_senders, at_rest

Entry = tuple[str, dict[str, str]]
E1, E2 = {"execution_id": "e1"}, {"execution_id": "e2"}


def _message(number: int, line: str = "next-turn") -> dict[str, str]:
    return {"message_id": f"m{number}", "list": line}


def _inserted(number: int, line: str = "next-turn") -> Entry:
    return "inbox.inserted", {**_message(number, line), "sequence": str(number), "wake": "1"}


def _turn(
    number: int, execution: dict[str, str], *inside: Entry, reason: str = "completed", attempt: int = 1
) -> list[Entry]:
    named = {"turn": str(number), "generation": str(number), **execution}
    outcome = "stayed" if reason == "completed" else "none"
    return [
        ("turn.started", {**named, "claim_id": f"c{number}", "attempt": str(attempt)}),
        *((kind, {**named, **fields} if kind in {"agent.running", "output"} else fields) for kind, fields in inside),
        ("turn.ended", {**named, "reason": reason, "attempt": str(attempt)}),
        ("turn.settled", {**named, "outcome": outcome}),
    ]


def _claimed(number: int, turn: int, line: str = "next-turn") -> Entry:
    return "inbox.claimed", {**_message(number, line), "turn": str(turn)}


ACCEPTED: Entry = ("agent.running", {})
GOOD: list[Entry] = [
    ("session.opened", {}),
    _inserted(1),
    ("session.status", {"status": "running"}),
    ("agent.boot_ready", {**E1, "worker_id": "w1"}),
    _inserted(2),
    _inserted(3, "next-step"),
    *_turn(1, E1, _claimed(3, 1, "next-step"), _claimed(1, 1), ACCEPTED, ("output", {"text": "hello"})),
    # A worker is killed before its agent took the prompt, and the next one after it did.
    *_turn(2, E1, _claimed(2, 2), ("inbox.returned", {**_message(2), "attempt": "1"}), reason="lost"),
    ("session.status", {"status": "idle"}),
    ("session.status", {"status": "running"}),
    ("agent.boot_ready", {**E2, "worker_id": "w2"}),
    *_turn(3, E2, _claimed(2, 3), ACCEPTED, reason="lost", attempt=2),
    ("session.status", {"status": "idle"}),
    ("ready.stale", {"why": "settled", "generation": "2", **E1}),
    _inserted(4),
    ("session.status", {"status": "running"}),
    ("inbox.discarded", {**_message(4), "why": "removed"}),
    ("turn.started", {"turn": "4", **E2}),
    ("turn.ended", {"turn": "4", **E2, "reason": "completed", "empty": "1"}),
    ("session.status", {"status": "idle"}),
]  # fmt: skip
SENT = ("m1", "m2", "m3", "m4")
SILENT = {"session.opened", "ready.stale", "agent.boot_ready", "output"}
"""What a log may lack without breaking a rule that the log alone can show."""


def _ready(turn: int, execution: str, reason: str = "completed", attempt: int = 1) -> AgentReady:
    return AgentReady(
        session_id="s", execution_id=execution, worker_id="w", reason=reason, at_ms=1,
        generation=turn, claim_id=f"c{turn}", turn=turn, attempt=attempt,
    )  # fmt: skip


READIES = [_ready(1, "e1"), _ready(2, "e1", "lost"), _ready(3, "e2", "lost", 2)]


def judged(log: list[Entry]) -> Oracle:
    """The whole verdict on a session that should be at rest."""
    oracle = Oracle().feed_all(LogEntry(str(number), kind, dict(fields)) for number, (kind, fields) in enumerate(log))
    against_senders(oracle, SENT)
    against_readies(oracle, READIES)
    oracle.violations += at_rest(oracle)
    return oracle


def broken(log: list[Entry]) -> set[str]:
    """The rules that a log breaks."""
    return {violation.rule for violation in judged(log).violations}


def changed(kind: str, occurrence: int, **fields: str) -> list[Entry]:
    """The good log with one entry's fields changed."""
    at = [number for number, entry in enumerate(GOOD) if entry[0] == kind][occurrence]
    return [*GOOD[:at], (kind, {**GOOD[at][1], **fields}), *GOOD[at + 1 :]]


def test_a_good_log_breaks_nothing_and_is_told_right() -> None:
    oracle = judged(GOOD)
    assert oracle.violations == []
    assert oracle.intervals == [[1, 2], [3], [4]]
    assert [turn.messages for turn in oracle.turns.values()] == [["m3", "m1"], ["m2"], ["m2"], []]
    assert oracle.turns[1].text == "hello"
    assert (oracle.messages["m2"].turns, oracle.messages["m4"].discarded) == ([2, 3], "removed")
    assert (oracle.workers, oracle.stale) == ({"e1": "w1", "e2": "w2"}, 1)


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_any_entry_that_is_missing_is_noticed(at: int) -> None:
    log = [*GOOD[:at], *GOOD[at + 1 :]]
    assert bool(broken(log)) is (GOOD[at][0] not in SILENT)


@pytest.mark.parametrize("at", range(len(GOOD)))
def test_any_entry_that_comes_twice_is_noticed(at: int) -> None:
    log = [*GOOD[: at + 1], *GOOD[at:]]
    assert broken(log) or GOOD[at][0] in SILENT - {"agent.boot_ready"}


@pytest.mark.parametrize(
    ("rule", "log"),
    [
        ("1", [*GOOD[:7], GOOD[6], *GOOD[7:]]),
        ("2", changed("turn.started", 2, generation="2")),
        ("2", changed("turn.started", 2, claim_id="c1")),
        ("4", changed("turn.ended", 0, reason="max_tokens")),
        ("4", changed("output", 0, execution_id="e2")),
        ("4", changed("turn.ended", 1, generation="1")),
        ("4", changed("turn.settled", 0, generation="9")),
        ("4", changed("inbox.claimed", 0, turn="9")),
        ("5", changed("turn.settled", 1, outcome="stayed")),
        ("7", changed("turn.ended", 0, reason="forgotten")),
        ("9", changed("inbox.claimed", 1, message_id="m2")),
        ("9", changed("inbox.inserted", 1, sequence="9")),
        ("9", changed("inbox.returned", 0, attempt="2")),
        ("9", changed("turn.ended", 1, reason="completed")),
    ],
)  # fmt: skip
def test_a_changed_entry_breaks_the_rule_that_it_belongs_to(rule: str, log: list[Entry]) -> None:
    assert rule in broken(log)


def test_a_second_prompt_before_the_first_was_settled_is_noticed() -> None:
    settled = next(number for number, entry in enumerate(GOOD) if entry[0] == "turn.settled")
    log = [*GOOD[:settled], GOOD[settled + 1], GOOD[settled], *GOOD[settled + 2 :]]
    assert "7" in broken(log)


def test_a_message_that_was_accepted_and_is_nowhere_is_missing() -> None:
    oracle = Oracle()
    against_senders(oracle, ["gone"])
    assert [violation.what for violation in oracle.violations] == ["gone was accepted and is missing"]


def test_a_turn_without_a_ready_or_with_two_different_ones_is_noticed() -> None:
    for readies in (READIES[:-1], [*READIES, _ready(1, "e1", "error")]):
        oracle = Oracle().feed_all(LogEntry("1", kind, dict(fields)) for kind, fields in GOOD)
        against_readies(oracle, readies)
        assert "3" in {violation.rule for violation in oracle.violations}
