"""What commands print: objects for programs, tables for people, progress and errors on stderr."""

from __future__ import annotations

import asyncio
import json as jsonlib
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

_PATIENCE: Final = 1.0
"""Seconds after which a command says what it is waiting for."""
_AGAIN: Final = 10.0
"""Seconds between further such lines."""


def builtins(value: object) -> Any:
    """Turn a record into what JSON has, names unchanged."""
    import msgspec

    return msgspec.to_builtins(value)


class Output:
    """Where one command prints. With `json`, stdout has objects only, one a line."""

    def __init__(self, *, json: bool) -> None:
        self.json = json

    def record(self, value: object) -> None:
        """Print one object as a line of JSON."""
        sys.stdout.write(jsonlib.dumps(builtins(value), ensure_ascii=False) + "\n")
        sys.stdout.flush()

    def line(self, text: str = "") -> None:
        """Print a line for people; terminal controls in it are shown, not obeyed."""
        sys.stdout.write(harmless(text) + "\n")
        sys.stdout.flush()

    def pairs(self, title: str, values: Mapping[str, object]) -> None:
        """Print names and values below each other."""
        if title:
            self.line(title)
        width = max((len(name) for name in values), default=0)
        for name, value in values.items():
            self.line(f"  {name:<{width}}  {_cell(value)}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]], *, empty: str) -> None:
        """Print a table, or the sentence `empty` when it has no rows."""
        texts = [[harmless(_cell(value), keep_lines=False) for value in row] for row in rows]
        if not texts:
            self.line(empty)
            return
        heads = [column.upper() for column in columns]
        widths = [max(len(row[i]) for row in (heads, *texts)) for i in range(len(columns))]
        for row in (heads, *texts):
            self.line("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())

    def error(self, name: str, message: str) -> None:
        """Say what went wrong, on stderr: the error's name and its sentence."""
        if self.json:
            sys.stderr.write(jsonlib.dumps({"error": name, "message": message}, ensure_ascii=False) + "\n")
        else:
            sys.stderr.write(f"coordinator: {name}: {harmless(message)}\n")

    def note(self, text: str) -> None:
        """Tell people something on stderr; programs are not told."""
        if not self.json:
            sys.stderr.write(f"coordinator: {harmless(text)}\n")
            sys.stderr.flush()

    @asynccontextmanager
    async def progress(self, what: str) -> AsyncIterator[None]:
        """Say on stderr what the body waits for when it takes over a second, and every ten seconds after that."""
        task = asyncio.create_task(self._report(what))
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _report(self, what: str) -> None:
        await asyncio.sleep(_PATIENCE)
        passed = _PATIENCE
        while True:
            self.note(f"{what} … {passed:.0f} s")
            await asyncio.sleep(_AGAIN)
            passed += _AGAIN


def harmless(text: str, *, keep_lines: bool = True) -> str:
    """Replace control characters, which an agent's output may hold, by visible escapes."""
    kept = "\n\t" if keep_lines else ""
    return "".join(
        char if char in kept or char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in text
    )


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or value == "":
        return "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(_cell(item) for item in value) or "-"
    return str(value)
