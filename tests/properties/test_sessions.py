"""One session against the model: some examples on a stand-in, more on a real server (COORDINATOR_EXAMPLES for more)."""

from __future__ import annotations

import asyncio
import os

import fakeredis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from redis.asyncio import Redis

from coordinator.services import Kernel
from coordinator.settings import Settings
from coordinator.store import connections
from coordinator.store.store import Store
from tests.properties.asking import Everything
from tests.properties.machine import World
from tests.support.servers import Servers

PATIENT = Settings(lease=3600.0, self_stop=7200.0, guard_ttl=3600.0, guard_hold=3600.0, predecessor_wait=3600.0)
"""What ends by itself ends when the machine says so, however slow the computer is."""
EXAMPLES = int(os.environ.get("COORDINATOR_EXAMPLES", "0"))


def explore(runner: asyncio.Runner, redis: Redis, examples: int, *, flags: bool) -> None:
    """The same examples every time, unless a number is asked for; then a failure is also made short."""
    world = World(runner, Kernel(Store(redis, PATIENT, flags=flags)))
    machine = type("Machine", (Everything,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES or examples,
            stateful_step_count=60,
            deadline=None,
            database=None,
            derandomize=not EXAMPLES,
            phases=[Phase.generate, Phase.shrink] if EXAMPLES else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.timeout(900 if EXAMPLES else 60)
def test_a_session_does_what_the_model_does() -> None:
    """Sections 5, 6 and 11, on the stand-in."""
    with asyncio.Runner() as runner:
        redis = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), decode_responses=True)
        explore(runner, redis, 25, flags=False)
        runner.run(redis.aclose())


@pytest.mark.timeout(900 if EXAMPLES else 60)
def test_a_session_on_a_real_server_does_what_the_model_does(servers: Servers) -> None:
    """The same, for truth; it is also faster, so that there are more."""
    with asyncio.Runner() as runner:
        options = Settings(redis_url=servers.get("bundled").url)
        redis = connections.coordination(options.redis_url, options)
        explore(runner, redis, 80, flags=True)
        runner.run(redis.aclose())
