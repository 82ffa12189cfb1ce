"""Repeating a call until Redis answers: what was decided is kept, nothing is lost, nothing spins."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from coordinator.domain.errors import StoreError
from coordinator.streams.backoff import Backoff

T = TypeVar("T")
logger = logging.getLogger(__name__)


async def persist(call: Callable[[], Awaitable[T]], what: str, wanted: Callable[[], bool]) -> T:
    """Call until Redis answers, with jittered back-off, as long as `wanted()`.

    Only for scripts, which all recognise their own repeat. Raises StoreError when it is not wanted any more.
    """
    backoff = Backoff()
    while True:
        try:
            answer = await call()
        except StoreError as error:
            if not backoff.failures:
                logger.warning("%s: %s; repeating it until Redis answers", what, error)
            if not wanted():
                raise
            await asyncio.sleep(backoff.next())
        else:
            if backoff.failures:
                logger.info("%s: answered after %d repeats", what, backoff.failures)
            return answer
