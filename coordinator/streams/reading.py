"""Plain reads beside the scripts: never needed to be right, so they take no lock and change nothing."""

from __future__ import annotations

from typing import Any

from coordinator.store.connections import translate
from coordinator.store.store import Store

Command = tuple[str | int, ...]


async def read(store: Store, *command: str | int) -> Any:
    """Send one reading command. Raises `StoreUnavailable` or `StoreMisconfigured` when Redis can't or won't."""
    try:
        return await store.redis.execute_command(*command)
    except Exception as error:
        raise translate(error) from error


async def read_together(store: Store, *commands: Command) -> list[Any]:
    """Send reading commands of one slot as one transaction: the answers are of one moment.

    An answer that is an error of the command itself, such as a missing key's, is given as that exception. Raises as
    `read` for everything else.
    """
    return await _pipeline(store, commands, transaction=True)


async def read_many(store: Store, commands: list[Command]) -> list[Any]:
    """Send reading commands in one round trip; otherwise as `read_together`, but each answer is of its own moment."""
    return await _pipeline(store, commands, transaction=False)


async def _pipeline(store: Store, commands: tuple[Command, ...] | list[Command], *, transaction: bool) -> list[Any]:
    try:
        async with store.redis.pipeline(transaction=transaction) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            return list(await pipe.execute(raise_on_error=False))
    except Exception as error:
        raise translate(error) from error
