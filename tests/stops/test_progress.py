"""Kandev E: the progress of a stop, as everybody sees it."""

from __future__ import annotations

import pytest

from coordinator import Coordinator
from coordinator.domain.errors import CancelConflict
from coordinator.services import Kernel
from coordinator.store import connections
from coordinator.store.store import Store
from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.stops.scene import Scene, aborted
from tests.support.faulty import FaultyStore


async def test_a_lost_publish_leaves_the_stop_as_it_is(deployment: Deployment, scene: Scene) -> None:
    """E3: a client without a right to any channel stops all the same; a heartbeat tells the agent."""
    call, redis = await scene.run("one"), scene.kernel.store.redis
    await redis.execute_command("ACL", "SETUSER", "mute", "on", "nopass", "~*", "resetchannels", "+@all")
    settings = scene.kernel.store.settings
    client = connections.coordination(settings.redis_url.replace("redis://", "redis://mute:any@"), settings)
    stop = (await Kernel(Store(client, settings)).stops.cancel(scene.session.id)).ticket
    await client.aclose()
    assert (await scene.session.snapshot()).cancel_pending
    assert await aborted(call) == "user"
    call.done("cancelled")
    assert await scene.outcome(stop) == "cancelled"


async def test_the_revision_only_rises_and_a_newcomer_sees_the_stop_that_is_pending(scene: Scene) -> None:
    """E1, E4, E6: each operation adds two; a client that connects in the middle reads `pending`."""
    revisions = [(await scene.session.snapshot()).cancel_revision]
    for text in ("one", "two"):
        call = await scene.run(text)
        stop = await scene.cancel()
        async with Coordinator.connect(scene.kernel.store.settings) as newcomer:
            view = await newcomer.session(scene.session.id).snapshot()
            assert (view.cancel_pending, view.cancel_kind) == (True, "user")
            revisions.append(view.cancel_revision)
        await aborted(call)
        call.done("cancelled")
        await scene.outcome(stop)
        await scene.idle()
        revisions.append((await scene.session.snapshot()).cancel_revision)
    assert revisions == [0, 1, 2, 3, 4]


async def test_pending_becomes_false_although_everybody_who_knew_of_it_is_gone(deployment: Deployment) -> None:
    """E5: worker and replica end in the middle; a replica that knows nothing of it ends the operation."""
    agent = Puppet()
    scene = Scene(deployment, agent, await deployment.opened(settlement="none"))
    end_replica = await deployment.replica()
    await deployment.worker(agent)
    await scene.run("one")
    FaultyStore(scene.kernel.store).drop_reply("cancel")
    stop = await scene.cancel()
    await end_replica()
    assert (await scene.session.snapshot()).cancel_pending
    await deployment.replica()
    assert await scene.outcome(stop) == "escalated"
    assert not (await scene.session.snapshot()).cancel_pending


async def test_an_exclusive_stop_is_joined_by_nobody_but_a_person(scene: Scene) -> None:
    """Section 6: peers get a conflict and change nothing; a person's stop is never refused."""
    call = await scene.run("one", "two")
    system = await scene.cancel(kind="system")
    before = await scene.told()
    for kind in ("silent", "parent", "system"):
        with pytest.raises(CancelConflict):
            await scene.cancel(kind=kind)
    assert await scene.told() == before
    user = await scene.cancel(keep_inbox=False)
    assert user.id == system.id
    await aborted(call)
    call.done("cancelled")
    assert await scene.outcome(user) == "cancelled"
    oracle = await scene.judged()
    assert oracle.operations.kinds == {system.id: ["system"]}
    assert [message.discarded for message in oracle.messages.values()] == ["", "cancelled"]
