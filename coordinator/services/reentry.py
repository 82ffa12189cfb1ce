"""Where a task stands: in a session's turn, in a handler for it, under its guard, or in a maintenance job.

What waits there for the same session would wait for itself. A context variable carries the place, so that
tasks started from it are inside as well; each place is switched off when it is left, so that a task that
outlives it is free again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

from coordinator.domain.errors import Reentry

Kind = Literal["turn", "handler", "guard", "maintenance"]

_WAITS: Final = frozenset({"guard", "guard.prompt", "prompt", "reset", "result", "wait_idle"})
_REFUSED: Final[dict[Kind, frozenset[str]]] = {
    "turn": _WAITS | {"close", "outcome"},
    "handler": _WAITS | {"close"},
    "guard": _WAITS - {"guard.prompt"},
    "maintenance": (_WAITS - {"guard"}) | {"maintain", "outcome"},
}
_PLACE: Final[dict[Kind, str]] = {
    "turn": "its own turn",
    "handler": "a handler for it",
    "guard": "its guard",
    "maintenance": "a maintenance job on it",
}


class Scope:
    """One stay inside a session; over when `active` is false."""

    __slots__ = ("active", "kind", "session_id")

    def __init__(self, kind: Kind, session_id: str) -> None:
        self.active = True
        self.kind: Kind = kind
        self.session_id = session_id


_scopes: ContextVar[tuple[Scope, ...]] = ContextVar("coordinator_scopes", default=())


def enter(kind: Kind, session_id: str) -> Scope:
    """Mark the current task, and those it starts from now on, as inside. Ends by `leave`."""
    scope = Scope(kind, session_id)
    _scopes.set((*(known for known in _scopes.get() if known.active), scope))
    return scope


def leave(scope: Scope) -> None:
    """End a stay, for every task that inherited it. May be called from any task, and twice."""
    scope.active = False
    _scopes.set(tuple(known for known in _scopes.get() if known.active))


@contextmanager
def inside(kind: Kind, session_id: str) -> Iterator[None]:
    """Mark the body, and the tasks it starts, as inside this session."""
    scope = enter(kind, session_id)
    try:
        yield
    finally:
        leave(scope)


def refuse(session_id: str, what: str) -> None:
    """Let `what` (a method of Session) pass, unless it would wait for the place it is called from.

    Raises `Reentry` at once inside a turn or a handler of this session for prompt, reset, guard, wait_idle, close and
    result, in a turn also for a cancel's outcome; under its guard for all that waits but the guard's own prompt; and in
    a maintenance job for all that waits for its own end.
    """
    for scope in _scopes.get():
        if scope.active and scope.session_id == session_id and what in _REFUSED[scope.kind]:
            raise Reentry(
                f"{what} on session {session_id} was called inside {_PLACE[scope.kind]} and would wait for itself; "
                "call it after that has ended, or from a task that was started outside"
            )


def stands_in(kind: Kind, session_id: str) -> bool:
    """Whether the current task is inside a place of this kind in this session."""
    return any(one.active and (one.kind, one.session_id) == (kind, session_id) for one in _scopes.get())
