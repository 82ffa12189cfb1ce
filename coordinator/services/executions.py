"""A worker's right to a session: accepting an activity, booting, heartbeats, giving it up."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict
from coordinator.services.receipts import offered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from coordinator.store.queue import Placements
    from coordinator.store.store import Store

MOST_RENEWED = 100
"""Sessions that one renewal names, so that no script holds the server up for long."""


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What accepting an activity answered: OK, NO_SESSION, SUPERSEDED, TAKEN or LIVE."""

    verdict: Verdict
    resume_token: str = ""


class Held(msgspec.Struct, frozen=True):
    """What a worker says of one session at a heartbeat."""

    session_id: str
    execution_id: str
    token: str = ""
    """The activity that it drives."""
    claim_id: str = ""
    """The claim that it drives or has sent."""


class Answer(msgspec.Struct, frozen=True):
    """What a heartbeat is told of one session: the words of lua/renew.lua."""

    word: str
    token: str = ""


class Executions:
    """The worker's scripts, apart from those of a turn."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def accept(self, session_id: str, token: str, execution_id: str, worker_id: str) -> Accepted:
        """Take an activity under a fresh execution id; the lease begins."""
        reply = await self._store.call(
            "accept_activity", session_id, token=token, execution_id=execution_id, worker_id=worker_id
        )
        resume_token = reply.details[0] if reply.word is Verdict.OK else ""
        return Accepted(verdict=reply.word, resume_token=resume_token)

    async def boot(self, session_id: str, execution_id: str, resume_token: str = "") -> bool:
        """Report that an execution is up. False when it is no longer the session's."""
        reply = await self._store.call("boot", session_id, execution_id=execution_id, resume_token=resume_token)
        return reply.word is Verdict.OK

    async def release(self, session_id: str, execution_id: str, reason: str = "released by its worker") -> bool:
        """Give an execution up, or report that a suspect one is gone. False while it drives the session's activity."""
        reply = await self._store.call(
            "release", session_id, execution_id=execution_id, reason=reason, next_token=new_id("a")
        )
        await offered(reply, session_id, self._placements)
        return reply.word is not Verdict.BUSY

    async def renew(self, worker_id: str, held: Iterable[Held]) -> dict[str, Answer]:
        """Renew the leases of what a worker hosts: for each partition, a script for every hundred sessions, in turn.

        Every session named is in the answer. Raises what a Store raises; some partitions may have been renewed then.
        """
        partitions: dict[int, list[Held]] = defaultdict(list)
        for one in held:
            partitions[self._store.keys.partition_of(one.session_id)].append(one)
        parts = await asyncio.gather(*(self._renew(worker_id, *item) for item in partitions.items()))
        return {session_id: answer for part in parts for session_id, answer in part.items()}

    async def _renew(self, worker_id: str, partition: int, held: list[Held]) -> dict[str, Answer]:
        answers: dict[str, Answer] = {}
        for first in range(0, len(held), MOST_RENEWED):
            batch = held[first : first + MOST_RENEWED]
            names = [self._store.keys.session(one.session_id) for one in batch]
            keys = [key for name in names for key in (name["session"], name["suspects"])]
            rest = [text for one in batch for text in (one.session_id, one.execution_id, one.token, one.claim_id)]
            reply = await self._store.call_partition(
                "renew", partition, keys, rest, worker_id=worker_id, renewal=new_id("r")
            )
            words, tokens = reply.details[1::2], reply.details[2::2]
            for one, word, token in zip(batch, words, tokens, strict=True):
                answers[one.session_id] = Answer(word, token)
        return answers
