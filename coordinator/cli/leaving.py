"""The end of a process that runs other people's code: what goes on, the interpreter would wait for without end."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

_log = logging.getLogger(__name__)

_GRACE: Final = 1.0
"""Seconds in which what is told to end may do so."""


@asynccontextmanager
async def leaving() -> AsyncIterator[None]:
    """End the process with 0 when the body has ended well, and a task or a thread that it began has not."""
    executor = ThreadPoolExecutor(thread_name_prefix="coordinator")
    asyncio.get_running_loop().set_default_executor(executor)
    yield
    tasks = await _unended()
    executor.shutdown(wait=False, cancel_futures=True)
    threads = _running()
    if tasks or threads:
        _log.warning(
            "%d tasks and %d threads of agents or handlers go on; the process ends without them", tasks, threads
        )
        sys.stdout.flush()
        logging.shutdown()
        os._exit(0)


async def _unended() -> int:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return len((await asyncio.wait(tasks, timeout=_GRACE))[1]) if tasks else 0


def _running() -> int:
    until = time.monotonic() + _GRACE
    others = [one for one in threading.enumerate() if one is not threading.main_thread() and not one.daemon]
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    return sum(thread.is_alive() for thread in others)
