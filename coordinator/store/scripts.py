"""The scripts in `lua/`: found, put together with what they include, and bound to named slots.

A script's header is its signature, read by this module. `-- KEYS  name  type  text` and `-- ARGV  name  type  text`
declare its slots, in the script and in what it includes; each becomes a local of that name, so no body counts
positions. A name that ends in `...` stands for all that follow, and is bound to the position of the first.
`-- FLAGS` are the server's script flags; `-- @include lib/x` puts a file in, once, before its reader.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.errors import ScriptContractError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SLOT = re.compile(r"^-- (KEYS|ARGV)  (\w+(?:\.\.\.)?) +(\w+)  +(\S.*)$")
_INCLUDE = re.compile(r"^-- @include (lib/\w+)$")
_FLAGS = re.compile(r"^-- FLAGS (.+)$")
_REPLY = re.compile(r"^--   ([A-Z_]+)\b")
_DIRECTIVE = re.compile(r"^-- (KEYS|ARGV|FLAGS|@include)\b")


class Script(msgspec.Struct, frozen=True):
    """One script, ready to be sent."""

    name: str
    keys: tuple[str, ...]
    args: tuple[str, ...]
    words: frozenset[str]
    """The verdicts that its header promises."""
    flags: str
    """The server's script flags, space separated."""
    text: str
    """What the server runs."""
    sha: str
    """The name under which the server knows `text`."""

    def unflagged(self) -> Script:
        """The same script for a server that reads no flags, as fakeredis does."""
        return _script(self, self.text.partition("\n")[2])


def _script(like: Script, text: str) -> Script:
    return msgspec.structs.replace(like, text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def root() -> Traversable:
    """Scripts sit inside an installed package, and beside it in a checkout."""
    packaged = files("coordinator") / "lua"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "lua"


class _Source:
    """One file's directives and its other lines."""

    def __init__(self, path: Traversable, name: str) -> None:
        self.name = name
        self.slots: dict[str, list[str]] = {"KEYS": [], "ARGV": []}
        self.includes: list[str] = []
        self.words: set[str] = set()
        self.flags = ""
        self.lines: list[str] = []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            self._read(line, f"{name}:{number}")

    def _read(self, line: str, where: str) -> None:
        if slot := _SLOT.match(line):
            self.slots[slot[1]].append(slot[2])
        elif include := _INCLUDE.match(line):
            self.includes.append(include[1])
        elif flags := _FLAGS.match(line):
            self.flags = flags[1]
        elif _DIRECTIVE.match(line):
            msg = f"{where}: not a directive that can be read: {line!r}"
            raise ScriptContractError(msg)
        elif not self._is_comment(line):
            self.lines.append(line)

    def _is_comment(self, line: str) -> bool:
        if word := _REPLY.match(line):
            self.words.add(word[1])
        return not line or line.startswith("--")


class _Folder:
    """A folder of scripts; each file is read once, however many scripts include it."""

    def __init__(self, folder: Traversable) -> None:
        self._folder = folder
        self._sources: dict[str, _Source] = {}

    def collect(self, name: str, found: list[_Source], path: tuple[str, ...] = ()) -> list[_Source]:
        """Add a file to `found`, after what it includes."""
        if name in path:
            msg = f"lua/{name}.lua includes itself: {' > '.join((*path, name))}"
            raise ScriptContractError(msg)
        source = self._source(name)
        if source not in found:
            for include in source.includes:
                self.collect(include, found, (*path, name))
            found.append(source)
        return found

    def _source(self, name: str) -> _Source:
        if name not in self._sources:
            file = self._folder.joinpath(*f"{name}.lua".split("/"))
            if not file.is_file():
                msg = f"no lua/{name}.lua"
                raise ScriptContractError(msg)
            self._sources[name] = _Source(file, name)
        return self._sources[name]


def _bind(kind: str, names: list[str]) -> str:
    values = [
        str(position) if name.endswith("...") else f"{kind}[{position}]" for position, name in enumerate(names, 1)
    ]
    return f"local {', '.join(name.removesuffix('...') for name in names)} = {', '.join(values)}" if names else ""


def _merged(sources: list[_Source], kind: str) -> list[str]:
    names = dict.fromkeys(name for source in sources for name in source.slots[kind])
    return sorted(names, key=lambda name: name.endswith("..."))


def load(name: str, folder: Traversable | None = None) -> Script:
    """Put one script together.

    Raises `ScriptContractError` for a file that is not there, an include that includes itself, or a directive that
    can't be read.
    """
    return _load(name, _Folder(folder or root()))


def _load(name: str, folder: _Folder) -> Script:
    sources = folder.collect(name, [])
    keys, args = _merged(sources, "KEYS"), _merged(sources, "ARGV")
    lines = [_bind("KEYS", keys), _bind("ARGV", args)]
    for source in sources:
        lines += [f"-- {source.name}", *source.lines]
    own = sources[-1]
    script = Script(name, tuple(keys), tuple(args), frozenset(own.words), own.flags, "", "")
    return _script(script, "\n".join([f"#!lua flags={own.flags}", *lines, ""]))


def load_all(folder: Traversable | None = None) -> dict[str, Script]:
    """Every script, by name. The shipped ones are read once in a process."""
    return _all(folder) if folder else dict(_shipped())


@functools.cache
def _shipped() -> dict[str, Script]:
    return _all(root())


def _all(folder: Traversable) -> dict[str, Script]:
    names = sorted(entry.name.removesuffix(".lua") for entry in folder.iterdir() if entry.name.endswith(".lua"))
    shared = _Folder(folder)
    return {name: _load(name, shared) for name in names}


def main(arguments: list[str] | None = None) -> int:
    """Write every script as the server gets it, for the linter."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--spliced", type=Path, required=True, metavar="DIR", help="where to write them")
    target: Path = parser.parse_args(arguments).spliced
    target.mkdir(parents=True, exist_ok=True)
    for script in load_all().values():
        (target / f"{script.name}.lua").write_text(script.unflagged().text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
