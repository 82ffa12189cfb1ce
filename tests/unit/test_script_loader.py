"""How a script is put together from its header, its body and what it includes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from coordinator.domain.errors import ScriptContractError
from coordinator.store.scripts import load, load_all, main, root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    return tmp_path


def put(folder: Path, name: str, *lines: str) -> None:
    (folder / f"{name}.lua").write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_slots_become_locals_in_the_order_in_which_they_are_declared(folder: Path) -> None:
    put(
        folder, "a", "-- KEYS  one  hash  the first", "-- KEYS  two  set  the second", "-- ARGV  word  text  a word",
        "return { one, two, word }",
    )  # fmt: skip
    script = load("a", folder)
    assert (script.keys, script.args) == (("one", "two"), ("word",))
    assert script.text.splitlines() == [
        "#!lua flags=", "local one, two = KEYS[1], KEYS[2]", "local word = ARGV[1]", "-- a",
        "return { one, two, word }",
    ]  # fmt: skip
    assert script.sha == hashlib.sha1(script.text.encode()).hexdigest()  # noqa: S324 - what the server computes


def test_a_slot_that_stands_for_all_that_follow_comes_last_and_is_bound_to_its_position(folder: Path) -> None:
    put(folder, "lib/x", "-- ARGV  late  text  declared after it, by what is included after it")
    put(folder, "lib/y", "-- ARGV  rest...  text  as many as there are", "-- @include lib/x")
    put(folder, "a", "-- KEYS  keys...  any  all", "-- KEYS  first  hash  one", "-- @include lib/y", "return rest")
    script = load("a", folder)
    assert (script.keys, script.args) == (("first", "keys..."), ("late", "rest..."))
    assert "local first, keys = KEYS[1], 2" in script.text
    assert "local late, rest = ARGV[1], 2" in script.text


def test_what_two_files_include_comes_once_before_both_and_its_slots_are_shared(folder: Path) -> None:
    put(folder, "lib/base", "-- KEYS  record  hash  the record", "local base = record")
    put(folder, "lib/left", "-- @include lib/base", "local left = base")
    put(folder, "lib/right", "-- KEYS  record  hash  the same record", "-- @include lib/base", "local right = base")
    put(folder, "a", "-- @include lib/left", "-- @include lib/right", "return left or right")
    script = load("a", folder)
    assert script.keys == ("record",)
    bodies = [line for line in script.text.splitlines() if line.startswith(("local base", "local left", "local right"))]
    assert bodies == ["local base = record", "local left = base", "local right = base"]


def test_words_and_flags_are_those_of_the_script_itself(folder: Path) -> None:
    put(folder, "lib/x", "-- FLAGS no-writes", "-- Replies", "--   OTHER  not the script's")
    put(
        folder, "a", "-- FLAGS allow-oom", "-- What it does.", "--", "-- Replies", "--   OK    detail  and more",
        "--   GONE          longer", "--                 explanation", "-- @include lib/x", "return 1",
    )  # fmt: skip
    script = load("a", folder)
    assert script.words == {"OK", "GONE"}
    assert (script.flags, script.text.splitlines()[0]) == ("allow-oom", "#!lua flags=allow-oom")


def test_comments_and_blank_lines_are_not_sent(folder: Path) -> None:
    put(folder, "a", "-- What it does.", "", "-- A comment.", "return 1 -- stays", "")
    assert load("a", folder).text == "#!lua flags=\n\n\n-- a\nreturn 1 -- stays\n"


def test_a_server_that_reads_no_flags_gets_the_text_without_them(folder: Path) -> None:
    put(folder, "a", "-- FLAGS allow-oom", "return 1")
    script = load("a", folder)
    bare = script.unflagged()
    assert script.text == f"#!lua flags=allow-oom\n{bare.text}"
    assert bare.sha != script.sha


def test_every_script_of_a_folder_is_loaded_and_nothing_else(folder: Path) -> None:
    put(folder, "lib/x", "local x = 1")
    put(folder, "a", "-- @include lib/x", "return x")
    put(folder, "b", "-- @include lib/x", "return x")
    put(folder, "README", "no script")
    (folder / "README.lua").rename(folder / "README.md")
    assert load_all(folder) == {name: load(name, folder) for name in ("a", "b")}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["-- @include lib/a"], r"^lua/lib/a\.lua includes itself: lib/a > lib/a$"),
        (["-- @include lib/b"], r"^lua/lib/a\.lua includes itself: lib/a > lib/b > lib/a$"),
        (["-- @include lib/c"], r"^no lua/lib/c\.lua$"),
        (["-- @include x/y"], r"lib/a:1: not a directive that can be read: '-- @include x/y'"),
        (["-- @include ../a"], "not a directive"),
        (["", "-- KEYS one hash too few spaces"], "lib/a:2: not a directive"),
        (["-- KEYS  one  hash"], "not a directive"),
        (["-- ARGV  rest..  text  two dots"], "not a directive"),
        (["-- FLAGS"], "not a directive"),
    ],
)
def test_what_can_not_be_put_together_is_refused_by_name_and_line(folder: Path, lines: list[str], message: str) -> None:
    put(folder, "lib/a", *lines)
    put(folder, "lib/b", "-- @include lib/a")
    with pytest.raises(ScriptContractError, match=message):
        load("lib/a", folder)


def test_a_script_that_is_not_there_is_refused(folder: Path) -> None:
    with pytest.raises(ScriptContractError, match=r"^no lua/nothing\.lua$"):
        load("nothing", folder)


def test_the_linter_gets_every_script_as_the_server_does(tmp_path: Path) -> None:
    assert main(["--spliced", str(tmp_path / "out")]) == 0
    written = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "out").glob("*.lua")}
    assert written == {name: script.unflagged().text for name, script in load_all().items()}
    assert root().is_dir()
