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
from coordinator.services import Kernel
from tests.properties.model import Model
from tests.scripts.scene import COUNTED, Scene, unchanged
from tests.support.verdict import examine

WORDS: Final[dict[type[Exception], str]] = {
    errors.SessionClosed: "CLOSED",
    errors.TurnChanged: "TURN_CHANGED",
    errors.CancelConflict: "OPERATION",
    errors.PredecessorPending: "OWED",
    errors.MessageNotPending: "GONE",
}
SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "session.status": ("status",),
    "session.closed": (),
    "turn.started": ("turn",),
    "turn.ended": ("turn", "reason"),
    "turn.settled": ("turn", "outcome"),
    "turn.cancelled_by_user": ("turn",),
    "inbox.inserted": ("message_id",),
    "inbox.claimed": ("message_id",),
    "inbox.returned": ("message_id",),
    "inbox.moved": ("message_id",),
    "inbox.discarded": ("message_id", "why"),
    "cancel.requested": ("operation_id", "kind", "revision"),
    "cancel.settled": ("operation_id", "outcome", "revision"),
}
REASONS: Final = ["completed", "completed", "max_tokens", "cancelled", "cancelled", "error", "blocked", "interrupted"]
Call = Callable[[], Awaitable[Any]]


class World:
    """What all examples share: an event loop and a kernel."""

    def __init__(self, runner: asyncio.Runner, kernel: Kernel) -> None:
        self.runner = runner
        self.kernel = kernel

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)


def is_open(machine: Sessions) -> bool:
    return machine.model.prompt is not None


def now_and_then(share: int, at: int = 0) -> Callable[[Sessions], bool]:
    """So that turns begin and end, what is no part of them is tried in a share of the steps."""
    return lambda machine: machine.numbers % share == at


def is_waiting(machine: Sessions) -> bool:
    return machine.model.phase == "running" and machine.model.prompt is None


