"""Writing files of workflows, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.domain.errors import WorkflowInvalid
from coordinator.domain.workflow import Workflow


def told(folder: Path, text: str | bytes) -> list[str]:
    """What is said of a text, a line each, without the file's name."""
    file = folder / "flow.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(WorkflowInvalid) as caught:
        Workflow.from_toml(file)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{file}:") for line in lines)
    return [line.removeprefix(f"{file}:") for line in lines]


def flow(*steps: str, start: str = "a") -> str:
    """A workflow `w` on line 1, its start on line 2, and each step from a line of its own: header, name, and so on."""
    text = f'[workflow.w]\nstart = "{start}"\n'
    return text + "".join("[[workflow.w.step]]\nname = " + step + "\n" for step in steps)
