"""The README in parts: its sections, its blocks of code, its tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec

ROOT: Final = Path(__file__).parents[2]
TEXT: Final = (ROOT / "README.md").read_text()
_BLOCK: Final = re.compile(r"^```(?P<language>\w*)(?P<mark>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`([^`\n]+)`")


class Block(msgspec.Struct, frozen=True):
    """One fenced block; `runs` if it is marked as one that can be run as it stands."""

    section: str
    language: str
    runs: bool
    text: str

    @property
    def lines(self) -> list[str]:
        """Its lines without the empty ones."""
        return [line for line in self.text.splitlines() if line.strip()]


def section(title: str) -> str:
    """The text of the section with this title, up to the next title."""
    return dict(_sections())[title]


def blocks(title: str | None = None) -> list[Block]:
    """The blocks of one section, or of all, in order."""
    return [
        Block(name, found["language"], found["mark"].strip() == "run", found["text"])
        for name, text in _sections()
        if title in {None, name}
        for found in _BLOCK.finditer(text)
    ]


def rows(title: str) -> list[list[str]]:
    """The rows of a section's table, without its head, as texts of cells."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def codes(text: str) -> list[str]:
    """What stands in backticks, outside of blocks."""
    return _CODE.findall(_BLOCK.sub("", text))


def _sections() -> list[tuple[str, str]]:
    # A comment in a block begins like a title.
    hidden = _BLOCK.sub(lambda found: re.sub(r"^#", "\0", found[0], flags=re.MULTILINE), TEXT)
    parts = re.split(r"^#+ (.+)$", hidden, flags=re.MULTILINE)
    return [(name, text.replace("\0", "#")) for name, text in zip(parts[1::2], parts[2::2], strict=True)]
