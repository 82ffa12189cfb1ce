"""Steps and moves, and how a replica settles turns, with and without the guard."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from coordinator.domain.events import StepEntering
from coordinator.domain.verdicts import Verdict
from coordinator.services.settlements import Begun
from tests.properties.contexts import Contexts
from tests.properties.machine import STEPS, now_and_then


def is_on_workflow(machine: Stepping) -> bool:
    return bool(machine.model.workflow)


class Stepping(Contexts):
    """What replicas do, and what moves a session on."""

    def __init__(self) -> None:
        super().__init__()
        self.begun: tuple[str, Any, int, Begun] | None = None
        """A settlement that a replica has begun: entry, event, its guard, what it was told."""

    @precondition(lambda self: self.model.entering)
    @rule(how=st.sampled_from(["prompt", "prompt", "nothing to say", "failed"]))
    def enter_end(self, how: str) -> None:
        entry = self.world.run(self.scene.view()).entering
        told = [one for one, event in self.world.run(self.scene.events()) if isinstance(event, StepEntering)]
        one, event_id, model = f"entry-{entry}", told[-1], self.model
        body, error = "go" if how == "prompt" else "", "no" if how == "failed" else ""
        call = self.kernel.workflows.enter_end
        assert self.made(self.new("x"), lambda: call(self.sid, entry, event_id, body=body, error=error))
        model.enter_end(one if body else "", ok=not error)
        self.ids.append(one)

    @precondition(lambda self: self.model.entering and now_and_then(3)(self))
    @rule(times=st.sampled_from([1, 3]))
    def expire_entry(self, times: int) -> None:
        for _ in range(times):
            if self.model.entering:
                self.expired("entry")
                self.model.expire_entry()

    @precondition(now_and_then(2))
    @precondition(is_on_workflow)
    @rule(step=st.sampled_from(STEPS), deferred=st.booleans())
    def move(self, step: str, deferred: bool) -> None:
        operation = self.new("o")
        found = self.made(
            operation,
            lambda: self.kernel.workflows.move(self.sid, step, deferred=deferred, operation_id=operation),
        )
        assert found == self.model.move_to(step, deferred=deferred)

    @precondition(now_and_then(3))
    @precondition(lambda self: is_on_workflow(self) and self.model.lifecycle == "open")
    @rule()
    def signal(self) -> None:
        operation = self.new("o")
        self.made(operation, lambda: self.kernel.workflows.signal(self.sid, operation_id=operation))
        self.model.signalled = self.model.entry

    @precondition(lambda self: is_on_workflow(self) and self.model.prompt)
    @rule()
    def signal_from_the_turn(self) -> None:
        """It is of the step in which the turn began."""
        operation, ownership, prompt = self.new("o"), self.ownership, self.model.prompt
        assert prompt
        self.made(
            operation, lambda: self.kernel.workflows.signal(self.sid, ownership=ownership, operation_id=operation)
        )
        if prompt.entry == self.model.entry and self.model.lifecycle == "open":
            self.model.signalled = self.model.entry

    @precondition(lambda self: self.model.unsettled)
    @rule()
    def settle(self) -> None:
        """As a replica does that knows of no handler."""
        entry, event = self.world.run(self.scene.readies())[-1]
        self._settled(entry, lambda: self.kernel.settlements.settle(event, entry), 0, None, "")

    def _settled(self, name: str, call: Any, guard: int, seen: Begun | None, step_to: str) -> None:
        found = self.world.run(call())
        seen_of = (seen.evaluates, seen.cancel, self.model.entry if seen.step_entry else 0) if seen else None
        wanted = self.model.settlement(guard, seen_of, step_to)
        if found.verdict is Verdict.OK:
            self.calls[name] = call
        assert (found.detail if found.verdict is Verdict.OK else found.verdict) == wanted

    @precondition(lambda self: self.model.unsettled and not self.begun)
    @rule()
    def begin_settlement(self) -> None:
        """A replica takes the guard and looks; handlers would run now."""
        entry, event = self.world.run(self.scene.readies())[-1]
        number, model = self.model.guard or self.acquired(), self.model
        begun = self.world.run(self.kernel.settlements.begin(event, entry, number))
        if model.reset:
            assert begun.verdict is Verdict.RESETTING
            return
        assert (begun.verdict, begun.evaluates, begun.cancel) == (Verdict.OK, model.evaluation(), model.stopper)
        assert begun.step == (model.step if model.in_step else "")
        assert begun.signalled == (model.in_step and model.signalled == model.entry)
        self.begun = entry, event, number, begun
        self.begun_in = model.last_turn, model.entry

    @precondition(lambda self: self.begun)
    @rule(step_to=st.sampled_from(["", *STEPS]))
    def end_settlement(self, step_to: str) -> None:
        """It settles by what it was told, whatever has come between."""
        assert self.begun
        entry, event, number, begun = self.begun
        self.begun, (turn, seen_entry) = None, self.begun_in

        async def call() -> Any:
            return await self.kernel.settlements.settle(event, entry, number, seen=begun, step_to=step_to)

        model = self.model
        if model.unsettled != turn:
            # Settled meanwhile, by the same entry or another one: nothing of it counts.
            is_known = self.world.run(call()).verdict in {Verdict.STALE, Verdict.OK}
            assert is_known
            return
        found = self.world.run(call())
        seen = (begun.evaluates, begun.cancel, seen_entry if begun.step_entry else -1)
        wanted = model.settlement(number, seen, step_to)
        if found.verdict is Verdict.OK:
            self.calls[entry] = call
        assert (found.detail if found.verdict is Verdict.OK else found.verdict) == wanted

    @precondition(lambda self: self.model.unsettled and not self.begun)
    @rule(step_to=st.sampled_from(["", *STEPS]), enters=st.booleans())
    def whole_settlement(self, step_to: str, enters: bool) -> None:
        """Nothing comes between, and a step that it leads to is entered."""
        self.begin_settlement()
        if self.begun:
            self.end_settlement(step_to=step_to)
        if self.model.entering and enters:
            self.enter_end(how="prompt")
