"""What the README names exists, and nothing that it should name is missing."""

from __future__ import annotations

import re
import shlex

import coordinator
from coordinator.cli.parser import COMMANDS, parse
from coordinator.domain import errors, events, records
from coordinator.handlers import EVENTS
from coordinator.settings import PREFIX, Settings, variable
from coordinator.store.keys import Keys
from tests.readme.document import ROOT, TEXT, blocks, codes, rows, section
from workers.agents.lines import LINES

SWITCHES = {"COORDINATOR_SCRIPTED_EXIT", "COORDINATOR_AGENT"}
"""Variables that are no settings: one of the scripted agent, one of compose.yaml."""
GLOSSARY = (
    "session, execution, generation, claim, ownership, turn, step, inbox, wake, awake, park mark, activity, accept, "
    "lease, workflow step, reset, operation, escalate, suspect, guard, fencing number, settle, stale, deadline, sweep, "
    "hint"
)


def test_it_opens_with_the_two_commands() -> None:
    assert [line for block in blocks() for line in block.lines][:2] == ["make demo", "make test"]
    before = TEXT.partition("```")[0]
    assert len([line for line in before.splitlines() if line.strip()]) == 2


def test_it_stays_short_enough_to_be_read() -> None:
    assert len(TEXT.splitlines()) <= 510
    assert [line for line in TEXT.splitlines() if len(line) > 125 and not line.startswith("|")] == []


def test_every_make_target_is_named_and_every_named_one_exists() -> None:
    there = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b", TEXT)) == there - {"help"}


def test_every_link_and_every_path_leads_to_something() -> None:
    links = re.findall(r"\]\(([^)]+)\)", TEXT)
    paths = [code for code in codes(TEXT) if re.fullmatch(r"(coordinator|workers|lua|tests|\.ci)/[\w./]+", code)]
    assert len(links) > 5
    assert len(paths) > 5
    assert [path for path in links + paths if not (ROOT / path).exists()] == []


def test_the_settings_table_has_every_setting_with_its_default() -> None:
    told: dict[str, str] = {}
    for names, defaults, _ in rows("Settings"):
        found = codes(names)
        told.update(zip(found, re.split(r", ", defaults), strict=True))
    assert told.keys() == {name.upper() for name in Settings.__struct_fields__}
    assert told.pop("QUEUE_URL") == "the same"
    for name, text in told.items():
        value = getattr(Settings(), name.lower())
        assert text.strip("`") == (value if isinstance(value, str) else f"{value:.10g}"), name


def test_every_variable_that_is_named_is_read() -> None:
    names = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", TEXT))
    assert names - SWITCHES <= {variable(name) for name in Settings.__struct_fields__}
    bare = {code for code in codes(TEXT) if re.fullmatch(r"[A-Z]+_[A-Z_]+|DRAIN|LEASE|SETTLEMENT|RECEIPTS", code)}
    assert bare - names <= {name.upper() for name in Settings.__struct_fields__}


def test_every_command_is_named_and_nothing_else_is_shown_as_one() -> None:
    usage = section("Commands, stopping, exit codes").partition("Each has")[0]
    assert set(codes(usage)) - {"coordinator"} == set(COMMANDS)
    shown = re.findall(r"\bcoordinator ([a-z]+)\b", "\n".join(_command_lines()))
    assert set(shown) - set(COMMANDS) == set()


def test_every_command_line_is_right() -> None:
    lines = [shlex.split(line, comments=True) for line in _command_lines()]
    assert len(lines) > 10
    for line in lines:
        assert parse(line[1:]).command in COMMANDS, line


def _command_lines() -> list[str]:
    written = [line for block in blocks() if block.language == "sh" for line in block.lines]
    headings = [block.lines[0].partition(": ")[2] for block in blocks() if block.language == "python"]
    lines = [line.rpartition("| ")[2] for line in [*written, *headings, *codes(TEXT)]]
    # The worker's command is named without the agent that it needs, too.
    return [line for line in lines if line.startswith("coordinator ") and line != "coordinator worker"]


def test_every_class_that_is_named_is_public() -> None:
    elsewhere = {"DispatchFailed", "Counter"}
    names = {code.partition("(")[0] for code in codes(TEXT) if re.match(r"[A-Z][a-z]+[A-Z]\w+\b|Orchestrator", code)}
    assert len(names) > 4
    assert names - elsewhere - set(coordinator.__all__) == set()
    assert issubclass(errors.NotAvailable, coordinator.CoordinatorError)


def test_every_event_and_policy_is_as_told() -> None:
    types = {event.__struct_config__.tag for event in events.Event.__args__}
    named = r"\b(?:agent\.(?:ready|boot_ready|failed|lost|stopped)|step\.\w+|question\.\w+)\b"
    assert set(re.findall(named, TEXT)) == {*EVENTS, "agent.ready"}
    assert set(EVENTS) <= types
    for field, word in re.findall(r"`(\w+)=(\w+)`", TEXT):
        if field in records.SessionPolicy.__struct_fields__:
            assert word in str(records.SessionPolicy.__annotations__[field])
    policies = set(records.SessionPolicy.__struct_fields__)
    assert {field for field in policies if f"`{field}" in TEXT} == policies


def test_the_scripted_agents_lines_are_those_it_knows() -> None:
    named = {code.split()[0] for row in rows("Writing an agent") for code in codes(row[0])}
    assert named == set(LINES)


def test_the_glossary_has_each_word_once() -> None:
    assert [row[0] for row in rows("Glossary")] == GLOSSARY.split(", ")
    assert all(len(row) == 2 and row[1] for row in rows("Glossary"))


def test_a_ready_is_explained_with_four_files() -> None:
    files = re.findall(r"\]\(([^)]+)\)", section("How `agent.ready` is validated"))
    assert len(files) == 4
    told = [(ROOT / file).read_text() for file in files]
    for text, word in zip(told, ("publish_ready", "class Settling", "check_ready", "settled(outcome)"), strict=True):
        assert word in text


def test_the_tag_in_the_redis_section_is_that_of_its_session() -> None:
    keys = Keys("coord", Settings().partitions)
    assert f"'{keys.session('task-42')['session']}'" in section("Where things are in redis-cli")


def test_every_call_of_a_session_is_named() -> None:
    calls = {name for name in dir(coordinator.Session) if not name.startswith("_")} | {"inbox"}
    assert [name for name in sorted(calls) if not re.search(rf"\b{name}\b", section("Five minutes"))] == []


def test_the_two_commands_run_the_demo_and_the_tests() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo: .*\n\t\S+/coordinator demo$", makefile, re.MULTILINE)
    assert re.search(r"^test: .*\n\t.* pytest ", makefile, re.MULTILINE)
