"""The header contract: what a script declares is what it uses and answers, and it refuses before it writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from coordinator.domain.verdicts import Verdict
from coordinator.store.scripts import load_all

FOLDER = Path(__file__).parents[2] / "lua"
SCRIPTS = load_all()
NAMES = sorted(SCRIPTS)
WORDS = {word.value for word in Verdict}
DONE = WORDS & {"OK", "GO_ON", "GONE", "RESTARTED", "FAILED", "DEAD", "PLACE", "EMPTY"}
"""Words that follow writes; every other one is a refusal or a repeat."""
MOST_LINES = 60
ENDS_OR_SETTLES = {
    "ask_over", "cancel", "close", "enter_end", "escalate", "finish", "give_up", "guard_acquire", "guard_extend",
    "guard_release", "maintain_end", "output", "release", "renew", "reset_end", "retire", "settle", "settle_begin",
    "settle_failed", "sweep", "tidy", "withdraw",
}  # fmt: skip
"""Scripts that must work on a full server, besides every `expire`."""


class File(NamedTuple):
    """One file: its header's slots and includes, and its body without comments and blank lines."""

    slots: set[str]
    includes: list[str]
    body: str


def read(name: str) -> File:
    lines = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    slots = {line[2] for text in lines if (line := re.match(r"-- (KEYS|ARGV)  (\w+)", text))}
    includes = [text.removeprefix("-- @include ") for text in lines if text.startswith("-- @include ")]
    body = [text for text in lines if text and not text.lstrip().startswith("--")]
    return File(slots, includes, "\n".join(body))


LIBRARY = sorted(f"lib/{path.stem}" for path in (FOLDER / "lib").glob("*.lua"))
FILES = {name: read(name) for name in [*NAMES, *LIBRARY]}
SLOTS = {slot for file in FILES.values() for slot in file.slots}


def closure(name: str) -> set[str]:
    """The file and all that it includes."""
    return {name}.union(*(closure(include) for include in FILES[name].includes))


def used(body: str) -> set[str]:
    """Names that the body reads without having made them: no strings, fields, locals or parameters."""
    code = re.sub(r"'[^'\n]*'", "''", body)
    made = {
        name for names in re.findall(r"\blocal ([\w, ]+?)(?: =|$)", code, re.MULTILINE) for name in names.split(", ")
    }
    made |= {name for names in re.findall(r"\bfor ([\w, ]+) in\b", code) for name in names.split(", ")}
    made |= {name for names in re.findall(r"function \w*\(([\w, .]*)\)", code) for name in names.split(", ")}
    found = set(re.findall(r"(?<![.\w])[a-z_]\w*(?!\w*\s=[^=])", code))
    return found - made


def words_in(body: str) -> set[str]:
    """Verdicts that stand as literals in a body."""
    return set(re.findall(r"'([A-Z_]+)'", body)) & WORDS


