"""What a message may be."""

from __future__ import annotations

from coordinator.domain.errors import MessageInvalid, MessageTooLarge


def check_body(body: str, limit: int, limited_by: str = "COORDINATOR_MAX_BODY") -> None:
    """Raise MessageInvalid for an empty text or one that UTF-8 can't carry, MessageTooLarge above `limit` bytes."""
    try:
        size = len(body.encode())
    except UnicodeEncodeError as error:
        msg = f"The message is no valid text: {error.reason} at character {error.start}."
        raise MessageInvalid(msg) from None
    if not size:
        msg = "The message is empty; send some text."
        raise MessageInvalid(msg)
    if size > limit:
        msg = f"The message has {size} bytes; at most {limit} are allowed ({limited_by})."
        raise MessageTooLarge(msg)
