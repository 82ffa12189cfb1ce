"""`lua/README.md` against the scripts: their names and words, the record's fields, keys, deadlines and counters."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from coordinator.services.deadlines import KINDS
from coordinator.store.keys import PARTITION_PARTS, SESSION_PARTS
from coordinator.store.scripts import load_all

FOLDER = Path(__file__).parents[2] / "lua"
README = (FOLDER / "README.md").read_text(encoding="utf-8")
BODIES = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.lua")}
SCRIPTS = load_all()


def rows(title: str) -> list[list[str]]:
    """The table under a heading, without its own head."""
    section = README.partition(f"## {title}\n")[2].partition("\n## ")[0]
    table = [line.strip("| \n").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return table[2:]


def quoted(text: str) -> list[str]:
    """What stands in back quotes."""
    return re.findall(r"`([^`]+)`", text)


def documented_words() -> dict[str, set[str]]:
    """Script to words; the scripts of one row take its parts in turn."""
    found: dict[str, set[str]] = {}
    for names, _, answers in rows("Scripts"):
        scripts, parts = quoted(names), [set(part.split()) for part in quoted(answers)]
        for number, script in enumerate(scripts):
            found[script] = parts[min(number, len(parts) - 1)]
    return found


def test_the_table_has_every_script_and_its_words() -> None:
    """Exactly those that exist, with exactly what they answer."""
    words = {name: set(script.words) for name, script in SCRIPTS.items()}
    documented = documented_words()
    assert documented.keys() == words.keys()
    assert {name: (documented[name], words[name]) for name in words if documented[name] != words[name]} == {}


def test_the_table_of_fields_has_every_field_that_a_script_sets() -> None:
    """And none that no script sets."""
    documented = {field for names, _ in rows("The record") for line in quoted(names) for field in line.split()}
    assert fields_set() == documented


def fields_set() -> set[str]:
    """Fields that are set by name, or as `open_` and `last_` with the names of a list or table in the same file."""
    found: set[str] = set()
    for body in BODIES.values():
        found |= set(re.findall(r"\bset\('(\w+)'", body)) - {"open_", "last_"}
        found |= set(re.findall(r"redis\.call\('HSET', session, '(\w+)'", body))
        for prefix in set(re.findall(r"\bset\('(open_|last_)' \.\.", body)):
            found |= {prefix + name for name in listed(body, prefix)}
    for names in re.findall(r"for _, field in ipairs\(\{ ([^}]*) \}\)", BODIES["execution"]):
        found |= set(re.findall(r"'(\w+)'", names))
    return found


def listed(body: str, prefix: str) -> set[str]:
    """The names under which a file sets fields with a prefix."""
    names = set(re.findall(r"'(\w+)'", re.sub(r"^(?!local [A-Z]+ = \{).*$", "", body, flags=re.MULTILINE)))
    if prefix == "last_":
        return set(re.findall(r"'(\w+)'", re.findall(r"^local KEPT = \{.*$", body, re.MULTILINE)[0]))
    return names | set(re.findall(r"(\w+) = ", "".join(re.findall(r"in pairs\(\{([^}]*)\}\)", body))))


@pytest.mark.parametrize("field", ["lifecycle", "phase", "settlement", "execution_status"])
def test_the_words_of_a_field_are_those_that_are_set(field: str) -> None:
    """What redis-cli shows is what the reference says."""
    text = "".join("|".join(row) for row in rows("The record"))
    words = set(re.findall(rf"set\('{field}', '(\w+)'\)", "".join(BODIES.values())))
    words |= (
        set(re.findall(r"clear_execution\('(\w+)'\)", "".join(BODIES.values())))
        if field == "execution_status"
        else set()
    )
    assert {word for word in words - {"none"} if word not in text} == set()


def test_the_table_of_keys_has_every_key() -> None:
    """Each part of a session and of a partition, once."""
    names = [name for keys, _, _ in rows("Keys") for name in quoted(keys)]
    parts = {name.split("ID:", 1)[1] for name in names if "ID:" in name and name.startswith("…")}
    assert parts == {*SESSION_PARTS.values(), "receipt:MESSAGE"}
    assert {name.rpartition(":")[2] for name in names if "{tag}" in name} == {*PARTITION_PARTS, "ID"}


def test_the_kinds_of_deadlines_and_the_counters_are_listed() -> None:
    """`deadlines` and `counters` name all that a script puts there."""
    keys = {quoted(name)[0].rpartition(":")[2]: text for name, _, text in rows("Keys")}
    kinds = set(re.findall(r"\bdeadline\('(\w+)'", "".join(BODIES.values())))
    assert set(quoted(keys["deadlines"])[1].split()) == kinds == set(KINDS)
    counted = set(re.findall(r"\bcount\('([\w.]+)'", "".join(BODIES.values())))
    assert {f"{name}*" if name.endswith(".") else name for name in counted} <= {
        name for text in quoted(keys["counters"]) for name in text.split()
    }
