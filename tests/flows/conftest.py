"""Every regression runs twice: on the product, and on a version of it with one rule taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from coordinator.services import Kernel
from tests.flows.naive import Edit, without

Naive = Callable[..., bool]


@pytest.fixture(params=["bundled"])
def backend_kind(request: pytest.FixtureRequest) -> str:
    """A real server: the rewritten scripts carry flags, which the stand-in does not read."""
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["product", "naive"])
def naive(request: pytest.FixtureRequest, kernel: Kernel, tmp_path: Path) -> Naive:
    """Take rules out, in the naive run only; tells whether this is one."""

    def take_out(*edits: Edit) -> bool:
        if request.param:
            without(kernel, tmp_path / "lua", *edits)
        return bool(request.param)

    return take_out
