"""The floor's other process: blocked in one read, it takes what comes and claims it."""

from __future__ import annotations

import asyncio
import sys
import time

from tests.bench.floor import CLAIM, Names, Script, clients_of

_BATCH = 64


async def main(url: str, kind: str) -> None:
    """Serve until killed."""
    client, reader = clients_of(kind, url)
    names = Names(kind)
    claim = await Script(client, CLAIM).load()
    print("ready", flush=True)
    while True:
        found = await reader.execute_command("BLMPOP", 2, 2, names.items, names.flood, "LEFT", "COUNT", _BATCH)
        if found is None:
            continue
        key, taken = found
        if key == names.items:
            await claim(names.count)
            await client.rpush(names.acks, time.monotonic_ns() - int(taken[0]))
        else:
            counts = await asyncio.gather(*(claim(names.count) for _ in taken))
            if max(counts) == int(taken[0]):
                await client.rpush(names.acks, 0)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
