"""`coordinator up`: a server, an orchestrator and a worker, for trying things out."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from coordinator.cli.children import Child, ChildFailed
from coordinator.client import Coordinator, settings_for
from coordinator.domain.urls import redact
from coordinator.domain.workflow import Workflow

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.settings import Settings


async def up(options: Namespace, out: Output) -> None:
    """Run all three until Ctrl-C or SIGTERM; ends everything that it started."""
    if options.workflow:
        # Said at once, and not by a child that does not start.
        Workflow.from_toml(options.workflow)
    settings = settings_for(options.redis or os.environ.get("COORDINATOR_REDIS_URL") or "embedded:")
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with AsyncExitStack() as stack:
        async with out.progress("starting"):
            coord = await stack.enter_async_context(Coordinator.connect(settings))
            children = await _start(coord.settings, options, stack)
        _tell(coord.settings, children, out)
        await _until(stopping, children)
        out.note("stopping")


async def _start(settings: Settings, options: Namespace, stack: AsyncExitStack) -> list[Child]:
    env = {**os.environ, "COORDINATOR_REDIS_URL": settings.redis_url}
    if settings.queue_url:
        env["COORDINATOR_QUEUE_URL"] = settings.queue_url
    worker = ["worker", "--agent", options.agent, "--max-sessions", str(options.max_sessions)]
    orchestrator = ["orchestrator", *(["--workflow", options.workflow] if options.workflow else ())]
    children = []
    for name, arguments in (("orchestrator", orchestrator), ("worker", worker)):
        child = await Child.start(name, arguments, env)
        stack.push_async_callback(child.stop)
        children.append(child)
    return children


def _tell(settings: Settings, children: list[Child], out: Output) -> None:
    pids = {child.name: child.pid for child in children}
    # An embedded server has no password; one that the user gave stays off the screen.
    url = redact(settings.redis_url)
    if out.json:
        out.record({"ready": True, "redis_url": url, "namespace": settings.namespace, "pids": pids})
        return
    parts = urlsplit(url)
    cli = f"redis-cli -s {unquote(parts.path)}" if parts.scheme == "unix" else f"redis-cli -u {url}"
    out.pairs(
        "up, until Ctrl-C",
        {
            "redis": url,
            "look inside": cli,
            "try": f"coordinator send task-42 'say hello' --wait --redis {url}",
            "then": f"coordinator tail task-42 -f --redis {url}",
            "processes": ", ".join(f"{name} {pid}" for name, pid in pids.items()),
        },
    )


async def _until(stopping: asyncio.Event, children: list[Child]) -> None:
    ends = {asyncio.create_task(child.ended()): child for child in children}
    stop = asyncio.create_task(stopping.wait())
    done, waiting = await asyncio.wait({stop, *ends}, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    if stop not in done:
        child = ends[next(iter(done & ends.keys()))]
        raise ChildFailed(f"the {child.name} ended by itself: {child.told}")
