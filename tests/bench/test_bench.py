"""The benchmark itself: that it measures, and the figures that are the same on any machine."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from tests.bench.plan import QUICK
from tests.bench.report import table
from tests.bench.run import measure

pytestmark = pytest.mark.slow
SMALL = msgspec.structs.replace(QUICK, busy=100, counted=10, window=4.0)


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    """One small run, as `--json` prints it."""
    report = asyncio.run(measure(SMALL, "bundled", quick=True, parts=("scripts", "idle", "memory")))
    assert table(report).count("\n") > len(report.figures)
    found: dict[str, Any] = json.loads(msgspec.json.encode(report))
    return found


def test_a_run_is_one_object_with_named_figures(run: dict[str, Any]) -> None:
    """Programs read it."""
    assert run.keys() == {"server", "quick", "seconds", "figures", "details"}
    assert all(figure.keys() >= {"name", "value", "unit"} for figure in run["figures"])
    assert all("met" in figure for figure in run["figures"] if "goal" in figure)


def test_a_turn_costs_five_scripts(run: dict[str, Any]) -> None:
    """Counted where the server sees them."""
    assert run["details"]["scripts"]["calls"] == dict.fromkeys(("claim", "finish", "output", "send", "settle"), 1.0)


def test_the_record_of_an_idle_session_is_under_a_kibibyte(run: dict[str, Any]) -> None:
    """Weighed by the server, after turns."""
    assert 0 < run["details"]["memory"]["used"]["record"] < 1024


@pytest.mark.parametrize("process", ["worker", "replica"])
def test_a_process_beside_a_thousand_idle_sessions_sends_under_ten_commands_a_second(
    run: dict[str, Any], process: str
) -> None:
    """Beyond its heartbeats: nothing polls for what sessions do."""
    assert 0 < run["details"]["idle"]["beyond"][process] < 10
