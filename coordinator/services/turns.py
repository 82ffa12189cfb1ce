"""What a driver does with a turn: claim it, pass on what the agent says, report its end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from coordinator.domain.ids import new_id
from coordinator.domain.records import Message, Ownership
from coordinator.domain.verdicts import Verdict

if TYPE_CHECKING:
    from coordinator.store.queue import Placements
    from coordinator.store.store import Reply, Store

MAX_OUTPUT = 16 * 1024
"""Bytes of UTF-8 that one output entry may have (PROTOCOL: log entry types)."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim answered. `messages` and `ownership` are there when the verdict is OK."""

    verdict: Verdict
    ownership: Ownership | None = None
    turn: int = 0
    attempt: int = 0
    messages: tuple[Message, ...] = ()
    abort: str = ""
    """Why the prompt is to be stopped already: the agent is not called then. Only a repeated claim answers it."""
    retry_ms: int = 0
    """When the guard that held the claim up runs out, in milliseconds; 0 when a hint will tell."""


class Finish(msgspec.Struct, frozen=True, kw_only=True):
    """What follows the end that a driver reported."""

    verdict: Verdict
    """GO_ON: claim with the same token. RESTARTED: with `token`. GONE: idle. STALE, SUPERSEDED, NO_SESSION: stop."""
    token: str = ""


class Turns:
    """The driver's scripts. Each may be repeated with the same arguments until it is answered."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def claim(
        self, session_id: str, token: str, execution_id: str, claim_id: str, *, floor: int = 0, next_token: str = ""
    ) -> Claim:
        """Open the next turn under a new generation, above `floor` (the highest that this worker has seen)."""
        reply = await self._store.call(
            "claim",
            session_id,
            token=token,
            execution_id=execution_id,
            claim_id=claim_id,
            floor=floor,
            next_token=next_token or new_id("a"),
        )
        if reply.word is Verdict.OK:
            generation, turn, attempt = (int(detail) for detail in reply.details[:3])
            return Claim(
                verdict=reply.word,
                ownership=Ownership(execution_id, generation, claim_id),
                turn=turn,
                attempt=attempt,
                abort=reply.details[3],
                messages=_messages(reply.details[4:]),
            )
        retry_ms = max(1, int(reply.details[0])) if reply.word is Verdict.GUARDED else 0
        return Claim(verdict=reply.word, retry_ms=retry_ms)

    async def output(self, session_id: str, ownership: Ownership, number: int, text: str) -> bool:
        """Log what the agent said; the prompt's first output, empty or not, is its acceptance.

        `number` counts from 1. False means superseded: the agent has to be stopped.
        """
        reply = await self._store.call("output", session_id, ordinal=number, body=text, **ownership.proof())
        return reply.word is Verdict.OK

    async def step(self, session_id: str, ownership: Ownership, number: int) -> tuple[Message, ...] | None:
        """Take what waits in next-step, at the turn's boundary `number`, counted from 1. None means superseded."""
        reply = await self._store.call("step", session_id, ordinal=number, **ownership.proof())
        return _messages(reply.details) if reply.word is Verdict.OK else None

    async def finish(  # noqa: PLR0913 - one script, one call
        self,
        session_id: str,
        ownership: Ownership,
        token: str,
        reason: str,
        *,
        number: int = 0,
        text: str = "",
        error: str = "",
        resume_token: str = "",
        undelivered: bool = False,
        next_token: str = "",
    ) -> Finish:
        """Report a prompt's end, with the agent's last output in the same script.

        `undelivered` says that the adapter knows the agent did not get the prompt: its messages go back in line.
        `next_token` is for a repeat after an unknown outcome: the same one must be given again.
        """
        next_token = next_token or new_id("a")
        reply = await self._store.call(
            "finish",
            session_id,
            token=token,
            reason=reason,
            ordinal=number,
            body=text,
            error_text=error[:_MAX_ERROR],
            resume_token=resume_token,
            undelivered=int(undelivered),
            next_token=next_token,
            **ownership.proof(),
        )
        return await self._followed(session_id, reply, next_token)

    async def retire(
        self, session_id: str, token: str, execution_id: str, *, error: str = "", next_token: str = ""
    ) -> Finish:
        """Give up an activity with nothing open, and its execution: a failed start, or a worker that leaves."""
        next_token = next_token or new_id("a")
        reply = await self._store.call(
            "retire",
            session_id,
            token=token,
            execution_id=execution_id,
            error_text=error[:_MAX_ERROR],
            next_token=next_token,
        )
        return await self._followed(session_id, reply, next_token)

    async def _followed(self, session_id: str, reply: Reply, next_token: str) -> Finish:
        if reply.word is not Verdict.RESTARTED:
            return Finish(verdict=reply.word)
        if reply.details[0]:
            await self._placements.offer(session_id, next_token)
        return Finish(verdict=reply.word, token=next_token)


_MAX_ERROR = 2000


def _messages(flat: list[str]) -> tuple[Message, ...]:
    return tuple(
        Message(message_id, "next-step" if name == "next-step" else "next-turn", kind, int(attempt), body)
        for message_id, name, kind, attempt, body in zip(*(iter(flat),) * 5, strict=True)
    )
