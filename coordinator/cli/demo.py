"""`coordinator demo`: the main job, shown with real processes on an embedded server. Nothing in it is faked."""

from __future__ import annotations

import os
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from coordinator.cli.demo_audit import audit
from coordinator.cli.demo_scenes import SCENES
from coordinator.cli.demo_stage import DemoFailed, Stage
from coordinator.cli.demo_view import make_view
from coordinator.client import Coordinator, settings_for
from coordinator.domain.errors import CoordinatorError, UsageError
from coordinator.domain.urls import EMBEDDED, scheme_of

if TYPE_CHECKING:
    from argparse import Namespace

    from coordinator.cli.demo_view import View
    from coordinator.cli.output import Output

# Short, so that a killed worker is missed and a stop given up while somebody watches; deployments keep the defaults.
_HURRIED: Final = {
    "COORDINATOR_HEARTBEAT": "0.25",
    "COORDINATOR_LEASE": "1.5",
    "COORDINATOR_SELF_STOP": "3",
    "COORDINATOR_PLACEMENT": "1",
    "COORDINATOR_SWEEP": "0.25",
    "COORDINATOR_CANCEL_TIMEOUT": "1",
}


async def demo(options: Namespace, out: Output) -> int:
    """Play all scenes, then count from the logs alone what became of every message; 1 if anything is lost or runs."""
    url = options.redis or f"{EMBEDDED}:"
    if scheme_of(url) != EMBEDDED:
        raise UsageError("the demo runs on a server of its own; leave --redis away, or give it embedded:/folder")
    # Settings that are meant for a deployment must not reach into the demo.
    env = {name: text for name, text in os.environ.items() if not name.startswith("COORDINATOR_")} | _HURRIED
    began = time.monotonic()
    view = make_view(out)
    with view:
        async with AsyncExitStack() as stack:
            view.say("starting a Redis server, an orchestrator and two workers")
            coord = await stack.enter_async_context(Coordinator.connect(settings_for(url, env)))
            stage = Stage(coord, view, {**env, "COORDINATOR_REDIS_URL": coord.settings.redis_url})
            await stack.enter_async_context(stage)
            return await _play(stage, view, began)


async def _play(stage: Stage, view: View, began: float) -> int:
    failure = ""
    try:
        for number, scene in enumerate(SCENES, 1):
            view.scene(f"{number}. {(scene.__doc__ or '').rstrip('.')}")
            await scene(stage)
    except (DemoFailed, CoordinatorError, TimeoutError) as error:
        failure = f"{type(error).__name__}: {error}"
        view.say(f"FAILED: {failure}")
    found = await audit(stage.coord, stage.sent)
    for problem in found.problems:
        view.say(f"FAILED: {problem}")
    view.say(f"took {time.monotonic() - began:.1f} s")
    view.summary(found)
    return 1 if failure or found.problems else 0
