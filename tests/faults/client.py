"""A client process of the load test: sends what its plan says, in its order, and prints each receipt.

`python -m tests.faults.client`, with the plan as JSON lines `[session id, message id, text]` on the file that
COORDINATOR_TEST_PLAN names.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import msgspec

from coordinator.client import Coordinator
from coordinator.settings import Settings

AT_ONCE = 4
"""Sends under way at one moment."""


class Ack(msgspec.Struct, frozen=True):
    """A send that was answered. Times are of the machine's monotonic clock, which all processes share."""

    session_id: str
    message_id: str
    sequence: int
    placement: str
    began_ns: int
    ended_ns: int


async def main() -> None:
    """Send everything."""
    lines = Path(os.environ["COORDINATOR_TEST_PLAN"]).read_text(encoding="utf-8").splitlines()
    plan = iter([msgspec.json.decode(line, type=tuple[str, str, str]) for line in lines])
    async with Coordinator.connect(Settings.from_env()) as coord, asyncio.TaskGroup() as senders:
        for _ in range(AT_ONCE):
            senders.create_task(_send(coord, plan))


async def _send(coord: Coordinator, plan: object) -> None:
    for session_id, message_id, text in plan:  # type: ignore[attr-defined]
        began = time.monotonic_ns()
        receipt = await coord.session(session_id).send(text, message_id=message_id)
        ack = Ack(session_id, message_id, receipt.sequence, receipt.placement, began, time.monotonic_ns())
        print(msgspec.json.encode(ack).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
