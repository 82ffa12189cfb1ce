"""What client calls that may come again have in common: the digest that tells a repeat, the receipt that answers."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from coordinator.domain.records import Receipt
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal

if TYPE_CHECKING:
    from coordinator.store.queue import Placements
    from coordinator.store.store import Reply


def digest(*parts: object) -> str:
    """A call's content and options in 16 hex digits, by which a repeat is told from a conflict."""
    return blake2b("\0".join(map(str, parts)).encode(), digest_size=8).hexdigest()


async def offered(reply: Reply, session_id: str, placements: Placements) -> bool:
    """Offer the placement that a script's OK names, if it names one. False when it answered something else."""
    if reply.word is not Verdict.OK:
        return False
    if reply.details[0]:
        await placements.offer(session_id, reply.details[0])
    return True


async def receipt_of(reply: Reply, session_id: str, message_id: str, placements: Placements) -> Receipt:
    """The receipt of a call that inserted a message, its placement offered if it needs one. Raises its refusal."""
    if reply.word not in {Verdict.OK, Verdict.DUPLICATE}:
        raise refusal(reply, session_id, message_id=message_id)
    placement, sequence = reply.details[:2]
    duplicate = reply.word is Verdict.DUPLICATE
    if not duplicate and reply.details[2]:
        await placements.offer(session_id, reply.details[2])
    return Receipt(message_id=message_id, sequence=int(sequence), duplicate=duplicate, placement=placement)
