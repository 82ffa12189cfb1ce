"""The sentences of an explanation, from what was read; nothing here reads anything."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.courses import course, course_advice
from coordinator.scene import Scene


def reasons(scene: Scene) -> Iterator[str]:
    """Say why the session is where it is, what matters most first."""
    seen = scene.seen
    if seen.lifecycle != "open":
        yield _closing(scene)
    if seen.cancel_pending:
        yield _stopping(scene)
    yield from course(scene)
    if seen.phase == "maintenance":
        if not seen.reset_pending:
            yield (
                f"Maintenance job {seen.maintenance!r} has it; messages queue until it ends. "
                f"Its lease ends {scene.until('maintenance')}."
            )
    elif seen.open_turn:
        yield _owed(scene)
    elif seen.phase == "running":
        yield _waiting(scene)
    elif seen.lifecycle != "closed" and not seen.entering:
        yield _idle(scene)
    if seen.last_outcome == "failed":
        yield f"The handlers of turn {seen.last_turn} have failed for good: its end counts as no completion."
    yield from _besides(scene)


def advice(scene: Scene) -> Iterator[str]:
    """Say what somebody could do about it."""
    seen, name = scene.seen, scene.seen.session_id
    yield from _processes(scene)
    if seen.unsettled_turn:
        yield _settling(scene)
    yield from course_advice(scene)
    if seen.last_outcome == "failed" and seen.lifecycle == "open":
        yield (
            f"Mend the handlers; those of turn {seen.last_turn} do not run again. Its event is on the stream of dead "
            f"letters, which `coordinator doctor` names{_by_hand(scene)}."
        )
    if seen.last_reason == "lost" and seen.phase == "idle" and not any(one.attempt for one in seen.inbox.next_turn):
        yield (
            f"What turn {seen.last_turn} had taken is not run again, since its agent may have acted: send it again, or "
            f"have such turns run again from now on: `coordinator open {name} --lost-turns retry`."
        )
    if seen.reset_pending:
        return
    if seen.cancel_pending:
        yield f"Wait for it: `coordinator cancel {name} --wait` joins the stop and tells how it ends."
    elif seen.open_turn:
        yield f"To end the turn now: `coordinator cancel {name}`, or `coordinator replace {name} TEXT`."
    if seen.lifecycle == "closed":
        yield "Use another session id; this one can be read until its retention removes it."
    elif seen.phase == "idle" and scene.awake and not (seen.unsettled_turn or seen.entering):
        yield f"This is not meant to happen: `coordinator send {name} TEXT` starts it; report it, with its log."
    elif seen.phase == "idle" and scene.parked:
        yield (
            f"Any message that wakes runs them first: `coordinator send {name} TEXT`. "
            f"To edit them: `coordinator inbox {name} --help`."
        )


def _processes(scene: Scene) -> Iterator[str]:
    if scene.overdue:
        yield "Start an orchestrator, `coordinator orchestrator`; `coordinator doctor` shows what else it would find."
    if scene.seen.waiting_for == "placement" and not scene.workers:
        yield "No worker lives: start one, `coordinator worker --agent module:name`."
    elif scene.seen.waiting_for == "placement" and not scene.room:
        yield f"All {scene.workers} workers are full: start another one, or raise --max-sessions."


def _by_hand(scene: Scene) -> str:
    if not scene.leads_to or scene.seen.step_failed or scene.seen.entering:
        return ""
    return f"; to go on in its workflow: `coordinator move {scene.seen.session_id} {scene.leads_to}`"


def _closing(scene: Scene) -> str:
    if scene.seen.lifecycle == "closed":
        return f"It is closed: nothing starts any more. It is removed {scene.until('retention')}."
    return "It is closing: it takes no more messages, and is closed when what is open has ended."


def _stopping(scene: Scene) -> str:
    seen = scene.seen
    what = f"generation {seen.generation}" if seen.open_turn else "its maintenance job"
    return (
        f"It is being stopped ({seen.cancel_kind}, operation {seen.cancel_id}): {what} was told to end, and is ended "
        f"as escalated {scene.until('cancel')} otherwise."
    )


def _owed(scene: Scene) -> str:
    seen = scene.seen
    turn = (
        f"Turn {seen.open_turn} is open: generation {seen.generation}, attempt {seen.attempt}, is owed by execution "
        f"{seen.execution_id} on worker {seen.worker_id}"
    )
    if scene.left.get("lease", 0) <= 0:
        return f"{turn}, whose lease has run out: a sweep ends it."
    if not seen.accepted:
        return f"{turn}. Its agent has not accepted it, and it goes back in line {scene.until('acceptance')}."
    return f"{turn}. Its agent is at work; the lease, which heartbeats renew, ends {scene.until('lease')}."


def _waiting(scene: Scene) -> str:
    seen = scene.seen
    if seen.waiting_for == "placement":
        return f"It waits for a worker that takes its activity; that is offered again {scene.until('placement')}."
    if seen.waiting_for == "start":
        return (
            f"Execution {seen.execution_id} is starting on worker {seen.worker_id}; it is given up "
            f"{scene.until('start')}."
        )
    if seen.waiting_for == "settlement":
        return _unsettled(scene)
    if seen.waiting_for == "guard":
        return "Its next turn waits for the guard."
    if seen.waiting_for == "entry":
        return "Its next turn waits for the end of that entry."
    return f"A driver on worker {seen.worker_id} is about to open its next turn."


def _unsettled(scene: Scene) -> str:
    seen = scene.seen
    return (
        f"Turn {seen.unsettled_turn} has ended ({seen.last_reason}), and waits for a replica to settle it; its ready "
        f"is looked for again {scene.until('settlement')}."
    )


def _settling(scene: Scene) -> str:
    seen = scene.seen
    if seen.handler_failures:
        return f"Its handlers have failed {seen.handler_failures} times: see the orchestrator's log."
    return "If that stays so, no orchestrator runs, or its handlers hang: `coordinator doctor` tells."


def _idle(scene: Scene) -> str:
    seen = scene.seen
    if seen.unsettled_turn:
        return _unsettled(scene)
    if scene.awake:
        return f"It is idle although {scene.awake} of its messages should have started it."
    if scene.parked:
        why = "a stop, or a turn, start, reset or step that failed, parked them, or they were sent not to wake it"
        return f"It is idle, and {scene.parked} messages wait for one that wakes it ({why})."
    last = f" Turn {seen.last_turn} was its last one, and ended {seen.last_reason}." if seen.last_turn else ""
    return f"It is idle: nothing is queued.{last}"


def _besides(scene: Scene) -> Iterator[str]:
    seen = scene.seen
    if seen.guard_owner:
        yield (
            f"The guard is held by {seen.guard_owner} (number {seen.guard_number}) for another {seen.guard_ms} ms: no "
            "turn opens but the holder's, and nobody else settles one."
        )
    for entry in seen.inbox.next_turn:
        if entry.kind == "direct":
            yield (
                f"Direct prompt {entry.message_id} is in line until what came before it has ended; its caller takes it "
                "back when its time is over."
            )
    if seen.suspects:
        yield (
            f"Suspect executions: {', '.join(seen.suspects)}. Nobody has confirmed their end, and they are never used "
            f"again; they are forgotten when a worker reports that, or {scene.until('suspect')} if none names them."
        )
    if seen.execution_status == "failed":
        yield "Its last execution could not be started; the next message that wakes it tries again."
    if scene.overdue:
        yield f"Nobody has swept its deadlines that are over: {', '.join(scene.overdue)}."
