"""From a command line's options to settings and a connected coordinator."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from coordinator.client import Coordinator, settings_for

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import AsyncIterator

    from coordinator.cli.output import Output
    from coordinator.settings import Settings


def settings_of(options: Namespace) -> Settings:
    """Read the environment's settings, with the URL of `--redis` if it was given. Raises `SettingsError`."""
    return settings_for(options.redis)


@asynccontextmanager
async def connected(options: Namespace, out: Output) -> AsyncIterator[Coordinator]:
    """Connect as the command line says, with a word on stderr when that takes long."""
    connecting = Coordinator.connect(settings_of(options))
    async with out.progress("connecting to Redis"):
        coord = await connecting.__aenter__()
    try:
        yield coord
    except BaseException as error:
        if not await connecting.__aexit__(type(error), error, error.__traceback__):
            raise
    else:
        await connecting.__aexit__(None, None, None)
