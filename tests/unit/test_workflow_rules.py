"""Steps of a workflow file that do not fit each other, each told with the line where it stands; and those that do."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.domain.errors import WorkflowInvalid
from coordinator.domain.workflow import Step, Workflow
from tests.support.flow_files import flow, told

STEP = "step 'a' of workflow 'w': "
PROMPTED = 'auto_start = true\nprompt = "x"\n'
IDLE = 'in which no step starts an agent turn: give one of them a prompt and auto_start = true, or let one "stay".'
RULES: list[tuple[str, list[str]]] = [
    (flow('"a"', start="z"), ["2: workflow 'w': start names 'z', which is no step; there are a."]),
    (
        flow('"a b"\non_turn_complete = "next"', '"next"', start="a b"),
        [
            "4: step 'a b' of workflow 'w': 'a b' is no valid step id: use 1 to 128 of A-Z a-z 0-9 _ . -.",
            "7: step 'next' of workflow 'w': 'next' is a word of on_turn_complete; give the step another name.",
        ],
    ),
    (
        flow('"a"\non_turn_complete = "next"', '"a"', start="a"),
        ["7: step 'a' of workflow 'w': an earlier step has this name; give one of them another."],
    ),
    (
        flow('"a"', '"a"', start="a"),
        ["6: step 'a' of workflow 'w': an earlier step has this name; give one of them another."],
    ),
    (
        flow('"a"\n\non_turn_complete = "c"', '"b"'),
        [f"6: {STEP}on_turn_complete names 'c', which is no step; there are a, b."],
    ),
    (
        flow('"a"\non_turn_complete = "next"', '"b"', '"c"\non_turn_complete = "b"', '"d"\nterminal = true'),
        [
            f"{line}: step {name!r} of workflow 'w': nothing leads to it from 'a': name it in an on_turn_complete, or "
            "say by_move = true."
            for line, name in ((8, "c"), (11, "d"))
        ],
    ),
    (flow('"a"\non_turn_complete = "a"'), [f"5: {STEP}on_turn_complete closes the loop a, a, {IDLE}"]),
    (
        flow('"a"\non_turn_complete = "c"', '"b"\non_turn_complete = "a"', '"c"\non_turn_complete = "b"'),
        [f"11: step 'c' of workflow 'w': on_turn_complete closes the loop a, c, b, a, {IDLE}"],
    ),
    (flow('"a"\nauto_start = true'), [f"5: {STEP}auto_start has no prompt to send; give the step one."]),
    (flow('"a"\nprompt = ""\nauto_start = true'), [f"6: {STEP}auto_start has no prompt to send; give the step one."]),
    (
        flow('"a"\nterminal = true\nrequires_signal = true\non_turn_complete = "next"', '"b"'),
        [
            f"6: {STEP}requires_signal has nothing to let go on in a terminal step; take one of the two away.",
            f"7: {STEP}on_turn_complete leads on from a terminal step; take one of the two away.",
        ],
    ),
]


@pytest.mark.parametrize(
    ("text", "problems"), RULES, ids=[f"{at} {problems[0][:90]}" for at, (_, problems) in enumerate(RULES)]
)
def test_steps_that_do_not_fit_each_other_are_told(tmp_path: Path, text: str, problems: list[str]) -> None:
    assert told(tmp_path, text) == problems


FINE = [
    flow('"a"\nprompt = "kept"'),
    flow('"a"\nterminal = true\non_turn_complete = "stay"\ncancel_triggers_turn_complete = true'),
    flow('"a"\non_turn_complete = "next"', '"b"\non_turn_complete = "next"'),
    flow('"b"\nterminal = true', '"a"\non_turn_complete = "b"'),
    flow('"a"', '"b"\nby_move = true\non_turn_complete = "next"', '"c"\non_turn_complete = "a"'),
    flow(f'"a"\n{PROMPTED}on_turn_complete = "next"', '"b"\non_turn_complete = "a"'),
    flow(f'"a"\n{PROMPTED}requires_signal = true\non_turn_complete = "a"'),
    flow(f'"a"\n{PROMPTED}on_turn_complete = "a"'),
    flow(f'"a"\n{PROMPTED}on_turn_complete = "b"', f'"b"\n{PROMPTED}requires_signal = true\non_turn_complete = "a"'),
    'workflow = {w = {start = "a", step = [{name = "a"}]}}\n',
    '[[workflow.w.step]]\nname = "a"\n[workflow.w]\nstart = "a"\n',
]


@pytest.mark.parametrize("text", FINE, ids=[str(at) for at in range(len(FINE))])
def test_what_makes_sense_is_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / "flow.toml").write_text(text)
    assert list(Workflow.from_toml(tmp_path / "flow.toml")) == ["w"]


def test_everything_is_told_at_once_in_the_files_order(tmp_path: Path) -> None:
    text = (
        "other = 1\n"
        + flow(
            '"a"\nauto_start = 1\non_turn_complete = "y"', '"b"\nunknown = 1\nterminal = true\nrequires_signal = true'
        )
        + flow('"a"\nprompt = """\n[workflow.no]\n"""\nauto_start = true\non_turn_complete = "a"', '"b"').replace(
            ".w", ".v"
        )
    )
    assert [line.partition(" ")[0] for line in told(tmp_path, text)] == ["1:", "6:", "7:", "10:", "12:", "22:"]


NAMES = st.text("abXY09_.-", min_size=1, max_size=6).filter(lambda name: name not in {"next", "stay"})
PROMPTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)


@st.composite
def valid(draw: st.DrawFn) -> Workflow:
    """Steps that lead on, the last perhaps back to an earlier one: then it starts a turn."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    made = []
    for number, name in enumerate(names):
        is_last = number == len(names) - 1
        prompt = draw(st.one_of(st.just(""), PROMPTS))
        follows = draw(st.sampled_from(["next", "stay"] if is_last else ["next", names[number + 1]]))
        terminal = is_last and follows == "stay" and draw(st.booleans())
        made.append(
            Step(
                name=name,
                prompt=prompt,
                auto_start=bool(prompt) and draw(st.booleans()),
                reset_agent_context=draw(st.booleans()),
                on_turn_complete=follows,
                cancel_triggers_turn_complete=draw(st.booleans()),
                requires_signal=not terminal and draw(st.booleans()),
                terminal=terminal,
                by_move=draw(st.booleans()),
            )
        )
    if draw(st.booleans()):
        made[-1] = Step(
            name=names[-1],
            prompt="x",
            auto_start=True,
            requires_signal=draw(st.booleans()),
            on_turn_complete=draw(st.sampled_from(names)),
        )
    return Workflow(name=draw(NAMES), start=names[0], steps=tuple(made))


