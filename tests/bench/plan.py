"""How much is measured."""

from __future__ import annotations

from typing import Final

import msgspec


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of one run."""

    blocks: int
    """Floor, turns, placements and stops are measured in turns, this often, so that noise meets all of them."""
    floors: int
    turns: int
    placements: int
    stops: int
    """Each: rounds in one block."""
    arq_starts: int
    arq_jobs: int
    floor_items: int
    rounds: int
    """Of throughput: one turn on each busy session."""
    busy: int
    """Sessions with a live execution; the others are open, and idle from the start."""
    idle: int = 1000
    """Open sessions in all."""
    counted: int
    """Turns whose scripts are counted."""
    window: float
    """Seconds of idleness that are watched: whole periods of the sweeps, which cost most."""


FULL: Final = Plan(
    blocks=5, floors=60, turns=60, placements=16, stops=10, arq_starts=10, arq_jobs=800, floor_items=5000, rounds=3,
    busy=900, counted=50, window=10.0,
)  # fmt: skip
QUICK: Final = Plan(
    blocks=3, floors=40, turns=40, placements=10, stops=8, arq_starts=3, arq_jobs=400, floor_items=3000, rounds=2,
    busy=300, counted=20, window=4.0,
)  # fmt: skip
