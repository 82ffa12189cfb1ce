"""Opening and closing sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from coordinator.domain.ids import check_id, new_id
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal

if TYPE_CHECKING:
    from coordinator.domain.records import Lifecycle, SessionPolicy
    from coordinator.store.store import Store


class Sessions:
    """The beginning and the end of sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def open(self, session_id: str, policy: SessionPolicy) -> bool:
        """Make a session, or change the policy of an open one; True when it was made.

        Raises InvalidId, and SessionClosed until retention has removed a closed one.
        """
        check_id("session", session_id)
        reply = await self._store.call(
            "open",
            session_id,
            settlement=policy.settlement,
            lost_turns=policy.lost_turns,
            retries=policy.retries,
            after_error=policy.after_error,
            on_handler_failure=policy.on_handler_failure,
        )
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id)
        return bool(reply.details[0] == "1")

    async def close(self, session_id: str, operation_id: str = "") -> Lifecycle:
        """Discard the inbox, stop what is open, let nothing start; `closing` while something is open, else `closed`.

        Raises SessionUnknown.
        """
        reply = await self._store.call(
            "close", session_id, operation_id=operation_id or new_id("o"), next_token=new_id("a")
        )
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id)
        return cast("Lifecycle", reply.details[0])