class Sessions(RuleBasedStateMachine):
    """One session from its opening on; `world` is given by the test."""

    world: ClassVar[World]
    policies: ClassVar[st.SearchStrategy[SessionPolicy]] = st.builds(
        SessionPolicy,
        settlement=st.sampled_from(["required", "none"]),
        after_error=st.sampled_from(["park", "continue"]),
        lost_turns=st.sampled_from(["fail", "retry"]),
    )

    def __init__(self) -> None:
        super().__init__()
        self.kernel = self.world.kernel
        self.scene = Scene(self.kernel)
        self.sid = self.scene.sid
        self.model = Model()
        self.numbers = 0
        self.calls: dict[str, Call] = {}
        """What was answered, to be sent a second time later."""
        self.ids: list[str] = ["m0"]
        self.ownership = Ownership("", 0, "")
        self.execution = self.token = self.job = ""
        self.spoken = self.steps = 0

    @initialize(policy=policies)
    def opened(self, policy: SessionPolicy) -> None:
        self.world.run(self._opened(policy))
        self.model.policy = policy

    async def _opened(self, policy: SessionPolicy) -> None:
        await self.kernel.store.redis.flushall()
        await self.scene.opened()
        await self.kernel.sessions.open(self.sid, policy)

    def new(self, prefix: str) -> str:
        self.numbers += 1
        return f"{prefix}{self.numbers}"

    def made(self, name: str, call: Call) -> Any:
        """What the call answers, or the word of its refusal; an answered one may come again."""

        async def answer() -> Any:
            try:
                return await call()
            except errors.CoordinatorError as error:
                return WORDS[type(error)]

        found = self.world.run(answer())
        if not isinstance(found, str):
            self.calls[name] = call
        return found

    # --- clients

    @rule(wake=st.booleans(), into=st.sampled_from(["next-turn", "next-turn", "next-step"]), steer=st.booleans())
    def send(self, wake: bool, into: Any, steer: bool) -> None:
        one, busy = self.new("m"), "steer" if steer else "enqueue"
        found = self.made(
            one,
            lambda: self.kernel.inbox.send(self.sid, "text", message_id=one, list=into, wake=wake, on_busy=busy),  # type: ignore[arg-type]
        )
        self.ids.append(one)
        assert getattr(found, "placement", found) == self.model.send(one, into=into, wake=wake, steer=steer)

    @precondition(lambda self: self.model.prompt or now_and_then(3)(self))
    @rule(
        kind=st.sampled_from(["user", "user", "parent", "silent", "system"]),
        keep=st.sampled_from([True, True, True, False]),
        late=st.booleans(),
    )
    def cancel(self, kind: Any, keep: bool, late: bool) -> None:
        ticket, expected = self.new("o"), max(0, self.model.turn - late) if self.numbers % 3 == 0 else 0
        found = self.made(
            ticket,
            lambda: self.kernel.stops.cancel(
                self.sid, kind=kind, keep_inbox=keep, expected_turn=expected, operation_id=ticket
            ),
        )
        wanted = self.model.cancel(ticket, kind, keep=keep, expected=expected)
        assert getattr(found, "ticket", found) == wanted
        if not isinstance(found, str):
            assert found.outcome == self.model.outcomes.get(wanted)

    @precondition(lambda self: self.model.prompt or now_and_then(3, 1)(self))
    @rule(kind=st.sampled_from(["replace", "replace", "parent", "direct"]), data=st.data())
    def put_first(self, kind: str, data: st.DataObject) -> None:
        one, guard = self.new("m"), self.model.guard if kind == "direct" else 0
        chosen = data.draw(st.lists(st.sampled_from(self.ids[-6:]), max_size=2, unique=True))
        if kind == "direct":
            chosen = []
        found = self.made(
            one,
            lambda: self.kernel.stops.put_first(
                self.sid, "" if chosen else "text", kind=kind, chosen=chosen, message_id=one, guard_number=guard
            ),
        )
        if not chosen:
            self.ids.append(one)
        assert getattr(found, "placement", found) == self.model.first(kind, one, chosen, guard=guard)

    @precondition(now_and_then(2))
    @precondition(lambda self: self.model.lifecycle == "open" and self.model.pending)
    @rule(what=st.sampled_from(["remove", "move", "move", "steer", "steer", "clear"]), data=st.data())
    def edit(self, what: str, data: st.DataObject) -> None:
        one, before = (data.draw(st.sampled_from(self.ids[-6:])) for _ in range(2))
        before = "" if self.numbers % 4 == 0 else before
        inbox, operation = self.kernel.inbox, self.new("o")
        edits: dict[str, tuple[Call, Callable[[], str | None]]] = {
            "remove": (lambda: inbox.remove(self.sid, one, operation), lambda: self.model.remove(one)),
            "move": (lambda: inbox.move(self.sid, one, before, operation), lambda: self.model.move(one, before)),
            "steer": (lambda: inbox.steer(self.sid, one, operation), lambda: self.model.steer(one)),
            "clear": (lambda: inbox.clear(self.sid, operation), lambda: self.model.discard("cleared")),
        }
        call, expected = edits[what]
        found, wanted = self.made(operation, call) or "OK", expected() or "OK"
        assert found == wanted, f"{what} of {one} answered {found}, not {wanted}"

    @precondition(lambda self: len(self.model.log) > 25)
    @precondition(now_and_then(4))
    @rule()
    def close(self) -> None:
        assert self.made("close", lambda: self.kernel.sessions.close(self.sid, "close")) == self.model.close()

    @precondition(now_and_then(2, 1))
    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def again(self, data: st.DataObject) -> None:
        """Any call whose answer was lost, or that was delayed on its way: nothing happens but that it is counted."""
        name = data.draw(st.sampled_from(sorted(self.calls)))

        async def repeat() -> None:
            async with unchanged(self.kernel, COUNTED):
                with suppress(errors.Superseded):
                    await self.calls[name]()

        self.world.run(repeat())

    # --- the oracle

    @invariant()
    def same(self) -> None:
        """The record and the log are the model's, and no invariant of section 11 is broken."""
        self.world.run(self._same())

    async def _same(self) -> None:
        view, model = await self.scene.view(), self.model
        shown = [(entry.message_id, entry.awake) for entry in (*view.inbox.next_step, *view.inbox.next_turn)]
        assert shown == [(one.id, model.is_awake(one)) for one in model.pending]
        assert [one.message_id for one in view.inbox.in_flight] == [
            one.id for one in (model.prompt.batch if model.prompt else [])
        ]
        assert (view.phase, view.lifecycle, view.turn, view.generation, view.unsettled_turn) == (
            model.phase, model.lifecycle, model.turn, model.generation, model.unsettled,
        )  # fmt: skip
        assert (view.cancel_pending, view.cancel_kind, view.cancel_revision) == (
            bool(model.operation), model.operation[1] if model.operation else "", model.revision,
        )  # fmt: skip
        assert (bool(view.execution_id), view.open_turn) == (model.up, model.prompt.turn if model.prompt else 0)
        log = [
            (e["type"], *(e[name] for name in SHOWN[e["type"]])) for e in await self.scene.log() if e["type"] in SHOWN
        ]
        assert log == model.log
        assert ("cancel" in {one.kind for one in view.deadlines}) == view.cancel_pending
        for ticket, outcome in list(model.outcomes.items())[-3:]:
            assert await self.kernel.stops.outcome(self.sid, ticket) == outcome
        if self.numbers % 4 == 0:
            assert (await examine(self.kernel, self.sid)).violations == []
