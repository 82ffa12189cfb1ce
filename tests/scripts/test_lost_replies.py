"""Calls that are lost on their way, and replies that are: the same life, the same answers, the same keyspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from coordinator.store.scripts import load_all
from tests.scripts.story import Story, number_ids
from tests.support.keyspace import difference

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from tests.support.faulty import FaultyStore

SCRIPTS = sorted(name for name, script in load_all().items() if script.flags != "no-writes")
"""What only reads is not repeated."""
CALLS = 25
"""More calls of one script than the story has."""
lives: dict[str, list[Any]] = {}


async def undisturbed(kernel: Kernel, kind: str) -> list[Any]:
    """The story without any fault, told once on each backend."""
    if kind not in lives:
        lives[kind] = await Story(kernel).tell()
        await kernel.store.redis.flushall()
    return lives[kind]


def first_tries_lost(faulty: FaultyStore, script: str, fault: str) -> None:
    """Every call of a script meets the fault once, and its repeat does not."""
    for number in range(CALLS):
        if fault == "reply":
            faulty.drop_reply(script, 2 * number + 1)
        else:
            faulty.drop_call(script, 2 * number + 1)


def same(life: list[Any], other: list[Any]) -> None:
    """Every answer, and the keyspace after every chapter."""
    assert len(life) == len(other)
    for one, another in zip(life, other, strict=True):
        if isinstance(one, dict):
            assert difference(one, another) == {}
        assert one == another


@pytest.mark.parametrize("fault", ["call", "reply"])
async def test_a_life_in_which_everything_is_lost_once_is_the_same_life(
    kernel: Kernel, faulty: FaultyStore, backend_kind: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Section 4, safe to repeat: each call of each script is sent twice, and nothing shows it."""
    number_ids(monkeypatch)
    life = await undisturbed(kernel, backend_kind)
    number_ids(monkeypatch)
    faulty.sent.clear()
    for script in SCRIPTS:
        first_tries_lost(faulty, script, fault)
    same(life, await Story(kernel).tell())
    assert sorted(faulty.sent.keys() - {"snapshot"}) == SCRIPTS
    assert {faulty.sent[script] % 2 for script in SCRIPTS} == {0}


@pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)
@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_reply_of_one_script_lost_each_time_changes_nothing(
    kernel: Kernel, faulty: FaultyStore, backend_kind: str, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same, one script at a time: what a failure names is the script that can't be repeated."""
    number_ids(monkeypatch)
    life = await undisturbed(kernel, backend_kind)
    number_ids(monkeypatch)
    faulty.sent.clear()
    first_tries_lost(faulty, script, "reply")
    same(life, await Story(kernel).tell())
    assert faulty.sent[script] >= 2
