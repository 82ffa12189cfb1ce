"""What a message may be."""

from __future__ import annotations

from coordinator.domain.errors import MessageInvalid, MessageTooLarge


def check_body(body: str, limit: int, limited_by: str = "COORDINATOR_MAX_BODY") -> None:
    """Raise MessageInvalid for what is no text that UTF-8 can carry, or empty, MessageTooLarge above `limit` bytes."""
    if not isinstance(body, str):
        msg = f"A message is text, and not {type(body).__name__}."
        raise MessageInvalid(msg)
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
