"""The error tree: complete, documented, and its retryable flag decidable from the class."""

from __future__ import annotations

import inspect

import pytest

from coordinator.domain import errors
from coordinator.domain.errors import ContentionError, CoordinatorError, GuardBusy, StoreUnavailable

CLASSES = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, CoordinatorError)]
CONTRACT = {
    "SessionUnknown",
    "SessionClosed",
    "SessionBusy",
    "TurnChanged",
    "Superseded",
    "GuardBusy",
    "GuardLost",
    "Reentry",
    "CancelConflict",
    "ResetInProgress",
    "ResetFailed",
    "PredecessorPending",
    "MessageNotPending",
    "ConflictingRepeat",
    "InboxFull",
    "MessageTooLarge",
    "InvalidId",
    "UnknownStep",
    "QuestionClosed",
    "StoreUnavailable",
    "StoreMisconfigured",
    "SettingsError",
    "OutcomeUnknown",
}


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_each_error_says_when_it_is_raised(error: type[CoordinatorError]) -> None:
    assert (error.__doc__ or "").startswith("Raised when ")


def test_the_names_of_the_contract_are_all_there() -> None:
    assert {c.__name__ for c in CLASSES} >= CONTRACT


def test_only_contention_and_an_unreachable_store_are_worth_a_retry() -> None:
    assert {c for c in CLASSES if c.retryable} == {StoreUnavailable, ContentionError, *ContentionError.__subclasses__()}


def test_a_busy_guard_says_who_and_how_long() -> None:
    error = GuardBusy("held by a", owner="a", ms_left=12)
    assert (str(error), error.owner, error.ms_left) == ("held by a", "a", 12)
