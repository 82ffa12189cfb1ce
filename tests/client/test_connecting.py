"""Connecting: what is checked, what is refused, and what is left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

import coordinator
from coordinator import Coordinator, Settings, SettingsError, StoreMisconfigured, StoreUnavailable
from coordinator.domain import errors
from tests.client.hand import Hand


async def test_another_partition_count_is_refused_with_what_to_do(client_settings: Settings) -> None:
    async with Coordinator.connect(client_settings) as coord:
        await coord.session("s").open()
    with pytest.raises(StoreMisconfigured, match="COORDINATOR_PARTITIONS"):
        async with Coordinator.connect(msgspec.structs.replace(client_settings, partitions=4)):
            pytest.fail("it would look for sessions in other places")
    elsewhere = msgspec.structs.replace(client_settings, partitions=4, namespace="other")
    async with Coordinator.connect(elsewhere) as coord:
        await coord.session("s").open()
        assert [row.session_id for row in await coord.sessions()] == ["s"]


async def test_clients_that_connect_at_once_agree_on_the_partitions(client_settings: Settings) -> None:
    async def connect(partitions: int) -> int:
        try:
            async with Coordinator.connect(msgspec.structs.replace(client_settings, partitions=partitions)):
                return partitions
        except StoreMisconfigured:
            return 0

    winners = set(await asyncio.gather(*(connect(number) for number in (4, 8, 4, 8, 4, 8)))) - {0}
    assert len(winners) == 1


async def test_an_unreachable_server_is_told_in_a_sentence_without_its_password() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        async with Coordinator.connect("redis://:geheim@127.0.0.1:1/0"):
            pytest.fail("nothing listens there")
    assert "geheim" not in str(caught.value)
    with pytest.raises(SettingsError, match="COORDINATOR_REDIS_URL"):
        async with Coordinator.connect("http://127.0.0.1"):
            pytest.fail("no Redis speaks that")


async def test_an_embedded_folder_keeps_its_data_and_is_shared(tmp_path: Path) -> None:
    url = f"embedded:{tmp_path}/data"
    async with Coordinator.connect(url) as first:
        assert first.settings.redis_url.startswith("redis://127.0.0.1:")
        await first.session("s").open()
        async with Coordinator.connect(url) as second:
            assert second.settings.redis_url == first.settings.redis_url
            assert not await second.session("s").open()
    async with Coordinator.connect(url) as again:
        assert not await again.session("s").open()
    with pytest.raises(StoreUnavailable):
        async with Coordinator.connect(again.settings.redis_url):
            pytest.fail("the server ended with its last user")


async def test_lists_and_counts(coord: Coordinator, hand: Hand) -> None:
    assert await coord.sessions() == []
    assert await coord.workers() == []
    for name in "abc":
        await coord.session(name).open()
    await coord.session("a").send("work")
    await hand.turn("a")
    await coord.session("b").send("waits")
    await coord.session("b").inject("more")
    rows = {row.session_id: row for row in await coord.sessions()}
    assert [rows[name].status for name in "abc"] == ["idle", "running", "idle"]
    assert (rows["a"].turn, rows["a"].worker_id, rows["b"].pending) == (1, "w-hand", 2)
    assert len(await coord.sessions(limit=2)) == 2
    stats = await coord.stats()
    assert (stats.sessions, stats.running, stats.workers) == (3, 1, 0)
    assert stats.counters["turns"] == stats.counters["settled"] == 1
    assert stats.unswept_ms is None


async def test_that_somebody_sweeps_is_seen_when_all_partitions_were_swept(coord: Coordinator) -> None:
    kernel, last = coord.kernel, coord.kernel.store.keys.partitions - 1
    for partition in range(last):
        await kernel.deadlines.sweep(partition)
    assert (await coord.stats()).unswept_ms is None
    await kernel.deadlines.sweep(last)
    counters = kernel.store.keys.partition(0)["counters"]
    await kernel.store.redis.hincrby(counters, "swept_ms", -7_200_000)  # type: ignore[misc]
    unswept = (await coord.stats()).unswept_ms
    assert unswept is not None
    assert unswept >= 7_200_000
    assert not any(name.endswith("_ms") for name in (await coord.stats()).counters)


def test_every_public_name_is_there_and_the_list_is_sorted_and_complete() -> None:
    names = coordinator.__all__
    assert list(names) == sorted(names)
    assert all(getattr(coordinator, name).__name__ == name for name in names)
    assert set(names) <= set(dir(coordinator))
    raised = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert raised - set(names) == {"ScriptContractError"} | {name for name in raised if name.startswith("_")}
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = coordinator.no_such_name
