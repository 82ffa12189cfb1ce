"""A worker's heartbeat: what each session is answered, and how work that nobody drives any more is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from coordinator.domain.verdicts import Verdict
from coordinator.services.executions import Held
from tests.scripts.scene import Scene, unchanged
from tests.support.faulty import FaultyStore

if TYPE_CHECKING:
    from coordinator.services import Kernel
    from coordinator.services.turns import Claim

LEASE_MS = 5000


async def noted(scene: Scene) -> str:
    """What the record says the last renewal did not name."""
    return await scene.kernel.store.redis.hget(scene.keys["session"], "unnamed") or ""  # type: ignore[misc]


async def live(kernel: Kernel, **policy: object) -> Scene:
    """An idle session with a live execution e1 on w1."""
    scene = await Scene(kernel).opened(settlement="none", **policy)
    await scene.finished(await scene.prompted())
    scene.token = ""
    return scene


async def driven(kernel: Kernel) -> tuple[Scene, Claim]:
    """An open turn under claim c1."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    return scene, await scene.claimed("c1")


async def test_an_idle_execution_is_held_and_its_lease_begins_anew(kernel: Kernel) -> None:
    """Section 4, renew: the lease moves by the server's clock; the record, and so its waiters, hear nothing."""
    scene = await live(kernel)
    await kernel.store.redis.zadd(scene.keys["deadlines"], {"lease:s": 1})
    async with unchanged(kernel, {"*:deadlines"}):
        assert await scene.renewed() == "held"
    now = (await kernel.store.redis.time())[0] * 1000
    assert now + LEASE_MS - 1000 <= (await scene.deadlines())["lease"] <= now + LEASE_MS + 1000


@pytest.mark.parametrize("accepted", [True, False])
async def test_an_activity_with_nothing_open_is_told_to_run(kernel: Kernel, *, accepted: bool) -> None:
    """`run` carries the token: a driver that never heard the hint starts, and one that waits looks again."""
    scene = await Scene(kernel).opened()
    if accepted:
        await scene.sent()
        await scene.booted()
    else:
        await scene.finished(await scene.prompted())
        await scene.sent("again")
    held = Held(scene.sid, "e1", scene.token if accepted else "")
    answer = (await kernel.executions.renew("w1", [held]))[scene.sid]
    assert (answer.word, answer.token) == ("run", scene.token)
    assert await noted(scene) == ""


