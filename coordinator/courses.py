"""The sentences of an explanation about resets, workflow steps and questions."""

from __future__ import annotations

from collections.abc import Iterator

from coordinator.scene import Scene


def course(scene: Scene) -> Iterator[str]:
    """Say what moves the session along, or holds it, besides its turns."""
    seen = scene.seen
    if seen.reset_pending:
        yield _resetting(scene)
    elif seen.reset_outcome == "failed":
        yield f"Its last reset ({seen.reset_id}) has failed: {scene.reset_why or 'the log no longer says why'}."
    if seen.entering:
        yield (
            f"Step {seen.step!r} of workflow {seen.workflow!r} is being entered (entry {seen.entering}): no turn opens "
            f"before that has ended. It is tried again {scene.until('entry')}."
        )
    elif seen.step_failed:
        why = scene.entry_why or "the log no longer says why"
        yield f"Step {seen.step!r} was not entered: {why}. What was queued is parked, and no turn completes the step."
    elif seen.step:
        signalled = ", and signalled" if seen.signalled else ""
        yield f"It is at step {seen.step!r} of workflow {seen.workflow!r}{signalled}{_leading(scene)}."
    if missing := scene.published.missing:
        yield f"{missing[0].upper()}{missing[1:]}: turns end there and lead nowhere."
    if seen.pending_move:
        yield f"A move to step {seen.pending_move!r} is pending: the next settlement applies it, before all else."
    if seen.question:
        yield _asking(scene)


def course_advice(scene: Scene) -> Iterator[str]:
    """Say what somebody could do about that."""
    seen, name = scene.seen, scene.seen.session_id
    if seen.reset_pending:
        yield (
            f"Wait for the end of the reset: `coordinator wait {name}`; what is awake then runs, or is parked if it "
            "fails."
        )
    elif seen.reset_outcome == "failed":
        yield f"To try the reset again: `coordinator reset {name}`."
    if seen.lifecycle != "open":
        return
    if seen.step_failed:
        yield (
            f"When the reason is gone, enter a step anew: `coordinator move {name} STEP`; "
            f"or work in this one, as it is: `coordinator send {name} TEXT`."
        )
    elif scene.lacks_signal:
        yield (
            f"When the step's work is done: `coordinator signal {name}`, and the next turn that completes leads on; "
            f"or, at once, `coordinator move {name} {scene.leads_to}`."
        )
    if scene.published.missing:
        yield (
            f"Start an orchestrator with the file that has the step, or `coordinator move {name} STEP` to one that is "
            "there."
        )
    if seen.pending_move and not (seen.open_turn or seen.unsettled_turn or seen.entering):
        yield f"To move now: `coordinator move {name} {seen.pending_move}`."
    if seen.question:
        yield f"Answer it: `coordinator answer {name} {seen.question} TEXT`."


def _leading(scene: Scene) -> str:
    if scene.published.step is None or scene.seen.lifecycle != "open":
        return ""
    if not scene.leads_to:
        return "; only a move leaves it"
    return (
        f"; a turn that completes leads to {scene.leads_to!r}{' once it was signalled' if scene.lacks_signal else ''}"
    )


def _resetting(scene: Scene) -> str:
    seen = scene.seen
    what = "what runs is stopped first" if seen.open_turn else f"worker {seen.worker_id} replaces its agent's session"
    return (
        f"Its context is being reset (reset {seen.reset_id}): {what}, and nothing starts meanwhile. It has failed "
        f"{scene.until('reset')} otherwise."
    )


def _asking(scene: Scene) -> str:
    seen = scene.seen
    if seen.waiting_for == "question" and seen.open_turn:
        then = "its agent waits for the answer"
    elif seen.open_turn == seen.question_turn:
        then = "an answer stops that turn and is the next prompt"
    else:
        then = "an answer is the next prompt, and any other turn ends the question"
    asked = scene.question_text or "the log no longer says what"
    return (
        f"Turn {seen.question_turn} asks (question {seen.question}): {asked!r}; {then}. "
        f"It expires {scene.until('question')}."
    )
