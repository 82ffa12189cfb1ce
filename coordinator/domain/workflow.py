"""A workflow: named steps, and what the end of a turn does in each."""

from __future__ import annotations

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
