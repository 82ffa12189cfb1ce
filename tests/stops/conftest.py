"""A whole deployment in one process, with short bounds."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.integration.conftest import Deployment, deployment, puppet
from tests.integration.puppet import Puppet
from tests.stops.scene import Resident, Scene

__all__ = ["deployment", "puppet"]
BOUNDS: Final = {"cancel_timeout": 0.6, "sweep": 0.1}


@pytest.fixture
def settings_options() -> dict[str, Any]:
    """What the deployments of these tests have."""
    return dict(BOUNDS)


@pytest.fixture(params=["bundled"])
def server_kind(request: pytest.FixtureRequest) -> str:
    """Which real server."""
    return str(request.param)


@pytest.fixture
async def scene(deployment: Deployment, puppet: Puppet) -> Scene:
    """A session on a plain function, one worker and one replica."""
    return Scene(deployment, puppet, await deployment.opened())


@pytest.fixture
async def resident(deployment: Deployment) -> Scene:
    """A session on an agent with executions, one worker and one replica."""
    agent = Resident()
    await deployment.replica()
    await deployment.worker(agent)
    return Scene(deployment, agent, await deployment.opened())
