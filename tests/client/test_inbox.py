"""Editing what is pending: always in exactly one place, never a wake, every refusal by name."""

from __future__ import annotations

import pytest

from coordinator import (
    CancelConflict,
    ConflictingRepeat,
    Coordinator,
    InvalidId,
    MessageInvalid,
    MessageNotPending,
    MessageTooLarge,
    Session,
    UsageError,
)
from tests.client.hand import Hand


@pytest.fixture
async def session(coord: Coordinator) -> Session:
    """One turn is open; a, b and c are queued."""
    found = coord.session("s")
    await found.open()
    await found.send("running", message_id="r")
    await Hand(coord.kernel).begin("s")
    for name in "abc":
        await found.send(f"text {name}", message_id=name)
    return found


async def lists(session: Session) -> tuple[str, str]:
    inbox = (await session.snapshot()).inbox
    return "".join(one.message_id for one in inbox.next_turn), "".join(one.message_id for one in inbox.next_step)


async def test_each_edit_does_one_thing_and_the_log_tells(session: Session) -> None:
    edit = session.inbox
    await edit.move("c", before="a")
    assert await lists(session) == ("cab", "")
    await edit.move("c")
    assert await lists(session) == ("abc", "")
    await edit.steer("b")
    assert await lists(session) == ("ac", "b")
    await edit.move("b", before="c")
    assert await lists(session) == ("abc", "")
    await edit.replace("b", "another text")
    assert (await session.snapshot()).inbox.next_turn[1].body == "another text"
    await edit.remove("a")
    assert await lists(session) == ("bc", "")
    await edit.clear()
    assert await lists(session) == ("", "")
    told = [(entry.type, entry.fields.get("message_id"), entry.fields.get("why")) async for entry in session.history()]
    edits = [one for one in told if one[0] in {"inbox.moved", "inbox.replaced", "inbox.discarded"}]
    assert edits == [
        *[("inbox.moved", name, None) for name in "ccbb"],
        ("inbox.replaced", "b", None),
        ("inbox.discarded", "a", "removed"),
        ("inbox.discarded", "b", "cleared"),
        ("inbox.discarded", "c", "cleared"),
    ]


async def test_what_is_not_pending_can_not_be_edited(session: Session) -> None:
    edit = session.inbox
    for name in ("r", "never"):
        for call in (edit.remove(name), edit.replace(name, "x"), edit.move(name, before="a"), edit.steer(name)):
            with pytest.raises(MessageNotPending, match=name):
                await call
    with pytest.raises(MessageNotPending, match="'r'"):
        await edit.move("a", before="r")
    assert await lists(session) == ("abc", "")


async def test_arguments_that_can_not_be_are_refused_and_change_nothing(session: Session, coord: Coordinator) -> None:
    edit = session.inbox
    for call, error in (
        (edit.move("a", before="a"), UsageError),
        (edit.remove("a b"), InvalidId),
        (edit.remove("a", operation_id="a b"), InvalidId),
        (edit.replace("a", ""), MessageInvalid),
        (edit.replace("a", "x" * (coord.settings.max_body + 1)), MessageTooLarge),
    ):
        with pytest.raises(error):
            await call
    assert await lists(session) == ("abc", "")
    assert (await session.snapshot()).inbox.next_turn[0].body == "text a"


async def test_an_edit_comes_again_under_its_operation_id_and_does_nothing_more(session: Session) -> None:
    await session.inbox.move("c", before="a", operation_id="e-1")
    await session.inbox.move("c")
    await session.inbox.move("c", before="a", operation_id="e-1")
    assert await lists(session) == ("abc", "")
    with pytest.raises(ConflictingRepeat, match="e-1"):
        await session.inbox.remove("c", operation_id="e-1")


async def test_a_turn_that_is_being_stopped_is_not_steered(session: Session) -> None:
    await session.cancel(kind="silent")
    with pytest.raises(CancelConflict, match="silent"):
        await session.inbox.steer("a")
    assert await lists(session) == ("abc", "")


async def test_an_edit_never_wakes_an_idle_session(coord: Coordinator) -> None:
    session = coord.session("quiet")
    await session.open()
    for name in "ab":
        await session.send(name, message_id=name, wake=False)
    await session.inbox.move("b", before="a")
    await session.inbox.steer("a")
    await session.inbox.replace("b", "c")
    assert (await session.snapshot()).status == "idle"