async def test_nothing_runs_before_the_execution_has_started_or_while_a_prompt_is_open(kernel: Kernel) -> None:
    """`held`: the start is bounded by its own deadline, and the open prompt has its driver."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    scene.execution = "e1"
    await kernel.executions.accept(scene.sid, scene.token, "e1", "w1")
    assert await scene.renewed() == "held"
    await kernel.executions.boot(scene.sid, "e1")
    await scene.claimed("c1")
    assert await scene.renewed(claim="c1") == "held"


async def test_a_closed_session_is_to_be_released_and_so_is_one_that_is_gone(kernel: Kernel) -> None:
    """`release`: its execution has nothing to wait for; while a prompt is open it is to be stopped."""
    scene, claim = await driven(kernel)
    assert claim.ownership
    await kernel.sessions.close(scene.sid)
    assert await scene.renewed(claim="c1") == "abort"
    await scene.finished(claim.ownership)
    assert await scene.renewed(token="") == "release"
    assert await kernel.executions.release(scene.sid, "e1")
    scene.sid = "nobody"
    async with unchanged(kernel):
        assert await scene.renewed() == "release"


@pytest.mark.parametrize(("execution", "worker"), [("e0", "w1"), ("e1", "w2")])
async def test_what_is_not_the_session_s_execution_is_superseded(kernel: Kernel, execution: str, worker: str) -> None:
    """Both are compared: another execution, and another worker under the same id; nothing is extended for them."""
    scene, _ = await driven(kernel)
    scene.execution = execution
    async with unchanged(kernel):
        assert await scene.renewed(claim="c1", worker=worker) == "superseded"


async def test_naming_a_suspect_keeps_it_remembered(kernel: Kernel) -> None:
    """Section 6: a suspect is forgotten when its worker has not named it for self_stop + one lease; no sooner."""
    scene, _ = await driven(kernel)
    await scene.expired("lease")
    await scene.make_due("suspect")
    assert await scene.renewed(claim="c1") == "superseded"
    now = (await kernel.store.redis.time())[0] * 1000
    assert (await scene.deadlines())["suspect"] >= now + 20_000 + LEASE_MS - 1000
    assert (await kernel.deadlines.expire("suspect", scene.sid, "1")).verdict is Verdict.NOT_DUE
    assert await scene.expired("suspect") == "OK"
    assert (await scene.view()).suspects == ()


async def test_two_renewals_that_do_not_name_the_open_prompt_end_its_lease(kernel: Kernel) -> None:
    """Section 4, renew: a live worker must not keep dead work alive; the first only notes it, the second ends it."""
    scene, _ = await driven(kernel)
    assert await scene.renewed(token="") == "held"
    assert await noted(scene) != ""
    assert await scene.renewed(token="") == "expired"
    score = str((await scene.deadlines())["lease"])
    assert (await kernel.deadlines.expire("lease", scene.sid, score)).verdict is Verdict.OK
    view = await scene.view()
    assert (view.last_reason, view.open_turn, view.status) == ("lost", 0, "running")


async def test_two_renewals_that_do_not_name_an_accepted_activity_end_its_lease(kernel: Kernel) -> None:
    """A worker that accepted and forgot: the activity is handed to another."""
    scene = await Scene(kernel).opened()
    await scene.sent()
    await scene.booted()
    assert [await scene.renewed(token="") for _ in range(2)] == ["run", "expired"]
    score = str((await scene.deadlines())["lease"])
    assert (await kernel.deadlines.expire("lease", scene.sid, score)).verdict is Verdict.OK
    assert (await scene.view()).waiting_for == "placement"


async def test_a_renewal_that_a_claim_overtook_does_not_kill_it(kernel: Kernel) -> None:
    """Composed before the claim was sent, arriving after it: noted, and the next renewal, which names it, clears it."""
    scene = await live(kernel)
    await scene.sent("again")
    await scene.claimed("c2")
    assert await scene.renewed(token="") == "held"
    assert await scene.renewed(claim="c2") == "held"
    assert await noted(scene) == ""
    assert await scene.renewed(token="") == "held"
    assert (await scene.view()).open_turn == 2


async def test_a_note_about_one_claim_does_not_count_against_the_next(kernel: Kernel) -> None:
    """The note names what was missed; whatever is driven by then is missed for the first time."""
    scene, claim = await driven(kernel)
    assert claim.ownership
    await scene.sent("next")
    assert await scene.renewed(token="") == "held"
    await scene.finished(claim.ownership)
    assert await scene.renewed(token="") == "run"
    await scene.settled()
    await scene.claimed("c2")
    assert await noted(scene) == ""
    assert await scene.renewed(token="") == "held"


async def test_a_claim_that_was_sent_and_not_answered_counts_as_named(kernel: Kernel) -> None:
    """PROTOCOL: the claim id that the worker drives or has sent a claim with; the token alone is not enough then."""
    scene, _ = await driven(kernel)
    for _ in range(3):
        assert await scene.renewed(token="", claim="c1") == "held"
    assert [await scene.renewed() for _ in range(2)] == ["held", "expired"]


async def test_a_renewal_repeated_after_a_lost_reply_is_one_renewal(kernel: Kernel, faulty: FaultyStore) -> None:
    """The second has to be composed after the first's reply, so a repeat of the overtaken one does not count."""
    scene, _ = await driven(kernel)
    faulty.drop_reply("renew")
    assert await scene.renewed(token="") == "held"
    assert faulty.sent["renew"] == 2
    assert await scene.renewed(claim="c1") == "held"
    assert await noted(scene) == ""
    faulty.drop_reply("renew")
    assert [await scene.renewed(token="") for _ in range(2)] == ["held", "expired"]


async def test_a_late_naming_takes_an_ended_lease_back(kernel: Kernel) -> None:
    """Until a sweep has acted on it, the worker that names its work again keeps it."""
    scene, _ = await driven(kernel)
    for _ in range(2):
        await scene.renewed(token="")
    score = str((await scene.deadlines())["lease"])
    assert await scene.renewed(claim="c1") == "held"
    async with unchanged(kernel):
        assert (await kernel.deadlines.expire("lease", scene.sid, score)).verdict is Verdict.NOT_DUE


async def test_sessions_of_all_partitions_are_renewed_a_hundred_a_script(kernel: Kernel, faulty: FaultyStore) -> None:
    """Every session named is in the answer, whatever its partition and however many there are."""
    held = [Held(f"session-{number}", "e1") for number in range(250)]
    one_partition = [Held(session_id, "e1") for session_id in same_partition(kernel, 230)]
    answers = await kernel.executions.renew("w1", held)
    assert set(answers) == {one.session_id for one in held}
    assert faulty.sent["renew"] == 16
    assert len(await kernel.executions.renew("w1", one_partition)) == 230
    assert faulty.sent["renew"] == 16 + 3


def same_partition(kernel: Kernel, count: int) -> list[str]:
    """Session ids of partition 0."""
    ids = (f"n{number}" for number in range(10_000))
    return [session_id for session_id in ids if kernel.store.keys.partition_of(session_id) == 0][:count]
