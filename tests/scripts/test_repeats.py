"""A client that sends again: the message id is the operation, however often and however late it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.domain.errors import ConflictingRepeat
from tests.scripts.scene import Scene, unchanged

if TYPE_CHECKING:
    from coordinator.domain.records import Receipt
    from coordinator.services import Kernel


async def again(scene: Scene, body: str = "hello", **options: Any) -> Receipt:
    """Message m, sent."""
    return await scene.kernel.inbox.send(scene.sid, body, **{"message_id": "m", **options})


async def forgotten(scene: Scene) -> None:
    """The receipt of m, expired."""
    receipt = scene.kernel.store.keys.receipt(scene.sid, "m")
    assert 0 < await scene.kernel.store.redis.pttl(receipt) <= 86_400_000
    await scene.kernel.store.redis.delete(receipt)


async def in_flight(scene: Scene) -> None:
    """Its turn is open."""
    await scene.booted()
    await scene.claimed()


async def consumed(scene: Scene) -> None:
    """Its turn has ended."""
    await scene.booted()
    ownership = (await scene.claimed()).ownership
    assert ownership
    await scene.finished(ownership)


async def started(kernel: Kernel) -> Scene:
    """A session that message m has started."""
    scene = await Scene(kernel).opened()
    await scene.sent(message_id="m")
    return scene


@pytest.mark.parametrize("state", ["pending", "in flight", "consumed", "closed"])
async def test_a_repeat_gets_the_first_answer_and_changes_nothing(kernel: Kernel, state: str) -> None:
    """Wake-latch A13, G16, X15: one id is one message for the life of its receipt, wherever the message is by then."""
    scene = await started(kernel)
    if state == "in flight":
        await in_flight(scene)
    elif state in {"consumed", "closed"}:
        await consumed(scene)
    if state == "closed":
        await kernel.sessions.close(scene.sid)
    async with unchanged(kernel):
        receipt = await again(scene)
    assert (receipt.duplicate, receipt.placement, receipt.sequence) == (True, "started", 1)


@pytest.mark.parametrize("state", ["pending", "in flight"])
async def test_a_repeat_without_receipt_is_known_while_its_message_is_there(kernel: Kernel, state: str) -> None:
    """Section 3: an id still pending or in flight is a repeat even when the receipt is gone."""
    scene = await started(kernel)
    if state == "in flight":
        await in_flight(scene)
    await forgotten(scene)
    async with unchanged(kernel):
        receipt = await again(scene)
    assert (receipt.duplicate, receipt.sequence) == (True, 1)


async def test_a_consumed_message_without_receipt_is_a_new_one(kernel: Kernel) -> None:
    """Receipts live for a day; nothing is remembered for ever."""
    scene = await started(kernel)
    await consumed(scene)
    await forgotten(scene)
    receipt = await again(scene)
    assert (receipt.duplicate, receipt.sequence, receipt.placement) == (False, 2, "started")


@pytest.mark.parametrize("remembered_by", ["receipt", "message"])
@pytest.mark.parametrize(
    "other",
    [{"body": "other"}, {"list": "next-step"}, {"wake": False}, {"on_busy": "steer"}],
    ids=["body", "list", "wake", "on_busy"],
)
async def test_the_same_id_with_another_content_is_a_conflict(
    kernel: Kernel, other: dict[str, Any], remembered_by: str
) -> None:
    """The receipt has a hash of body and options; so has the message while it is there."""
    scene = await started(kernel)
    if remembered_by == "message":
        await forgotten(scene)
    async with unchanged(kernel):
        with pytest.raises(ConflictingRepeat):
            await again(scene, **other)


async def test_a_repeat_of_a_parked_message_does_not_wake_the_session(kernel: Kernel) -> None:
    """F9: a repeat never starts an activity, so it can't undo what parked its message."""
    scene = await Scene(kernel).opened()
    ownership = await scene.prompted()
    await again(scene, "parked")
    await scene.finished(ownership, "error", error="boom")
    async with unchanged(kernel):
        receipt = await again(scene, "parked")
    assert (receipt.duplicate, receipt.placement) == (True, "queued")
    assert (await scene.view()).status == "idle"


async def test_the_same_id_in_two_sessions_is_two_messages(kernel: Kernel) -> None:
    """The session is the unit of ordering and of ids."""
    await started(kernel)
    other = await Scene(kernel, "t").opened()
    receipt = await again(other, "another body")
    assert (receipt.duplicate, receipt.placement) == (False, "started")
