"""Edits of pending messages: one script each, never in neither list, never a wake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.errors import (
    CancelConflict,
    ConflictingRepeat,
    InboxFull,
    MessageNotPending,
    SessionClosed,
    SessionUnknown,
)
from tests.scripts.scene import OFFERS, Scene, unchanged
from tests.scripts.states import brought

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from coordinator.services import Kernel

EDITS = ["remove", "replace", "move", "steer", "clear"]


def edit(kernel: Kernel, what: str, session_id: str, message: str, operation: str) -> Callable[[], Awaitable[None]]:
    """One edit, ready to be made."""
    inbox = kernel.inbox
    return {
        "remove": lambda: inbox.remove(session_id, message, operation),
        "replace": lambda: inbox.replace(session_id, message, "other", operation),
        "move": lambda: inbox.move(session_id, message, "", operation),
        "steer": lambda: inbox.steer(session_id, message, operation),
        "clear": lambda: inbox.clear(session_id, operation),
    }[what]


async def lined_up(kernel: Kernel) -> tuple[Scene, list[str]]:
    """An idle session with three quiet messages in next-turn and one in next-step."""
    scene = await Scene(kernel).opened()
    ids = [await scene.sent(text, wake=False) for text in ("a", "b", "c")]
    return scene, [*ids, await scene.sent("s", list="next-step", wake=False)]


@pytest.mark.parametrize("what", EDITS)
async def test_an_edit_never_wakes_and_its_repeat_gets_the_first_answer(kernel: Kernel, what: str) -> None:
    """Also when the message is gone since; another edit under the same id is refused."""
    scene, (one, *_) = await lined_up(kernel)
    call = edit(kernel, what, scene.sid, one, "o")
    await call()
    assert (await scene.view()).status == "idle"
    async with unchanged(kernel):
        await call()
        with pytest.raises(ConflictingRepeat):
            await edit(kernel, "move" if what != "move" else "remove", scene.sid, one, "o")()
    assert set(await scene.types()) <= {
        "session.opened", "inbox.inserted", "inbox.discarded", "inbox.replaced", "inbox.moved",
    }  # fmt: skip


@pytest.mark.parametrize("what", EDITS)
async def test_what_is_not_pending_and_who_is_not_open_refuse(kernel: Kernel, what: str) -> None:
    """Claimed, unknown, closed: nothing is written."""
    scene = await brought(kernel, "accepted")
    flying = (await scene.view()).inbox.in_flight[0].message_id
    if what != "clear":
        for message in (flying, "nobody"):
            async with unchanged(kernel):
                with pytest.raises(MessageNotPending):
                    await edit(kernel, what, scene.sid, message, "o")()
    async with unchanged(kernel):
        with pytest.raises(SessionUnknown):
            await edit(kernel, what, "nobody", flying, "o")()
    await kernel.sessions.close(scene.sid)
    async with unchanged(kernel):
        with pytest.raises(SessionClosed):
            await edit(kernel, what, scene.sid, flying, "o")()


async def test_a_removed_message_is_discarded_visibly_and_its_bytes_are_free(kernel: Kernel) -> None:
    """A driver that was started for it writes the empty turn (section 5.1)."""
    scene = await Scene(kernel).opened()
    message = await scene.sent("waking")
    await scene.booted()
    await kernel.inbox.remove(scene.sid, message)
    redis = kernel.store.redis
    assert not await redis.exists(scene.keys["messages"], scene.keys["awake"], scene.keys["next_turn"])
    assert (await scene.claimed()).verdict == "EMPTY"
    assert (await scene.types())[-3:] == ["turn.started", "turn.ended", "idle"]
    assert next(e["why"] for e in await scene.log() if e["type"] == "inbox.discarded") == "removed"


async def test_moves_keep_the_rest_in_order_and_go_across_lists(kernel: Kernel) -> None:
    """Before another one, in that one's list; without one to its own list's end; not before itself."""
    scene, (a, b, c, s) = await lined_up(kernel)
    await kernel.inbox.move(scene.sid, c, a)
    assert await scene.pending() == ["s", "c", "a", "b"]
    await kernel.inbox.move(scene.sid, c)
    assert await scene.pending() == ["s", "a", "b", "c"]
    await kernel.inbox.move(scene.sid, b, s)
    assert await scene.pending() == ["b", "s", "a", "c"]
    for before in (a, "nobody"):
        async with unchanged(kernel):
            with pytest.raises(MessageNotPending):
                await kernel.inbox.move(scene.sid, a, before)


async def test_a_steered_message_is_taken_at_the_next_boundary_and_keeps_its_wish_to_run(kernel: Kernel) -> None:
    """Seed 2, steer-this-row: awake before and after."""
    scene = await brought(kernel, "accepted")
    (queued,) = (await scene.view()).inbox.next_turn
    await kernel.inbox.steer(scene.sid, queued.message_id)
    (moved,) = (await scene.view()).inbox.next_step
    assert (moved.message_id, moved.sequence, moved.awake) == (queued.message_id, queued.sequence, True)


async def test_nothing_is_steered_into_a_turn_that_is_being_stopped(kernel: Kernel) -> None:
    """It would take nothing more; the message stays where it is."""
    scene = await brought(kernel, "accepted")
    await kernel.stops.cancel(scene.sid)
    (queued,) = (await scene.view()).inbox.next_turn
    async with unchanged(kernel, OFFERS):
        with pytest.raises(CancelConflict):
            await kernel.inbox.steer(scene.sid, queued.message_id)


async def test_a_body_is_replaced_in_place_within_the_bytes(kernel: Kernel) -> None:
    """The same place, id and wish; smaller is always allowed, also above a limit that came later."""
    scene, (a, b, *_) = await lined_up(kernel)
    await kernel.inbox.replace(scene.sid, b, "longer")
    assert await scene.pending() == ["s", "a", "longer", "c"]
    kernel.store._common["max_inbox_bytes"] = 3
    async with unchanged(kernel):
        with pytest.raises(InboxFull):
            await kernel.inbox.replace(scene.sid, a, "also longer")
    await kernel.inbox.replace(scene.sid, b, "b")
    assert await scene.pending() == ["s", "a", "b", "c"]
    assert (await kernel.inbox.send(scene.sid, "a", message_id=a, wake=False)).duplicate
