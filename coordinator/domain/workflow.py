"""A workflow: named steps, and what the end of a turn does in each."""

from __future__ import annotations

from collections import UserDict
from pathlib import Path

import msgspec


class Step(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    prompt: str = ""
    auto_start: bool = False
    reset_agent_context: bool = False
    on_turn_complete: str = "stay"
    cancel_triggers_turn_complete: bool = False
    requires_signal: bool = False
    terminal: bool = False


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    start: str
    steps: tuple[Step, ...]

    def step(self, name: str) -> Step | None:
        return next((step for step in self.steps if step.name == name), None)

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> Workflow:
        return msgspec.json.decode(text, type=cls)

    def after(self, name: str) -> str:
        """The step that a turn's end in this one goes to, or "" to stay."""
        step = self.step(name)
        if step is None or step.terminal or step.on_turn_complete == "stay":
            return ""
        if step.on_turn_complete != "next":
            return step.on_turn_complete
        names = [one.name for one in self.steps]
        return dict(zip(names, names[1:], strict=False)).get(name, "")

    @classmethod
    def from_toml(cls, path: str | Path) -> Workflows:
        """The workflows of a file."""
        found = msgspec.toml.decode(Path(path).read_bytes())["workflow"]
        flows = {name: {"name": name, "start": flow["start"], "steps": flow["step"]} for name, flow in found.items()}
        return Workflows(msgspec.convert(flows, dict[str, Workflow]))


class Workflows(UserDict[str, Workflow]):
    """Workflows by name."""
