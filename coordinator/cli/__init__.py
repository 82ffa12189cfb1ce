"""The `coordinator` program. Modules of commands are loaded when their command is run, so that it starts quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (that of the process if not given) and answer its exit code.

    0 done; 1 refused or failed, with a named error on stderr; 2 wrong usage; 3 Redis can't be reached.
    """
    from coordinator.cli.run import run

    return run(argv)