def main_body(name: str) -> list[str]:
    """The lines that run in order, without the functions that are defined among them."""
    body = re.sub(r"^local function .*?^end$", "", FILES[name].body, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^local \w+ = \(function.*?^end\)\(\)$", "", body, flags=re.MULTILINE | re.DOTALL)
    return [line for line in body.splitlines() if line]


@pytest.mark.parametrize("name", [*NAMES, *LIBRARY])
def test_a_declared_slot_is_used_where_it_is_declared(name: str) -> None:
    """A header is the signature: a slot that its own file does not use would be a lie, or belongs to an include."""
    body = re.sub(r"'[^'\n]*'", "''", FILES[name].body)
    assert {slot for slot in FILES[name].slots if not re.search(rf"(?<![.\w]){slot}\b", body)} == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_used_slot_is_declared_by_the_script_or_what_it_includes(name: str) -> None:
    """Nothing reads a slot of a name that happens to exist elsewhere: it would be a nil global at run time."""
    files = closure(name)
    declared = set().union(*(FILES[file].slots for file in files))
    assert declared == {slot.removesuffix("...") for slot in (*SCRIPTS[name].keys, *SCRIPTS[name].args)}
    assert {slot for file in files for slot in used(FILES[file].body) & SLOTS} - declared == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_script_answers_the_words_of_its_header(name: str) -> None:
    """Every literal word is promised, and every promised word is in the script or in what it includes."""
    own, promised = words_in(FILES[name].body), SCRIPTS[name].words
    included = set().union(*(words_in(FILES[file].body) for file in closure(name)))
    assert own - promised == set()
    assert promised - included == set()
    if "lib/ready" in closure(name):
        assert words_in(FILES["lib/ready"].body) <= promised
    if "done(exit_decision(" in FILES[name].body:
        assert {"GONE", "RESTARTED"} <= promised


def test_every_verdict_is_answered_by_some_script_and_no_script_answers_another() -> None:
    """One enum in Python, and the same words in the scripts."""
    assert {word for script in SCRIPTS.values() for word in script.words} == WORDS


@pytest.mark.parametrize("name", [*NAMES, *LIBRARY])
def test_a_body_counts_no_positions(name: str) -> None:
    """Slots have names; by position only those read that take as many sessions or messages as there are."""
    positional = set(re.findall(r"\b(?:KEYS|ARGV)\b", FILES[name].body))
    assert positional == {"renew": {"KEYS", "ARGV"}, "lib/chosen": {"ARGV"}, "snapshot": {"ARGV"}}.get(name, set())


@pytest.mark.parametrize("name", [*NAMES, *LIBRARY])
def test_every_key_of_a_command_comes_in_through_a_slot(name: str) -> None:
    """No key is built inside Lua, so that one slot of a cluster holds all that a script touches."""
    keys = {slot for script in SCRIPTS.values() for slot in script.keys}
    parameters = {"renew": {"session", "suspects"}, "tidy": {"..."}}.get(name, set())
    pattern = r"redis\.p?call\(\s*'(\w+)'(?:, '(?:DELCONSUMER|GROUPS|CONSUMERS)')?(?:, (\w+\([\w.]+\)|[^,)]+))?"
    for command, key in re.findall(pattern, FILES[name].body):
        if command not in {"TIME", "PUBLISH"}:
            assert key in keys | parameters or re.fullmatch(r"key_of\([\w.]+\)", key), (command, key)
    computed = re.findall(r"redis\.p?call\((?!')(?!first and 'LPUSH' or 'RPUSH', key_of\()[^)]*\)", FILES[name].body)
    assert computed == []
    assert all(re.match(r"channels \.\. '", rest) for rest in re.findall(r"'PUBLISH', (.*)", FILES[name].body))


@pytest.mark.parametrize("name", [*NAMES, *LIBRARY])
def test_publishing_can_not_tear_a_script(name: str) -> None:
    """A refused PUBLISH raises under `call`, after the writes: it goes by `pcall`."""
    assert "redis.call('PUBLISH'" not in FILES[name].body


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_refused_after_a_write(name: str) -> None:
    """Lua does not roll back: in the main body no refusing word follows the first write."""
    writes = (
        r"\b(?:set|log_entry|count|take|deadline|discard|discard_all|end_prompt|lose_prompt|void_execution|say|insert"
    )
    writes += (
        r"|raise_mark|park|stop|begin_operation|join_operation|escalate|exit_decision|end_maintenance|keep_answer)\("
    )
    writes += r"|redis\.call\('(?:SET|HSET|DEL|ZADD|RPUSH|XADD|XACK|PEXPIRE)"
    written, late = False, []
    for line in main_body(name):
        written = written or (re.search(writes, line) is not None and not line.startswith(("if ", "elseif ", " ")))
        late += [word for word in words_in(line) if written and word not in DONE]
    assert late == []


@pytest.mark.parametrize("name", NAMES)
def test_what_ends_or_settles_runs_on_a_full_server(name: str) -> None:
    """Section 4, rules: cancel, finish, output, settle, expire and release carry allow-oom; send does not."""
    wanted = "allow-oom" if name in ENDS_OR_SETTLES or name.startswith("expire_") else ""
    wanted = "no-writes" if name == "snapshot" else wanted
    assert SCRIPTS[name].flags == wanted


@pytest.mark.parametrize("name", [*NAMES, *LIBRARY])
def test_files_stay_small(name: str) -> None:
    """A script is read in one screen."""
    assert len(FILES[name].body.splitlines()) <= MOST_LINES
