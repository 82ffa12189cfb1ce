"""`coordinator workflow`: a file of workflows looked through, and where a session stands in its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.cli.connecting import connected
from coordinator.cli.explaining import entry_state
from coordinator.domain.workflow import Step, Workflow

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from coordinator.cli.output import Output
    from coordinator.domain.records import Snapshot

_COLUMNS = ("step", "on entry", "at a turn's end", "needs a signal", "a person's stop")


async def workflow(options: Namespace, out: Output) -> None:
    """Do one of the two."""
    if options.action == "check":
        _check(options, out)
    else:
        await _show(options, out)


def _check(options: Namespace, out: Output) -> None:
    for number, found in enumerate(Workflow.from_toml(options.file).values()):
        if out.json:
            for step in found.steps:
                out.record({"workflow": found.name, "start": found.start, **_object(found, step)})
            continue
        if number:
            out.line()
        out.line(f"{found.name} starts at {found.start}")
        out.table(_COLUMNS, (_row(found, step) for step in found.steps), empty="")


async def _show(options: Namespace, out: Output) -> None:
    async with connected(options, out) as coord:
        seen = await coord.session(options.session).snapshot()
        found = await coord.kernel.workflows.definition(seen.workflow) if seen.workflow else None
        published = await coord.workflows() if not seen.workflow else []
    if out.json:
        names = ("session_id", "workflow", "step", "step_entry", "entering", "step_failed", "pending_move", "signalled")
        steps = [{**_object(found, step), "present": step.name == seen.step} for step in found.steps] if found else []
        out.record({name: getattr(seen, name) for name in names} | {"published": found is not None, "steps": steps})
    elif not seen.workflow:
        there = f"published: {', '.join(published)}" if published else "an orchestrator with --workflow publishes some"
        out.line(f"{seen.session_id} is on no workflow; `coordinator open {seen.session_id} --workflow NAME`; {there}")
    else:
        _tell(seen, found, out)


def _tell(seen: Snapshot, found: Workflow | None, out: Output) -> None:
    out.pairs(
        "",
        {
            "workflow": seen.workflow,
            "step": f"{seen.step} ({entry_state(seen)})",
            "entry": seen.step_entry,
            "pending move": seen.pending_move,
            "signalled": seen.signalled,
        },
    )
    out.line()
    if found is None:
        out.line("its workflow is not published; start an orchestrator with --workflow and its file")
        return
    out.table(
        ("", *_COLUMNS),
        (("*" if step.name == seen.step else " ", *_row(found, step)) for step in found.steps),
        empty="",
    )
    if found.step(seen.step) is None:
        out.line(
            f"\n{seen.step} is no step any more, and a turn's end leads nowhere; "
            f"`coordinator move {seen.session_id} STEP` goes to one that is"
        )


def _object(found: Workflow, step: Step) -> dict[str, object]:
    # What is the default counts as well, which the published text leaves out.
    return {name: getattr(step, name) for name in Step.__struct_fields__} | {"leads_to": found.after(step.name)}


def _row(found: Workflow, step: Step) -> Sequence[object]:
    entry = ["fresh context"] if step.reset_agent_context else []
    entry.append("sends its prompt" if step.auto_start else "waits, its prompt is not sent" if step.prompt else "waits")
    leads = found.after(step.name)
    end = "terminal" if step.terminal else f"leads to {leads}" if leads else "stays"
    stop = "counts as its turn's end" if step.cancel_triggers_turn_complete else "leads nowhere"
    return (step.name, entry, end, step.requires_signal, stop)
