"""Ids: which are valid, and how new ones are made."""

from __future__ import annotations

import re
import secrets
from typing import Final

from coordinator.domain.errors import InvalidId

ALLOWED: Final = "1 to 128 of A-Z a-z 0-9 _ . -"
PATTERN: Final = r"^[A-Za-z0-9_.-]{1,128}\Z"
_VALID: Final = re.compile(PATTERN)
_SHOWN: Final = 40
_RANDOM_BYTES: Final = 12
_RESERVED: Final = ("entry-", "reset-")
"""Messages and resets of step entries are named so, after the entry (PROTOCOL.md section 8)."""


def is_id(value: object) -> bool:
    """Whether `value` may name a session, message, question, operation or namespace."""
    return isinstance(value, str) and _VALID.match(value) is not None


def check_id(kind: str, value: str) -> str:
    """Give `value` back if it is a valid id; `kind` (session, message, …) is for the error's sentence.

    Raises InvalidId when it is not.
    """
    if is_id(value):
        return value
    shown = repr(value)
    if len(shown) > _SHOWN:
        shown = f"{shown[:_SHOWN]}…"
    raise InvalidId(f"{shown} is no valid {kind} id: use {ALLOWED}.")


def chosen_id(kind: str, value: str | None, prefix: str) -> str:
    """Give a message's or operation's id back as its caller chose it, or a fresh one with `prefix` for None.

    Raises InvalidId also for one that begins with `entry-` or `reset-`: those are the coordinator's own.
    """
    if value is None:
        return new_id(prefix)
    if check_id(kind, value).startswith(_RESERVED):
        raise InvalidId(f"{value!r} can't be a new {kind}'s id: entry-… and reset-… name what workflow steps make.")
    return value


def new_id(prefix: str) -> str:
    """Make a fresh id, `prefix-` and 96 random bits in hex: at most 40 characters for a prefix of up to 15."""
    return f"{prefix}-{secrets.token_hex(_RANDOM_BYTES)}"
