"""Real processes over a real server, with bounds short enough to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from coordinator.client import Coordinator
from coordinator.domain.records import SessionPolicy
from coordinator.session import Session
from coordinator.settings import Settings, variable
from coordinator.store.embedded import EmbeddedServer
from tests.conftest import Spawn
from tests.support.oracle import Oracle
from tests.support.processes import Process
from tests.support.watch import BOUND, judged

SHORT: Final[dict[str, Any]] = {
    "heartbeat": 0.3, "lease": 1.5, "self_stop": 3.5, "placement": 1.0, "handler_timeout": 0.5, "settlement": 1.0,
    "drain": 30.0, "sweep": 0.5,
}  # fmt: skip
REPORTING: Final = "tests.faults.agents:reporting"


class Fleet:
    """The processes of one deployment, and a client of it."""

    def __init__(self, coord: Coordinator, spawn: Spawn) -> None:
        self.coord = coord
        self.server_url = coord.settings.redis_url
        self._spawn = spawn
        self._sessions = 0

    async def worker(
        self,
        worker_id: str = "w1",
        *,
        agent: str = REPORTING,
        url: str | None = None,
        max_sessions: int = 50,
        **settings: float,
    ) -> Process:
        """Start a worker; `url` is another way to the same server, `settings` are its own."""
        env = self.env(url) | {variable(name): str(value) for name, value in settings.items()}
        options = ("--agent", agent, "--worker-id", worker_id, "--max-sessions", str(max_sessions))
        return await self._spawn("worker", *options, env=env)

    async def replica(self, *, url: str | None = None, workflow: str = "") -> Process:
        """Start a replica, which publishes the workflow file that it is given."""
        options = ("--workflow", workflow) if workflow else ()
        return await self._spawn("orchestrator", *options, env=self.env(url))

    async def start(self, *workers: str, replicas: int = 1) -> list[Process]:
        """Start workers and replicas at once; gives the processes, in that order."""
        begun = [self.worker(worker_id) for worker_id in workers] + [self.replica() for _ in range(replicas)]
        return list(await asyncio.gather(*begun))

    def env(self, url: str | None = None) -> dict[str, str]:
        """What the processes have in their environment."""
        default = Settings()
        given = {
            variable(name): str(value)
            for name in Settings.__struct_fields__
            if (value := getattr(self.coord.settings, name)) != getattr(default, name)
        }
        given.pop(variable("queue_url"), None)
        return {**given, variable("redis_url"): url or self.server_url}

    async def opened(self, **policy: Any) -> Session:
        """Open a session."""
        self._sessions += 1
        session = self.coord.session(f"s{self._sessions}")
        await session.open(SessionPolicy(**policy))
        return session

    async def ran(self, session: Session, text: str = "say hello") -> None:
        """Send a prompt and wait for its turn's settlement."""
        receipt = await session.send(text)
        result = await session.result(receipt.message_id, timeout=BOUND)
        assert result.reason == "completed", result
        await session.wait_idle(timeout=BOUND)

    async def gate(self, name: str) -> None:
        """Let every script go on that waits for this gate."""
        await self.coord.kernel.store.redis.set(f"{self.coord.settings.namespace}:scripted:{name}", "1")

    async def judged(self, session: Session, *sent: str, rests: bool = True) -> Oracle:
        """Let the oracle judge a session."""
        return await judged(self.coord, session, *sent, rests=rests)


@pytest.fixture(params=["bundled"])
def server_kind(request: pytest.FixtureRequest) -> str:
    """Which real server; a test that depends on it asks for others."""
    return str(request.param)


@pytest.fixture
async def fleet(server: EmbeddedServer, spawn: Spawn, settings_options: dict[str, Any]) -> AsyncIterator[Fleet]:
    """An empty server, a client, and no process yet."""
    async with Coordinator.connect(Settings(redis_url=server.url, **{**SHORT, **settings_options})) as coord:
        yield Fleet(coord, spawn)
