"""Random calls to one session, each made to the model too; after every step both show the same."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, ClassVar, Final

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.domain import errors
from coordinator.domain.records import Ownership, SessionPolicy
from coordinator.domain.workflow import Step, Workflow
from coordinator.services import Kernel
from tests.properties.comparing import check
from tests.properties.model import Model
from tests.scripts.scene import COUNTED, OFFERS, Scene, unchanged

WORDS: Final[dict[type[Exception], str]] = {
    errors.SessionClosed: "CLOSED",
    errors.TurnChanged: "TURN_CHANGED",
    errors.CancelConflict: "OPERATION",
    errors.PredecessorPending: "OWED",
    errors.MessageNotPending: "GONE",
    errors.ResetInProgress: "RESETTING",
    errors.SessionBusy: "BUSY",
    errors.Superseded: "SUPERSEDED",
    errors.QuestionClosed: "STALE",
}
REASONS: Final = ["completed", "completed", "max_tokens", "cancelled", "cancelled", "error", "blocked", "interrupted"]
STEPS: Final = ["plan", "do", "done"]
FLOW: Final = Workflow(name="flow", start="plan", steps=tuple(Step(name=name) for name in STEPS))
Call = Callable[[], Awaitable[Any]]


class World:
    """What all examples share: an event loop and a kernel."""

    def __init__(self, runner: asyncio.Runner, kernel: Kernel) -> None:
        self.runner = runner
        self.kernel = kernel

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)


def is_open(machine: Machine) -> bool:
    return machine.model.prompt is not None


def now_and_then(share: int, at: int = 0) -> Callable[[Machine], bool]:
    """So that turns begin and end, what is no part of them is tried in a share of the steps."""
    return lambda machine: machine.numbers % share == at


def is_waiting(machine: Machine) -> bool:
    return machine.model.phase == "running" and machine.model.prompt is None


class Machine(RuleBasedStateMachine):
    """One session from its opening on; `world` is given by the test."""

    world: ClassVar[World]
    policies: ClassVar[st.SearchStrategy[SessionPolicy]] = st.builds(
        SessionPolicy,
        settlement=st.sampled_from(["required", "required", "none"]),
        after_error=st.sampled_from(["park", "continue"]),
        lost_turns=st.sampled_from(["fail", "retry"]),
    )

    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.world.kernel
        self.scene = Scene(self.kernel)
        self.sid = self.scene.sid
        self.model = Model()
        self.numbers = self.guards = 0
        self.calls: dict[str, Call] = {}
        """What was answered, to be sent a second time later."""
        self.ids: list[str] = ["m0"]
        self.accepted: set[str] = set()
        """Messages whose senders have a receipt."""
        self.ownership = Ownership("", 0, "")
        self.execution = self.token = self.job = ""
        self.spoken = self.steps = 0

    @initialize(policy=policies, workflow=st.booleans())
    def opened(self, policy: SessionPolicy, workflow: bool) -> None:
        self.world.run(self._opened(policy))
        self.model.policy = policy
        if workflow and policy.settlement == "required":
            self.world.run(self.kernel.sessions.open(self.sid, policy, workflow="flow"))
            self.model.workflow = "flow"
            self.model.begin_entry("plan")

    async def _opened(self, policy: SessionPolicy) -> None:
        await self.kernel.store.redis.flushall()
        await self.kernel.workflows.publish([FLOW])
        await self.scene.opened()
        await self.kernel.sessions.open(self.sid, policy)

    def new(self, prefix: str) -> str:
        self.numbers += 1
        return f"{prefix}{self.numbers}"

    def made(self, name: str, call: Call) -> Any:
        """What the call answers, or the word of its refusal; an answered one may come again."""

        async def answer() -> tuple[Any, bool]:
            try:
                return await call(), True
            except errors.CoordinatorError as error:
                return WORDS[type(error)], False

        found, is_answered = self.world.run(answer())
        if is_answered:
            self.calls[name] = call
        return found

    def put(self, message_id: str, call: Call) -> str:
        """The placement of a message, or the word of its refusal."""
        found = self.made(message_id, call)
        if isinstance(found, str):
            return found
        self.accepted.add(message_id)
        return str(found.placement)

    def acquired(self) -> int:
        """The guard's number, taken by somebody now."""
        self.guards += 1
        state = self.world.run(self.kernel.guards.acquire(self.sid, f"g{self.guards}"))
        assert state.number == self.guards
        self.model.guard = self.guards
        return self.guards

    def released(self) -> None:
        number, self.model.guard = self.model.guard, 0
        assert self.made(self.new("x"), lambda: self.kernel.guards.release(self.sid, f"g{number}", number))

    def expired(self, kind: str) -> None:
        """A deadline that is over, found by a sweeper."""
        following = self.new("a")
        self.world.run(self.scene.make_due(kind))
        found = self.made(
            self.new("x"), lambda: self.kernel.deadlines.expire(kind, self.sid, "1", next_token=following)
        )
        assert found.verdict == "OK"

    @precondition(now_and_then(2, 1))
    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        """Any call whose answer was lost, or that was delayed on its way: nothing happens but that it is counted."""
        name = data.draw(st.sampled_from(sorted(self.calls)))

        async def repeat() -> None:
            async with unchanged(self.kernel, (*COUNTED, *OFFERS)):
                with suppress(errors.Superseded, errors.GuardLost):
                    await self.calls[name]()

        self.world.run(repeat())

    @invariant()
    def same(self) -> None:
        """The record and the log are the model's, and no invariant of section 11 is broken."""
        self.world.run(check(self.scene, self.model, self.accepted if self.numbers % 4 == 0 else None))
