"""`coordinator explain`: one session, why it is where it is, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator import explaining
from coordinator.cli.connecting import connected
from coordinator.cli.inspection import moment
from coordinator.scene import span

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.domain.records import Snapshot
    from coordinator.explaining import Explanation


async def explain(options: Namespace, out: Output) -> None:
    """Explain a session."""
    async with connected(options, out) as coord:
        found = await explaining.explain(coord.kernel, coord.session(options.session).id)
    if out.json:
        out.record(found)
        return
    state = found.status if found.lifecycle == "open" else found.lifecycle
    out.line(f"{found.session_id} is {state}")
    for sentence in found.why:
        out.line(f"  - {sentence}")
    out.line()
    out.pairs("facts", _facts(found))
    out.line()
    out.table(
        ("deadline", "left"),
        [(one.kind, span(one.left_ms)) for one in found.deadlines],
        empty="no deadlines: nothing ends by itself",
    )
    out.line()
    out.table(
        ("refused or failed lately", "what", "why"),
        [(moment(one.at_ms), one.type, one.why) for one in found.refused],
        empty="nothing was refused or failed lately",
    )
    if found.advice:
        out.line("\nwhat to do")
    for sentence in found.advice:
        out.line(f"  - {sentence}")


def _facts(found: Explanation) -> dict[str, object]:
    guard = f"{found.guard_owner}, number {found.guard_number}, {found.guard_ms / 1000:.1f} s left"
    lease = next((one.left_ms for one in found.deadlines if one.kind == "lease"), 0)
    stop = f"{found.cancel_kind}, pending" if found.cancel_pending else found.cancel_outcome
    execution = f"{found.execution_id} ({found.execution_status}) on {found.worker_id} ({found.worker})"
    owed = f"generation {found.generation} of turn {found.open_turn}"
    return {
        "turn, generation": f"{found.turn}, {found.generation}",
        "owed": f"{owed}, {'accepted' if found.accepted else 'not accepted'}" if found.open_turn else "nothing",
        "unsettled": f"turn {found.unsettled_turn}" if found.unsettled_turn else "nothing",
        "waiting for": found.waiting_for or "nothing",
        "guard": guard if found.guard_owner else "free",
        "execution": execution if found.execution_id else found.execution_status,
        "lease": f"{lease / 1000:.1f} s left" if found.execution_id else "none",
        "stop": f"{stop} (operation {found.cancel_id}, revision {found.cancel_revision})"
        if found.cancel_id
        else "never",
        "context": _context(found),
        "workflow": _workflow(found),
        "question": _question(found),
        "inbox": f"{found.pending} pending, {found.awake} of them awake; {found.in_flight} in flight",
        "suspects": found.suspects,
    }


def _context(found: Explanation) -> str:
    if not found.reset_id:
        return "never reset"
    return f"{'being reset' if found.reset_pending else f'last reset {found.reset_outcome}'} ({found.reset_id})"


def _question(found: Explanation) -> str:
    return f"{found.question} of turn {found.question_turn}: {found.question_text}" if found.question else "none"


def entry_state(seen: Snapshot | Explanation) -> str:
    """Say how far a session has got with the entry into its step."""
    return "being entered" if seen.entering else "not entered" if seen.step_failed else "entered"


def _workflow(found: Explanation) -> str:
    if not found.workflow:
        return "none"
    told = [f"{found.workflow}, step {found.step} ({entry_state(found)})"]
    if found.signalled:
        told.append("signalled")
    if found.pending_move:
        told.append(f"a move to {found.pending_move} is pending")
    return ", ".join(told)
