"""Where things stand in a TOML text: the line of every table, key and array element, which `tomllib` does not tell."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
"""Keys from the top, and in arrays the number of an element from 0."""

# A string ends where TOML says, so that brackets, hashes and headers in one are not taken for the real ones. One of
# three quotes may hold two in a row, and end in five.
_STRING: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"{1,2}+(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}+(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'",
    re.DOTALL,
)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR: Final = re.compile(r"[^,\]}#\n]+")
_DOT: Final = re.compile(r"[ \t]*\.[ \t]*")
_BLANK: Final = re.compile(r"(?:[ \t\n]++|#[^\n]*+)*+")
_BLANK_OR_COMMA: Final = re.compile(r"(?:[ \t\n,]++|#[^\n]*+)*+")
_EQUALS: Final = re.compile(r"[ \t]*=[ \t]*")
_HEADER_END: Final = re.compile(r"[ \t]*\]\]?")


def lines_of(text: str) -> dict[Path, int]:
    """Give the line, from 1, in which each path is first written. `text` has to be what `tomllib` has accepted."""
    return _Scan(text.replace("\r\n", "\n")).run()


def first_line(text: str, line: int) -> int:
    """Give the line in which the statement begins that goes on, or ends, in `line`. `text` may be wrong after it."""
    scan = _Scan(text.replace("\r\n", "\n"))
    try:
        return scan.run_to(line)
    except (ValueError, IndexError):
        return line


class _Scan:
    """One pass over a text; each method begins at `at` and leaves it behind what it has read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newlines = [match.start() for match in re.finditer("\n", text)]
        self._at = 0
        self._found: dict[Path, int] = {}
        self._arrays: dict[Path, int] = {}
        """The arrays of tables, and the number of each one's last element."""

    def run(self) -> dict[Path, int]:
        for _ in self._statements():
            pass
        return self._found

    def run_to(self, line: int) -> int:
        for begin in self._statements():
            if self._line() >= line:
                return begin
        return line

    def _statements(self) -> Iterator[int]:
        """Read one after another, and give the line in which each began."""
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            begin = self._line()
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            yield begin
            self._skip(_BLANK)

    def _header(self) -> Path:
        line, is_array = self._line(), self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        self._skip(_BLANK)
        keys = self._key()
        self._skip(_HEADER_END)
        path: Path = ()
        for key in keys[:-1]:
            path = self._last((*path, key), line)
        path = (*path, keys[-1])
        if not is_array:
            # In TOML a table may not be named again, so this is no array's.
            self._note(path, line)
            return path
        self._arrays[path] = self._arrays.get(path, -1) + 1
        return self._last(path, line)

    def _last(self, path: Path, line: int) -> Path:
        """Note a path of a header, and go on in its last element if it is an array of tables."""
        self._note(path, line)
        if path in self._arrays:
            path = (*path, self._arrays[path])
            self._note(path, line)
        return path

    def _pair(self, table: Path) -> None:
        line = self._line()
        for key in self._key():
            table = (*table, key)
            self._note(table, line)
        self._skip(_EQUALS)
        self._value(table)

    def _value(self, path: Path) -> None:
        opening = self._text[self._at]
        if opening not in "[{":
            self._skip(_STRING if opening in "\"'" else _SCALAR)
            return
        self._at += 1
        count = 0
        self._skip(_BLANK_OR_COMMA)
        while self._text[self._at] not in "]}":
            if opening == "{":
                self._pair(path)
            else:
                self._note((*path, count), self._line())
                self._value((*path, count))
                count += 1
            self._skip(_BLANK_OR_COMMA)
        self._at += 1

    def _key(self) -> list[str]:
        keys = [self._part()]
        while dot := _DOT.match(self._text, self._at):
            self._at = dot.end()
            keys.append(self._part())
        return keys

    def _part(self) -> str:
        begin = self._at
        if self._text[begin] not in "\"'":
            self._skip(_BARE)
            return self._text[begin : self._at]
        self._skip(_STRING)
        return str(tomllib.loads(f"key = {self._text[begin : self._at]}")["key"])

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise ValueError(f"line {self._line()} is no TOML")
        self._at = match.end()

    def _line(self) -> int:
        return bisect_right(self._newlines, self._at - 1) + 1

    def _note(self, path: Path, line: int) -> None:
        self._found.setdefault(path, line)
