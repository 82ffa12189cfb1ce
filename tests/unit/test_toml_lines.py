"""The lines of a TOML text: the same structure that tomllib sees, each part where it is written."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.domain.toml_lines import Path, first_line, lines_of

TEXT = r'''# [comment.header]
top = 1 # key = 2

[a.b]
"quoted \" key" = "# no comment \" [x]"
'lit.eral' = 'C:\'
multi = """
[not.a.header]
not_a_key = 1
\""" still """""
after = 1979-05-27 07:32:00

lit = \'\'\'
"""
# [x]
\'\'\'\'\'
dotted . "x.y" . z = true
[[ a.items ]]
name = 1
  [a.items.sub]
  deep = 1
[[a.items]]
list = [ # [
  1, "],", # ]
  [2,
   3], {k = {v = 1}, w = [
  4]},
]
empty = []
none = {}
'''.replace("\\'", "'")
LINES: dict[Path, int] = {
    ("top",): 2,
    ("a",): 4,
    ("a", "b"): 4,
    ("a", "b", 'quoted " key'): 5,
    ("a", "b", "lit.eral"): 6,
    ("a", "b", "multi"): 7,
    ("a", "b", "after"): 11,
    ("a", "b", "lit"): 13,
    ("a", "b", "dotted"): 17,
    ("a", "b", "dotted", "x.y"): 17,
    ("a", "b", "dotted", "x.y", "z"): 17,
    ("a", "items"): 18,
    ("a", "items", 0): 18,
    ("a", "items", 0, "name"): 19,
    ("a", "items", 0, "sub"): 20,
    ("a", "items", 0, "sub", "deep"): 21,
    ("a", "items", 1): 22,
    ("a", "items", 1, "list"): 23,
    ("a", "items", 1, "list", 0): 24,
    ("a", "items", 1, "list", 1): 24,
    ("a", "items", 1, "list", 2): 25,
    ("a", "items", 1, "list", 2, 0): 25,
    ("a", "items", 1, "list", 2, 1): 26,
    ("a", "items", 1, "list", 3): 26,
    ("a", "items", 1, "list", 3, "k"): 26,
    ("a", "items", 1, "list", 3, "k", "v"): 26,
    ("a", "items", 1, "list", 3, "w"): 26,
    ("a", "items", 1, "list", 3, "w", 0): 27,
    ("a", "items", 1, "empty"): 29,
    ("a", "items", 1, "none"): 30,
}


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    if path:
        yield path
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from paths(inner, (*path, key))


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["unix", "windows"])
def test_everything_is_found_where_it_is_written(end: str) -> None:
    text = TEXT.replace("\n", end)
    assert lines_of(text) == LINES
    assert set(LINES) == set(paths(tomllib.loads(text)))


@pytest.mark.parametrize("text", ["", "\n", "# only", "a = 1", "[a]", "[[a]]", "a = '''x'''", 'a = ""'])
def test_short_texts_are_read_to_their_end(text: str) -> None:
    assert set(lines_of(text)) == set(paths(tomllib.loads(text)))


KEYS = st.sampled_from(["a", "b-c", '"d e"', "'f.g'", '"\\u0068"'])
DOTTED = st.lists(KEYS, min_size=1, max_size=3).map(" . ".join)
BLANKS = st.sampled_from(["", " ", "\n", " # ]} \"\"\" '''\n", "\n\n\t"])
TRICKY = st.text(st.sampled_from("x\"'#[]{}=,.\n "), max_size=12)
STRINGS = st.one_of(
    TRICKY.map(lambda text: '"' + text.replace('"', '\\"').replace("\n", "\\n") + '"'),
    TRICKY.map(lambda text: "'" + text.replace("'", "").replace("\n", "") + "'"),
    TRICKY.map(lambda text: '"""' + text.replace('"""', '""\\"') + '"""'),
    TRICKY.map(lambda text: "'''" + text + "'''"),
)
SCALARS = st.one_of(
    STRINGS, st.sampled_from(["1", "-2.5e3", "true", "inf", "1979-05-27", "1979-05-27 07:32:00", "0x_f"])
)


def inside(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    elements = st.tuples(BLANKS, values, BLANKS).map("".join)
    pairs = st.tuples(DOTTED, values).map(lambda pair: f" {pair[0]} = {pair[1]} ")
    return st.one_of(
        st.lists(elements, max_size=3).map(lambda found: f"[{','.join(found)}]"),
        st.lists(pairs, max_size=3).map(lambda found: f"{{{','.join(found)}}}"),
    )


VALUES = st.recursive(SCALARS, inside, max_leaves=6)
STATEMENTS = st.one_of(
    st.tuples(DOTTED, VALUES).map(lambda pair: f"{pair[0]} = {pair[1]}"),
    DOTTED.map(lambda key: f"[{key}]"),
    DOTTED.map(lambda key: f"[[ {key} ]]"),
    st.sampled_from(["", "# [a]", "  "]),
)


@given(st.lists(STATEMENTS, max_size=8))
def test_it_sees_what_tomllib_sees(statements: list[str]) -> None:
    text = ""
    lines: list[int] = []
    for statement in statements:
        # Most whole documents of chance are wrong somewhere: keep what can be added to the one so far.
        try:
            tomllib.loads(f"{text}{statement}\n")
        except tomllib.TOMLDecodeError:
            continue
        lines.append(text.count("\n") + 1)
        text += f"{statement}\n"
    found = lines_of(text)
    assert set(found) == set(paths(tomllib.loads(text)))
    assert all(line <= text.count("\n") for line in found.values())
    for path, line in found.items():
        if len(path) == 1:
            assert line in lines


@pytest.mark.parametrize(
    ("text", "line", "first"),
    [
        ("a = 1\na = 2\n", 2, 2),
        ('a = 1\na = """\nx\n"""\n', 4, 2),
        ('a = 1\nb = [\n1,\n2]\na = """\nx\n"""\n', 7, 5),
        ("a = 1\n= 2\n", 2, 2),
        ("a = [", 1, 1),
        ("a = 1\n", 9, 9),
    ],
)
def test_a_statement_of_many_lines_is_told_by_its_first(text: str, line: int, first: int) -> None:
    assert first_line(text, line) == first
