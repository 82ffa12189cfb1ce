"""A client process that stops many sessions at once, and sends each one something right behind it.

`python -m tests.faults.stopper FIRST LAST`. It says `ready`, begins when the gate `stop` opens, and says for every
operation how it ended: `outcome SESSION TICKET OUTCOME`, at the end `done`. Messages are `after-SESSION-FIRST`.
"""

from __future__ import annotations

import asyncio
import sys

from coordinator.client import Coordinator
from coordinator.settings import Settings
from workers.agents.gates import gates_of

AT_ONCE = 64


async def main(first: int, last: int) -> None:
    """Stop the sessions with these numbers."""
    slots = asyncio.Semaphore(AT_ONCE)
    async with Coordinator.connect(Settings.from_env()) as coord:

        async def stop(number: int) -> None:
            session = coord.session(f"load-{number}")
            async with slots:
                ticket = await session.cancel()
                await session.send("say after", message_id=f"after-{number}-{first}")
            print(f"outcome {session.id} {ticket.id} {await ticket.outcome(timeout=30)}", flush=True)

        print("ready", flush=True)
        await gates_of(coord.kernel.store).wait("stop")
        await asyncio.gather(*map(stop, range(first, last)))
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
