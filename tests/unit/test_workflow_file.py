"""Files of workflows: what is wrong is told at once, each with the line where it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.domain.errors import WorkflowInvalid
from coordinator.domain.workflow import Step, Workflow
from coordinator.domain.workflow_file import load
from tests.support.flow_files import flow, told

CONTRACT = """\
[workflow.review]
start = "implement"

[[workflow.review.step]]
name = "implement"
prompt = "Implement the task."
auto_start = true                       # entering the step dispatches its prompt
on_turn_complete = "next"               # "next", "stay", or a step's name
cancel_triggers_turn_complete = false
requires_signal = false                 # then only a signal lets the turn end advance
reset_agent_context = false
terminal = false

[[workflow.review.step]]
name = "check"
prompt = '''
[workflow.none]
'''
terminal = true
"""


def test_the_file_of_the_contract_is_read(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(CONTRACT)
    found = Workflow.from_toml(str(tmp_path / "flow.toml"))
    assert dict(found) == {
        "review": Workflow(
            name="review",
            start="implement",
            steps=(
                Step(name="implement", prompt="Implement the task.", auto_start=True, on_turn_complete="next"),
                Step(name="check", prompt="[workflow.none]\n", terminal=True),
            ),
        )
    }


@pytest.mark.parametrize(
    "change", [("\n", "\r\n"), ("[workflow.review]", "\ufeff[workflow.review]")], ids=["crlf", "bom"]
)
def test_files_of_other_systems_are_read(tmp_path: Path, change: tuple[str, str]) -> None:
    (tmp_path / "flow.toml").write_bytes(CONTRACT.replace(*change).encode())
    assert list(Workflow.from_toml(tmp_path / "flow.toml")) == ["review"]
    text = CONTRACT.replace("terminal = true", "terminal = 1")
    assert told(tmp_path, text.replace(*change)) == [
        "19: step 'check' of workflow 'review': terminal is a number, and has to be true or false."
    ]


NO_TOML: list[tuple[str | bytes, str]] = [
    ("a = 1\nb = [1,\n", "2: this is no TOML: Invalid value (at the end)."),
    ("[workflow.w]\nstart = \n", "2: this is no TOML: Invalid value (column 9)."),
    ("[workflow.w\n", "1: this is no TOML: Expected ']' at the end of a table declaration (column 12)."),
    (b"a = 1\nb = '\xff'\n", "2: this is no TOML: it is not UTF-8."),
    ("a = " + "[" * 5000, "1: this is no TOML: it is nested too deeply."),
    (flow('"a"') + "[workflow.w]\n", "5: this is no TOML: Cannot declare ('workflow', 'w') twice."),
    (
        flow('"a"\nprompt = "x"\nprompt = """\none\ntwo"""') + 'name = "z"\n',
        "6: this is no TOML: Cannot overwrite a value.",
    ),
]


@pytest.mark.parametrize(("text", "problem"), NO_TOML, ids=[problem[:50] for _, problem in NO_TOML])
def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path, text: str | bytes, problem: str) -> None:
    assert told(tmp_path, text) == [problem]


STEP = "step 'a' of workflow 'w': "
SHAPES: list[tuple[str, list[str]]] = [
    ("", ["1: there is no workflow; begin one with [workflow.NAME]."]),
    ("# nothing\n[workflow]\n", ["1: there is no workflow; begin one with [workflow.NAME]."]),
    ("# c\n[workflows.w]\n", ["2: there is no key 'workflows'; did you mean 'workflow'?"]),
    ("\ntitle = 1\n" + flow('"a"'), ["2: there is no key 'title'; there is workflow."]),
    ("\nworkflow = 1\n", ["2: workflow is a number; begin each with [workflow.NAME]."]),
    ("[[workflow]]\n", ["1: workflow is an array; begin each with [workflow.NAME]."]),
    (
        '[workflow]\nstart = "a"\n',
        ["2: workflow 'start': it is a string, and has to be a table."],
    ),
    (
        "[workflow.w]\n",
        [
            "1: workflow 'w': it has no steps; begin each step with [[workflow.w.step]].",
            "1: workflow 'w': start is missing; it names the step that a session enters first.",
        ],
    ),
    (
        "[workflow.w]\nstart = 'a'\nstep = []\n",
        ["1: workflow 'w': it has no steps; begin each step with [[workflow.w.step]]."],
    ),
    (
        '[workflow.w]\nstart = "a"\n[workflow.w.step]\nname = "a"\n',
        ["3: workflow 'w': step is a table; begin each step with [[workflow.w.step]]."],
    ),
    (
        '[workflow.w]\nstart = "a"\n[[workflow.w.steps]]\nname = "a"\n',
        ["3: workflow 'w': there is no key 'steps'; did you mean 'step'?"],
    ),
    (
        '[workflow.w]\nstart = "a"\nstep = ["a"]\n',
        ["3: step 1 of workflow 'w': it is a string, and has to be a table."],
    ),
    (
        '[workflow.w]\nstrat = "a"\n[[workflow.w.step]]\nname = "a"\n',
        ["2: workflow 'w': there is no key 'strat'; did you mean 'start'?"],
    ),
    (
        '[workflow.w]\nstart = ["a"]\n[[workflow.w.step]]\nname = "a"\n',
        ["2: workflow 'w': start is an array, and has to be a string."],
    ),
    (
        '[[workflow.w.step]]\nname = "a"\n[workflow."x y"]\nstart = "a"\nstep = [{name = "a"}]\n',
        [
            "1: workflow 'w': start is missing; it names the step that a session enters first.",
            "3: 'x y' is no valid workflow id: use 1 to 128 of A-Z a-z 0-9 _ . -.",
        ],
    ),
    (flow('"a"\ncolour = 1'), [f"5: {STEP}there is no key 'colour'; there are {', '.join(Step.__struct_fields__)}."]),
    (flow('"a"\nautostart = true'), [f"5: {STEP}there is no key 'autostart'; did you mean 'auto_start'?"]),
    (flow('"a"\nmore.name = 1'), [f"5: {STEP}there is no key 'more'; there are {', '.join(Step.__struct_fields__)}."]),
    (flow('"a"\nprompt = 1.5'), [f"5: {STEP}prompt is a number, and has to be a string."]),
    (flow('"a"\nauto_start = "true"'), [f"5: {STEP}auto_start is a string, and has to be true or false."]),
    (flow('"a"\nterminal = 1979-05-27'), [f"5: {STEP}terminal is a date or time, and has to be true or false."]),
    (flow('"a"\non_turn_complete = true'), [f"5: {STEP}on_turn_complete is true or false, and has to be a string."]),
    (flow("1"), ["4: step 1 of workflow 'w': name is a number, and has to be a string."]),
    (flow('""'), ["4: step 1 of workflow 'w': it has no name."]),
    (
        flow('"a"\non_turn_complete = "b"') + "[[workflow.w.step]]\n# no name\n",
        ["6: step 2 of workflow 'w': it has no name."],
    ),
    (
        flow('"a"\non_turn_complete = "next"') + '[[workflow.w.step]]\nnmae = "b"\n',
        ["7: step 2 of workflow 'w': there is no key 'nmae'; did you mean 'name'?"],
    ),
]


@pytest.mark.parametrize(
    ("text", "problems"), SHAPES, ids=[f"{at} {problems[0][:60]}" for at, (_, problems) in enumerate(SHAPES)]
)
def test_what_is_not_of_a_workflows_shape_is_told(tmp_path: Path, text: str, problems: list[str]) -> None:
    assert told(tmp_path, text) == problems


@pytest.mark.parametrize(("name", "why"), [("missing.toml", "No such file"), (".", "Is a directory")])
def test_a_file_that_can_not_be_read_is_told(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(WorkflowInvalid, match=why):
        load(tmp_path / name)
