"""Ids: the alphabet, the length, and fresh ones."""

from __future__ import annotations

import pytest

from coordinator.domain.errors import InvalidId
from coordinator.domain.ids import check_id, chosen_id, new_id


@pytest.mark.parametrize("value", ["a", "task-42", "A_b.C-9", "x" * 128, "..", "-"])
def test_a_valid_id_comes_back_as_it_was(value: str) -> None:
    assert check_id("session", value) == value


@pytest.mark.parametrize(
    "value", ["", "x" * 129, "a b", "a:b", "{a}", "é", "a\n", "a/b", "\N{ARABIC-INDIC DIGIT ONE}", 7, None]
)
def test_anything_else_is_refused_with_the_kind_and_what_is_allowed(value: str) -> None:
    with pytest.raises(InvalidId, match=r"no valid message id: use 1 to 128 of A-Z a-z 0-9 _ \. -") as caught:
        check_id("message", value)
    assert len(str(caught.value)) < 120


def test_new_ids_are_short_valid_and_differ() -> None:
    made = {new_id("execution") for _ in range(1000)}
    assert len(made) == 1000
    assert all(check_id("execution", one).startswith("execution-") and len(one) <= 40 for one in made)


@pytest.mark.parametrize("value", ["entry-n-1", "reset-n-1", "entry-"])
def test_a_chosen_id_is_none_of_the_coordinator_s_own(value: str) -> None:
    """They may be named, but nothing new is called so."""
    assert check_id("message", value) == value
    with pytest.raises(InvalidId, match="can't be a new message's id"):
        chosen_id("message", value, "m")


def test_an_id_that_is_not_chosen_is_a_fresh_one() -> None:
    assert chosen_id("message", "mine", "m") == "mine"
    assert chosen_id("message", None, "m").startswith("m-")
