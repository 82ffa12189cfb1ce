"""What clients do to a session's inbox and to what runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from tests.properties.machine import Call, Machine, now_and_then


class Clients(Machine):
    """Sends, stops, replacements, direct prompts, edits, and the session's close."""

    @rule(wake=st.booleans(), into=st.sampled_from(["next-turn", "next-turn", "next-step"]), steer=st.booleans())
    def send(self, wake: bool, into: Any, steer: bool) -> None:
        one, busy = self.new("m"), "steer" if steer else "enqueue"
        found = self.put(
            one,
            lambda: self.kernel.inbox.send(self.sid, "text", message_id=one, list=into, wake=wake, on_busy=busy),  # type: ignore[arg-type]
        )
        self.ids.append(one)
        assert found == self.model.send(one, into=into, wake=wake, steer=steer)

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
    @rule(kind=st.sampled_from(["replace", "parent"]), data=st.data())
    def put_first(self, kind: str, data: st.DataObject) -> None:
        one = self.new("m")
        chosen = data.draw(st.lists(st.sampled_from(self.ids[-6:]), max_size=self.numbers % 2 * 2, unique=True))
        text = "" if chosen else "text"
        found = self.put(
            one, lambda: self.kernel.stops.put_first(self.sid, text, kind=kind, chosen=chosen, message_id=one)
        )
        if chosen:
            self.accepted.discard(one)
        else:
            self.ids.append(one)
        assert found == self.model.first(kind, one, chosen)

    @precondition(lambda self: not self.model.has_direct or now_and_then(3)(self))
    @rule()
    def put_direct(self) -> None:
        one, guard = self.new("m"), self.model.guard
        found = self.put(
            one,
            lambda: self.kernel.stops.put_direct(self.sid, "text", wait=3600, message_id=one, guard_number=guard),
        )
        self.ids.append(one)
        assert found == self.model.put_direct(one, guard)

    @precondition(lambda self: self.model.direct)
    @rule(over=st.booleans())
    def withdraw(self, over: bool) -> None:
        """Its caller takes it back, too early or when its time is over."""
        one, model = self.model.direct, self.model
        if over and model.direct_is == "waits":
            self.overdue()
        found = self.world.run(self.kernel.stops.withdraw(self.sid, one))
        assert found.verdict == model.withdraw(one)
        if found.verdict == "OK":
            self.calls[self.new("x")] = lambda: self.kernel.stops.withdraw(self.sid, one)
            assert found.generation == (model.generation if model.prompt else 0)

    @precondition(lambda self: self.model.direct_is == "waits" and self.model.has_direct)
    @rule()
    def overdue(self) -> None:
        """Nobody takes it back in time."""
        self.world.run(self.kernel.store.redis.hset(self.scene.keys["session"], "direct_ms", "1"))  # type: ignore[arg-type]
        self.model.direct_is = "over"

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

    @precondition(lambda self: len(self.model.log) > 40)
    @precondition(now_and_then(5))
    @rule()
    def close(self) -> None:
        assert self.made("close", lambda: self.kernel.sessions.close(self.sid, "close")) == self.model.close()
