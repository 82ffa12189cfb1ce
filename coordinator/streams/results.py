"""How a message's turn ended, read from the session's log."""

from __future__ import annotations

from coordinator.domain.errors import MessageNotPending
from coordinator.domain.records import LogEntry, TurnResult


class TurnWatch:
    """Follows one message through log entries, fed in order, until the turn that used it up has ended."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._turn = ""
        self._returned = False
        self._text: list[str] = []

    def feed(self, entry: LogEntry) -> TurnResult | None:
        """Take the next entry; gives the result once it is known.

        Raises `MessageNotPending` if the message was discarded: no turn will take it.
        """
        fields = entry.fields
        if fields.get("message_id") == self._message_id:
            self._follow(entry)
        elif self._turn and fields.get("turn") == self._turn:
            if entry.type == "output":
                self._text.append(fields["text"])
            elif entry.type == "turn.ended" and not self._returned:
                return self._result(fields)
        return None

    def _follow(self, entry: LogEntry) -> None:
        if entry.type == "inbox.claimed":
            self._turn, self._returned, self._text = entry.fields["turn"], False, []
        elif entry.type == "inbox.returned":
            self._returned = True
        elif entry.type == "inbox.discarded":
            why = entry.fields.get("why", "")
            raise MessageNotPending(f"message {self._message_id} was discarded ({why}); no turn has taken it")

    def _result(self, fields: dict[str, str]) -> TurnResult:
        return TurnResult(
            turn=int(self._turn),
            generation=int(fields.get("generation", "0")),
            reason=fields["reason"],
            text="".join(self._text),
            error=fields.get("error", ""),
        )