def written(workflow: Workflow) -> str:
    def value(what: str | bool) -> str:
        if isinstance(what, bool):
            return str(what).lower()
        escaped = what.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    lines = [f"[workflow.{value(workflow.name)}]", f"start = {value(workflow.start)}"]
    for step in workflow.steps:
        lines += [f"[[workflow.{value(workflow.name)}.step]]"]
        lines += [f"{field} = {value(getattr(step, field))}" for field in Step.__struct_fields__]
    return "\n".join(lines)


@given(workflow=valid())
def test_a_valid_workflow_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, workflow: Workflow
) -> None:
    file = tmp_path_factory.getbasetemp() / "valid.toml"
    file.write_text(written(workflow))
    assert dict(Workflow.from_toml(file)) == {workflow.name: workflow}


@given(workflow=valid(), data=st.data())
def test_a_target_that_is_no_step_is_told_by_its_line_wherever_it_is(
    tmp_path_factory: pytest.TempPathFactory, workflow: Workflow, data: st.DataObject
) -> None:
    lines = written(workflow).split("\n")
    at = data.draw(st.sampled_from([at for at, line in enumerate(lines) if line.startswith("on_turn_complete")]))
    lines[at] = 'on_turn_complete = "no step"'
    file = tmp_path_factory.getbasetemp() / "invalid.toml"
    file.write_text("\n".join(lines))
    with pytest.raises(WorkflowInvalid) as caught:
        Workflow.from_toml(file)
    assert f"{file}:{at + 1}: " in str(caught.value)
    assert "names 'no step', which is no step" in str(caught.value)
