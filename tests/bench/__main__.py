"""Measure, print, and exit 0: a goal that is missed is a finding."""

from __future__ import annotations

import argparse
import asyncio
import sys

import msgspec

from tests.bench.plan import FULL, QUICK
from tests.bench.report import table
from tests.bench.run import measure
from tests.support.servers import KINDS


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller samples, under 20 seconds instead of 60")
    parser.add_argument("--json", action="store_true", help="one object instead of a table")
    parser.add_argument("--server", choices=KINDS, default="bundled", help="default: bundled")
    options = parser.parse_args()
    plan = QUICK if options.quick else FULL
    report = asyncio.run(measure(plan, options.server, quick=options.quick, say=_say))
    print(msgspec.json.encode(report).decode() if options.json else table(report))


def _say(what: str) -> None:
    if sys.stderr.isatty():
        print(f"measuring: {what}", file=sys.stderr)


if __name__ == "__main__":
    main()
