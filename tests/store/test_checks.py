"""The checks at the start: what is refused, what is only warned of, and what is seen with few rights."""

from __future__ import annotations

import logging

import pytest
from redis.asyncio import Redis

from coordinator.domain.errors import StoreMisconfigured, StoreUnavailable
from coordinator.settings import Settings
from coordinator.store.checks import Check, check, run_checks
from coordinator.store.connections import coordination
from coordinator.store.embedded import EmbeddedServer

NAMES = ["version", "mode", "role", "persistence", "eviction", "partitions", "clock", "rights"]


def failed(checks: list[Check]) -> dict[str, str]:
    return {one.name: one.severity for one in checks if not one.ok}


async def test_a_fresh_server_passes_and_so_does_the_stand_in(backend: Redis) -> None:
    checks = await run_checks(backend, Settings())
    assert [one.name for one in checks] == NAMES
    assert failed(checks) == {}
    await check(backend, Settings())


async def test_each_fault_is_found_and_weighed(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedServer() as server:
        redis = coordination(server.url, Settings())
        await redis.config_set("appendonly", "no")
        await redis.config_set("maxmemory-policy", "allkeys-lru")
        checks = await run_checks(redis, Settings())
        assert failed(checks) == {"persistence": "warn", "eviction": "warn"}
        assert {one.name: one.found for one in checks}["mode"] == "standalone"
        with caplog.at_level(logging.WARNING):
            await check(redis, Settings())
        assert "appendonly yes" in caplog.text
        await redis.config_set("maxmemory", "100mb")
        await redis.hset("coord:meta", "partitions", "8")  # type: ignore[misc]
        assert failed(await run_checks(redis, Settings()))["eviction"] == "refuse"
        with pytest.raises(StoreMisconfigured, match=r"noeviction.*Set COORDINATOR_PARTITIONS to 8"):
            await check(redis, Settings())
        assert "COORDINATOR_PARTITIONS" not in caplog.text
        await redis.execute_command("REPLICAOF", "127.0.0.1", "1")
        assert failed(await run_checks(redis, Settings()))["role"] == "refuse"
        await redis.aclose()


async def test_few_rights_are_enough_to_look_and_missing_ones_are_named(server: EmbeddedServer) -> None:
    admin = coordination(server.url, Settings())
    rules = ["on", ">pw", "~coord:*", "&coord:*", "+@all", "-@dangerous"]
    await admin.execute_command("ACL", "SETUSER", "enough", *rules)
    await admin.execute_command("ACL", "SETUSER", "little", "on", ">pw", "~coord:*", "+hget", "+xlen", "+time")
    try:
        enough, little = (
            coordination(f"redis://{user}:pw@127.0.0.1:{server.port}/0", Settings()) for user in ("enough", "little")
        )
        checks = await run_checks(enough, Settings())
        assert failed(checks) == {}
        assert {one.name: one.found for one in checks}["role"] == "master"
        with pytest.raises(StoreMisconfigured, match="may not run scripts, read the registry, publish"):
            await check(little, Settings())
        for client in (enough, little):
            await client.aclose()
    finally:
        await admin.execute_command("ACL", "DELUSER", "enough", "little")
        await admin.aclose()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    nowhere = coordination("redis://127.0.0.1:1/0", Settings())
    with pytest.raises(StoreUnavailable):
        await run_checks(nowhere, Settings())
    await nowhere.aclose()
