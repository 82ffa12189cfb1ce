"""What only a real server shows: rights, forgotten scripts, and how much one call may carry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from redis.asyncio import Redis

from coordinator.domain.errors import StoreMisconfigured
from coordinator.domain.verdicts import Verdict
from coordinator.services import Kernel
from coordinator.store import connections
from coordinator.store.scripts import load_all
from coordinator.store.store import Store
from tests.scripts.scene import Scene, heard
from tests.scripts.story import Story
from tests.support.faulty import EVERY, FaultyStore
from tests.support.servers import KINDS

if TYPE_CHECKING:
    from coordinator.settings import Settings

pytestmark = pytest.mark.parametrize("backend_kind", KINDS, indirect=True)
LONGEST = 9000
"""More ids than a Lua call takes arguments."""


class Users:
    """Users of the server with fewer rights, each with a kernel; placements go through the unlimited client."""

    def __init__(self, admin: Redis, settings: Settings) -> None:
        self._admin = admin
        self._settings = settings
        self.clients: list[Redis] = []

    async def kernel(self, *rights: str) -> Kernel:
        """A kernel whose client may do that."""
        await self._admin.execute_command("ACL", "SETUSER", "limited", "reset", "on", ">secret", *rights)
        url = self._settings.redis_url.replace("redis://", "redis://limited:secret@")
        self.clients.append(connections.coordination(url, self._settings))
        return Kernel(Store(self.clients[-1], self._settings), queue=self._admin)


@pytest.fixture
async def users(backend: Redis, settings: Settings) -> AsyncIterator[Users]:
    users = Users(backend, settings)
    yield users
    for client in users.clients:
        await client.aclose()
    await backend.execute_command("ACL", "DELUSER", "limited")


async def test_every_script_runs_with_rights_to_the_namespace_alone(users: Users) -> None:
    """Section 9, ACLs: `~coord:*`, `&coord:*`, nothing dangerous. A key outside would be refused inside the script."""
    kernel = await users.kernel("~coord:*", "&coord:*", "+@all", "-@dangerous")
    faulty = FaultyStore(kernel.store)
    await Story(kernel).tell()
    assert sorted(faulty.sent) == sorted(load_all())


async def test_a_script_needs_no_command_that_it_does_not_name(users: Users) -> None:
    """The categories that a deployment's reference can ask for."""
    kernel = await users.kernel(
        "~coord:*", "&coord:*", "+@scripting", "+@hash", "+@list", "+@set", "+@sortedset", "+@stream", "+@string",
        "+@keyspace", "+@transaction", "+@connection", "+publish", "+time", "-@dangerous",
    )  # fmt: skip
    await Story(kernel).tell()


async def test_a_refused_publish_does_not_tear_a_script(users: Users, kernel: Kernel) -> None:
    """Section 4, rules: without rights to the channels all is written, and only the hints are lost."""
    deaf = await users.kernel("~coord:*", "resetchannels", "+@all", "-@dangerous")
    async with heard(kernel, kernel.store.keys.hint("s")) as so_far:
        await Story(deaf).tell()
        assert await so_far() == []


async def test_a_key_outside_the_rights_is_refused_by_name_of_the_right(users: Users) -> None:
    """The namespace is the border: another one's sessions can't be touched, and the user is told what to grant."""
    kernel = await users.kernel("~other:*", "&other:*", "+@all", "-@dangerous")
    with pytest.raises(StoreMisconfigured, match="rights"):
        await kernel.inbox.send("s", "hello")


async def test_a_server_that_forgets_its_scripts_gets_them_again(kernel: Kernel, faulty: FaultyStore) -> None:
    """EVALSHA, and the text after NOSCRIPT: at the first call, after a restart, a flush or a failover."""
    redis = kernel.store.redis
    for script in load_all():
        faulty.before(script, redis.script_flush, EVERY)
    await Story(kernel).tell()
    faulty.heal()
    scene = await Scene(kernel, "t").opened()
    await redis.config_resetstat()
    for _ in range(3):
        await kernel.inbox.send(scene.sid, "body")
    calls = await redis.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] == 3
    assert calls["cmdstat_eval"]["calls"] <= 1


async def test_a_turn_may_take_more_messages_than_a_lua_call_takes_arguments(kernel: Kernel) -> None:
    """A script that fails half-way would leave the session torn for ever: claim, loss and end of a very long batch."""
    scene = await Scene(kernel).opened(settlement="none")
    await scene.sent("first", list="next-step", message_id="m")
    redis, keys = kernel.store.redis, scene.keys
    info = (await redis.hget(keys["message_info"], "m")).split()  # type: ignore[misc]
    ids = [f"m{number}" for number in range(LONGEST)]
    async with redis.pipeline(transaction=False) as pipe:
        pipe.rpush(keys["next_step"], *ids)
        pipe.hset(keys["messages"], mapping=dict.fromkeys(ids, "x"))
        pipe.hset(keys["message_info"], mapping={one: " ".join(["2", *info[1:], "-"]) for one in ids})
        pipe.zadd(keys["awake"], dict.fromkeys(ids, 2))
        await pipe.execute()
    await scene.booted()
    assert len((await scene.claimed()).messages) == LONGEST + 1
    assert await scene.expired("acceptance") == "OK"
    assert await redis.llen(keys["next_step"]) == LONGEST + 1  # type: ignore[misc]
    await scene.booted("e2")
    ownership = (await scene.claimed()).ownership
    assert ownership
    assert (await scene.finished(ownership)).verdict is Verdict.GONE
    assert not await redis.exists(keys["next_step"], keys["messages"], keys["in_flight"], keys["awake"])
