"""Texts of somebody else's code, made fit to be sent."""

from __future__ import annotations

import pytest

from coordinator.domain.texts import sendable, told


@pytest.mark.parametrize(
    ("text", "sent"),
    [("plain", "plain"), ("ünï ✓", "ünï ✓"), ("a\udcffb", "a\\udcffb"), ("\ud83d", "\\ud83d"), ("", "")],
)
def test_what_utf_8_cant_carry_is_escaped_and_nothing_else(text: str, sent: str) -> None:
    assert sendable(text) == sent
    assert sendable(sent) == sent


def test_an_error_is_told_by_its_type_and_text() -> None:
    assert told(ValueError("no such file")) == "ValueError: no such file"
    assert told(TimeoutError()) == "TimeoutError"
    assert told(ValueError("\udcff")) == "ValueError: \\udcff"
