"""The two kinds of process of a deployment: worker and orchestrator."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from coordinator.cli.connecting import connected, settings_of
from coordinator.cli.leaving import leaving
from coordinator.domain.errors import UsageError

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.output import Output
    from coordinator.orchestrator import Orchestrator

_DRAIN: Final = 2.0
_HURRY: Final = 5.0


async def worker(options: Namespace, out: Output) -> None:
    """Run one worker process until SIGTERM, or Ctrl-C."""
    # Loaded before the current folder may be searched: a package there must not stand in for this one.
    from workers.process import run_worker

    _prepare(options)
    settings = settings_of(options)

    def ready(worker_id: str = "") -> None:
        _say_ready("worker", {"worker_id": worker_id, "pid": os.getpid()}, out)

    async with leaving():
        await run_worker(
            settings, options.agent, max_sessions=options.max_sessions, worker_id=options.worker_id, ready=ready
        )


async def orchestrator(options: Namespace, out: Output) -> None:
    """Run one orchestrator replica until SIGTERM, or Ctrl-C."""
    from coordinator.domain.workflow import Workflow
    from coordinator.orchestrator import Orchestrator

    _prepare(options)
    workflows = Workflow.from_toml(options.workflow) if options.workflow else None
    configure = _app(options.app) if options.app else None
    # Ctrl-C ends it in the same orderly way.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, os.kill, os.getpid(), signal.SIGTERM)
    async with leaving(), connected(options, out) as coord:
        own = replica = Orchestrator(coord, workflows)
        if configure is not None:
            replica = await _configured(configure, own, options.app)
        if workflows and replica is not own:
            raise UsageError(
                f"--workflow: the orchestrator that --app {options.app} made itself would not publish it; give it the "
                "workflows there, or add handlers to the one that it is given"
            )
        await replica.run(ready=lambda: _say_ready("orchestrator", {"pid": os.getpid()}, out))


def _say_ready(kind: str, facts: dict[str, Any], out: Output) -> None:
    if out.json:
        out.record({"process": kind, "ready": True, **facts})
    else:
        out.line(f"{kind} ready ({', '.join(f'{name} {value}' for name, value in facts.items() if value)})")


def _prepare(options: Namespace) -> None:
    sys.path.insert(0, os.getcwd())  # noqa: PTH109 - the entry is text
    if options.with_parent:
        threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()


def _end_with_parent() -> None:
    # stdin is a pipe that nobody writes to: it ends when the process that holds its other end has.
    while os.read(0, 1):
        pass
    for patience in (_DRAIN, _HURRY):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(patience)
    # With its parent its Redis may be gone as well, so there may be nobody to end its turns with.
    os._exit(1)


def _app(name: str) -> Any:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"--app {name} does not name anything; write it as module:name")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise UsageError(f"--app {name}: module {module} can't be imported ({error}); run it where it is") from error
    except AttributeError:
        raise UsageError(f"--app {name}: module {module} has no {attribute}") from None
    except Exception as error:
        raise UsageError(f"--app {name}: module {module} failed: {type(error).__name__}: {error}") from error


async def _configured(configure: Any, replica: Orchestrator, name: str) -> Orchestrator:
    """Give the orchestrator to the app's function, which adds its handlers, and may answer another orchestrator."""
    if not callable(configure):
        raise UsageError(f"--app {name} is no function; write one that takes the Orchestrator and adds handlers to it")
    try:
        answer = configure(replica)
        answer = await answer if inspect.isawaitable(answer) else answer
    except TypeError as error:
        raise UsageError(f"--app {name} can't be called with the Orchestrator alone: {error}") from error
    return answer if isinstance(answer, type(replica)) else replica
