"""The same scripts with one rule taken out, to see what a version without it does."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from coordinator.store.scripts import load, root
from coordinator.store.store import Store
from tests.faults.gap import copy_tree
from tests.stops.scene import Resident, Scene

Edit = tuple[str, str, str]
"""File, pattern, replacement."""
_SETS: Final = "if placement == 'latched' then set('latched', '1') end keep_answer(placement, sequence)"
FLAG_LATCH: Final[tuple[Edit, ...]] = (
    ("lib/exit.lua", r"not has_awake\(\)", "text('latched') == '' or pending() == 0"),
    ("send.lua", r"keep_answer\(placement, sequence\)", _SETS),
)
"""A flag remembers that something woke the session while it was stopped, whatever becomes of that."""
ONE_STOP: Final[tuple[Edit, ...]] = (
    ("cancel.lua", r"(?m)^if parks and \(running or .*\) then", "if parks and running and not is_stopping() then"),
)
"""A second keep-inbox stop is a complete no-op."""
OPEN_ONLY: Final[tuple[Edit, ...]] = (("cancel.lua", r"elseif parks and running then", "elseif false then"),)
"""A stop knows nothing but an open turn."""


def rewrite(scene: Scene, folder: Path, edits: Iterable[Edit]) -> None:
    """Give the client and the worker of a scene scripts with these edits."""
    assert isinstance(scene.puppet, Resident)
    copy_tree(root(), folder)
    for name, pattern, replacement in edits:
        file = folder / name
        text, cuts = re.subn(pattern, replacement, file.read_text())
        assert cuts == 1, f"{name} has changed: make the naive version anew"
        file.write_text(text)
    stores: list[Store] = [scene.kernel.store, scene.puppet.executions[-1].store]
    for store in stores:
        for script in ("cancel", "send", "finish"):
            store._scripts[script] = load(script, folder)
