"""Texts that come from somebody else's code, made fit to be logged and sent."""

from __future__ import annotations


def sendable(text: str) -> str:
    r"""Give the text with what UTF-8 can't carry escaped, as `\udcff`: such characters come from names of files."""
    return text.encode("utf-8", "backslashreplace").decode()


def told(error: BaseException) -> str:
    """Give an error's type and text. Never raises, whatever its `__str__` does."""
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an error whose text fails is still an error
        return f"{name} (its text can't be had)"
    return sendable(f"{name}: {text}" if text else name)
