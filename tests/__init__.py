"""Tests, by layer; `tests/support` has what they share."""
