"""The driver, the worker, the sweeper, the maintenance job."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from coordinator.domain.verdicts import Verdict
from tests.properties.clients import Clients
from tests.properties.machine import REASONS, is_open, is_waiting, now_and_then


class Driving(Clients):
    """Turns from claim to end, and what ends them otherwise."""

    @precondition(is_waiting)
    @rule()
    def claim(self) -> None:
        self.world.run(self._claim())

    async def _claim(self) -> None:
        seen = await self.scene.view()
        token, floor = seen.activity, seen.generation
        if not self.model.up:
            await self._accept(token)
        claim_id, execution, following = self.new("c"), self.execution, self.new("a")

        async def call() -> Any:
            return await self.kernel.turns.claim(
                self.sid, token, execution, claim_id, floor=floor, next_token=following
            )

        claim = await call()
        assert claim.verdict == self.model.claim()
        if claim.ownership:
            assert [one.message_id for one in claim.messages] == [one.id for one in self.model.prompt.batch]  # type: ignore[union-attr]
            self.ownership, self.token, self.spoken, self.steps = claim.ownership, token, 0, 0
        if claim.verdict in {Verdict.OK, Verdict.EMPTY}:
            # Of those that opened nothing only the last is known again.
            self.calls[claim_id if claim.ownership else "claim"] = call

    async def _accept(self, token: str) -> None:
        self.execution, self.model.up, self.model.driven = self.new("e"), True, True
        accepted = await self.kernel.executions.accept(self.sid, token, self.execution, "w")
        assert (accepted.verdict, accepted.resume_token) == (Verdict.OK, self.model.resume)
        self.model.resume = f"of-{self.execution}"
        assert await self.kernel.executions.boot(self.sid, self.execution, self.model.resume)

    @precondition(is_open)
    @rule()
    def output(self) -> None:
        self.spoken += 1
        ownership, number = self.ownership, self.spoken
        assert self.made(self.new("x"), lambda: self.kernel.turns.output(self.sid, ownership, number, "word"))
        assert self.model.prompt
        self.model.prompt.accepted = True

    @precondition(is_open)
    @rule()
    def step(self) -> None:
        self.steps += 1
        ownership, number, prompt = self.ownership, self.steps, self.model.prompt
        assert prompt
        before = len(prompt.batch)
        taken = self.made(self.new("x"), lambda: self.kernel.turns.step(self.sid, ownership, number))
        self.model.step_boundary()
        assert [one.message_id for one in taken] == [one.id for one in prompt.batch[before:]]

    @precondition(is_open)
    @rule(reason=st.sampled_from(REASONS), undelivered=st.booleans())
    def finish(self, reason: str, undelivered: bool) -> None:
        ownership, token, following = self.ownership, self.token, self.new("a")
        undelivered = undelivered and reason == "error"
        end = self.made(
            self.new("x"),
            lambda: self.kernel.turns.finish(
                self.sid, ownership, token, reason, undelivered=undelivered, next_token=following
            ),
        )
        assert end.verdict == self.model.finish(reason, undelivered=undelivered)

    @precondition(is_waiting)
    @rule(reason=st.sampled_from(REASONS))
    def whole_turn(self, reason: str) -> None:
        """Since single calls seldom come in this order."""
        self.claim()
        if self.model.prompt:
            self.output()
            self.finish(reason=reason, undelivered=False)

    @precondition(lambda self: is_open(self) and not self.model.operation)
    @rule(kind=st.sampled_from(["user", "parent", "silent"]), reason=st.sampled_from(REASONS), between=st.booleans())
    def stopped_turn(self, kind: str, reason: str, between: bool) -> None:
        """A stop, perhaps a wake, and the end."""
        self.send(wake=True, into="next-turn", steer=False)
        self.cancel(kind=kind, keep=True, late=False)
        if between:
            self.send(wake=True, into="next-step", steer=False)
        self.finish(reason=reason, undelivered=False)

    @precondition(lambda self: is_open(self) and self.model.operation)
    @rule()
    def escalate(self) -> None:
        ownership = self.ownership
        assert self.made(self.new("x"), lambda: self.kernel.stops.escalate(self.sid, ownership, "it can't"))
        self.model.escalate()

    @precondition(lambda self: self.model.operation)
    @rule()
    def expire_cancel(self) -> None:
        self.expired("cancel")
        self.model.escalate()

    @precondition(now_and_then(3))
    @precondition(lambda self: self.model.up)
    @rule()
    def expire_lease(self) -> None:
        self.expired("lease")
        self.model.lost()

    @precondition(lambda self: is_open(self) and not self.model.prompt.accepted)
    @rule()
    def expire_acceptance(self) -> None:
        self.expired("acceptance")
        self.model.lost()

    @precondition(lambda self: self.model.up and not is_open(self))
    @precondition(lambda self: self.model.called or (now_and_then(4)(self) and self.model.phase == "idle"))
    @rule()
    def release(self) -> None:
        """An execution that drives nothing is given up, also one whose reset is under way."""
        execution = self.execution
        assert self.made(self.new("x"), lambda: self.kernel.executions.release(self.sid, execution, "unused"))
        self.model.released()

    @precondition(lambda self: self.model.suspects)
    @rule()
    def gone(self) -> None:
        """A suspect execution has ended for certain."""
        execution = self.world.run(self.scene.view()).suspects[0]
        self.made(self.new("x"), lambda: self.kernel.executions.release(self.sid, execution, "ended"))
        self.model.suspects -= 1

    @precondition(now_and_then(3))
    @precondition(lambda self: self.model.phase == "idle" and self.model.lifecycle == "open")
    @rule()
    def maintain(self) -> None:
        job = self.job = self.new("j")
        self.made("begin", lambda: self.kernel.maintenance.begin(self.sid, job, "compact"))
        self.model.phase = "maintenance"

    @precondition(lambda self: self.model.job)
    @rule(over=st.booleans())
    def end_job(self, over: bool) -> None:
        if over:
            self.expired("maintenance")
        else:
            job = self.job
            assert self.made(self.new("x"), lambda: self.kernel.maintenance.end(self.sid, job))
        self.model.end_job("escalated" if over else "cancelled")

    @precondition(lambda self: self.model.job)
    @rule(kind=st.sampled_from(["user", "parent"]))
    def stopped_job(self, kind: str) -> None:
        """The job is told, and ends in time."""
        self.cancel(kind=kind, keep=True, late=False)
        self.end_job(over=False)
