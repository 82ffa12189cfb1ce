"""A workflow: where a turn's end leads, and the text that is published of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import coordinator
from coordinator.domain.errors import WorkflowInvalid
from coordinator.domain.workflow import Step, Workflow, Workflows

NAMES = st.text("abcXYZ019_.-", min_size=1, max_size=8)
FLOW = Workflow(
    name="review",
    start="a",
    steps=(
        Step(name="a", on_turn_complete="next"),
        Step(name="b"),
        Step(name="c", on_turn_complete="a"),
        Step(name="d", terminal=True, on_turn_complete="next"),
        Step(name="e", on_turn_complete="next"),
    ),
)


@pytest.mark.parametrize(
    ("step", "follows"), [("a", "b"), ("b", ""), ("c", "a"), ("d", ""), ("e", ""), ("z", "")], ids=str
)
def test_a_turns_end_leads_on_as_its_step_says(step: str, follows: str) -> None:
    assert FLOW.after(step) == follows


def test_steps_are_found_by_name() -> None:
    assert FLOW.step("b") == Step(name="b")
    assert FLOW.step("z") is None


@st.composite
def workflows(draw: st.DrawFn) -> Workflow:
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    steps = st.builds(
        Step,
        prompt=st.text(st.characters(exclude_categories=["Cs"])),
        auto_start=st.booleans(),
        reset_agent_context=st.booleans(),
        on_turn_complete=st.sampled_from(["next", "stay", *names]),
        cancel_triggers_turn_complete=st.booleans(),
        requires_signal=st.booleans(),
        terminal=st.booleans(),
        by_move=st.booleans(),
        name=st.just(""),
    )
    made = tuple(
        Step(**{**{field: getattr(step, field) for field in Step.__struct_fields__}, "name": name})
        for name, step in ((name, draw(steps)) for name in names)
    )
    return Workflow(name=draw(NAMES), start=draw(st.sampled_from(names)), steps=made)


@given(workflows())
def test_what_is_published_is_read_as_it_was(workflow: Workflow) -> None:
    assert Workflow.from_json(workflow.to_json()) == workflow


def test_what_is_published_holds_no_defaults_and_may_hold_what_a_later_version_knows() -> None:
    flow = Workflow(name="w", start="a", steps=(Step(name="a"),))
    assert json.loads(flow.to_json()) == {"name": "w", "start": "a", "steps": [{"name": "a"}]}
    assert Workflow.from_json('{"name":"w","start":"a","later":1,"steps":[{"name":"a","later":2}]}') == flow


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name":"w","start":"a"}', '{"name":1,"start":"a","steps":[]}'])
def test_what_is_no_workflow_is_refused_by_name(text: str) -> None:
    with pytest.raises(WorkflowInvalid, match=r"published workflow can't be read .*orchestrator"):
        Workflow.from_json(text)


def test_workflows_are_a_mapping_in_order_without_a_name_twice() -> None:
    other = Workflow(name="other", start="a", steps=(Step(name="a"),))
    both = Workflows([FLOW, other])
    assert (list(both), len(both), both["other"]) == (["review", "other"], 2, other)
    assert not Workflows()
    assert "review" in repr(both)
    with pytest.raises(WorkflowInvalid, match="'other'"):
        Workflows([other, FLOW, other])


def test_the_names_are_public() -> None:
    assert (coordinator.Step, coordinator.Workflow, coordinator.Workflows) == (Step, Workflow, Workflows)
