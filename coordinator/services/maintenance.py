"""Jobs that claim the idle session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.domain.ids import new_id
from coordinator.domain.verdicts import Verdict
from coordinator.services.answers import refusal
from coordinator.services.receipts import offered

if TYPE_CHECKING:
    from coordinator.store.queue import Placements
    from coordinator.store.store import Store


class Maintenance:
    """A job's scripts: it owns the session under a lease, and messages queue meanwhile."""

    def __init__(self, store: Store, placements: Placements) -> None:
        self._store = store
        self._placements = placements

    async def begin(self, session_id: str, token: str, name: str) -> None:
        """Claim the idle session. Raises SessionBusy when it is not idle, SessionUnknown, SessionClosed."""
        reply = await self._store.call("maintain_begin", session_id, token=token, name=name)
        if reply.word is not Verdict.OK:
            raise refusal(reply, session_id)

    async def extend(self, session_id: str, token: str) -> str | None:
        """Begin the lease anew; answers why the job should stop, or empty. None when the session is another's."""
        reply = await self._store.call("maintain_extend", session_id, token=token)
        return str(reply.details[0]) if reply.word is Verdict.OK else None

    async def cause(self, session_id: str, token: str) -> str | None:
        """Look why the job should stop, or empty; writes nothing. None when the session is another's."""
        key = self._store.keys.session(session_id)["session"]
        phase, activity, cause = await self._store.fields(key, "phase", "activity", "cancel_cause")
        return (cause or "") if phase == "maintenance" and activity == token else None

    async def end(self, session_id: str, token: str) -> bool:
        """Give the session back; what woke it meanwhile runs. False when it was another's already."""
        reply = await self._store.call("maintain_end", session_id, token=token, next_token=new_id("a"))
        return await offered(reply, session_id, self._placements)
