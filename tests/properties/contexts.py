"""Resets of the session's context, for a person or for a step, and the guard under which they begin."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.properties.driving import Driving
from tests.properties.machine import is_open, now_and_then

MEANWHILE = ["", "send", "direct", "replace", "parent", "user", "silent", "close"]


class Contexts(Driving):
    """Every phase in which a reset may end, and how."""

    @precondition(lambda self: self.model.guard or now_and_then(5)(self))
    @rule()
    def guard(self) -> None:
        if self.model.guard:
            self.released()
        else:
            self.acquired()

    @precondition(lambda self: self.model.entering or now_and_then(4)(self))
    @rule(of_step=st.booleans(), late=st.booleans())
    def reset(self, of_step: bool, late: bool) -> None:
        """Under the guard; one for a step that is not being entered any more is refused."""
        if of_step and not self.model.workflow:
            return
        view = self.world.run(self.scene.view())
        entry = (view.step_entry if self.model.entering or late else "") if of_step else ""
        reset_id = f"reset-{entry}" if entry else self.new("r")
        if reset_id in {self.model.reset, *self.model.resets}:
            return
        is_held = bool(self.model.guard)
        number = self.model.guard or self.acquired()
        found = self.made(reset_id, lambda: self.kernel.resets.begin(self.sid, reset_id, number, entry_id=entry))
        assert found == self.model.reset_begin(reset_id, entered=not entry or self.model.entering)
        if not is_held:
            self.released()

    @precondition(lambda self: self.model.reset)
    @rule(how=st.sampled_from(["committed", "committed", "failed", "not called"]))
    def end_reset(self, how: str) -> None:
        """What the worker says; before it has the session it can say nothing."""
        reset_id, execution, following, model = self.model.reset, self.execution, self.new("a"), self.model
        committed, resume = how == "committed", f"fresh-{following}"
        found = self.made(
            self.new("x"),
            lambda: self.kernel.resets.end(
                self.sid, execution, reset_id, committed=committed, resume_token=resume if committed else "",
                why="no", called=how != "not called", next_token=following,
            ),
        )  # fmt: skip
        assert found == model.called
        if found:
            model.reset_end(resume if committed else "", provider=how != "not called")
        else:
            # Told too early it would be a true answer later.
            del self.calls[f"x{self.numbers}"]

    @precondition(lambda self: self.model.reset)
    @rule()
    def expire_reset(self) -> None:
        self.expired("reset")
        self.model.fail_call()

    @precondition(lambda self: self.model.lifecycle == "open" and not self.model.operation and not self.model.reset)
    @precondition(lambda self: self.model.phase != "maintenance" and (is_open(self) or now_and_then(3)(self)))
    @rule(meanwhile=st.sampled_from(MEANWHILE), data=st.data(), committed=st.booleans())
    def whole_reset(self, meanwhile: str, data: st.DataObject, committed: bool) -> None:
        """What is open is stopped, the provider is called, and it ends; something comes meanwhile."""
        self.reset(of_step=False, late=False)
        if meanwhile == "send":
            self.send(wake=True, into="next-turn", steer=False)
        elif meanwhile == "direct":
            self.put_direct()
        elif meanwhile in {"replace", "parent"}:
            self.put_first(kind=meanwhile, data=data)
        elif meanwhile == "close":
            self.close()
        elif meanwhile:
            self.cancel(kind=meanwhile, keep=True, late=False)
        if is_open(self):
            self.finish(reason="cancelled", undelivered=False)
        if self.model.called:
            self.end_reset(how="committed" if committed else "failed")
