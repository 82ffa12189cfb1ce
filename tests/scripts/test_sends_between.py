"""A send that falls between any two scripts of a turn is in exactly one turn, or waits where everybody sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import pytest

from tests.scripts.scene import Scene

if TYPE_CHECKING:
    from coordinator.domain.records import ListName
    from coordinator.services import Kernel
    from tests.support.faulty import FaultyStore

SCRIPTS = ["send", "accept_activity", "boot", "claim", "output", "step", "finish", "settle"]
ENDS = ["completed", "max_tokens", "error", "continued error", "interrupted", "undelivered"]
Where = Literal["before", "after"]
# Before its own send the session is idle, and what that does is another test.
PLACES = [("after", "send"), *((where, script) for script in SCRIPTS[1:] for where in ("before", "after"))]


class Sender:
    """Sends one waking message in the middle of something else."""

    def __init__(self, scene: Scene, into: ListName) -> None:
        self.scene = scene
        self.into = into
        self.message = ""

    async def __call__(self) -> None:
        """The send, and what has to be true at once: it runs, or it is in line above the mark."""
        kernel, sid = self.scene.kernel, self.scene.sid
        receipt = await kernel.inbox.send(sid, "between", list=self.into)
        self.message = receipt.message_id
        view = await self.scene.view()
        assert view.status == "running"
        waiting = [
            entry for entry in (*view.inbox.next_turn, *view.inbox.next_step) if entry.message_id == self.message
        ]
        assert [entry.awake for entry in waiting] == [True]

    async def turns(self) -> list[str]:
        """The turns that took it and did not give it back."""
        found: list[str] = []
        for entry in await self.scene.log():
            if entry.get("message_id") == self.message:
                if entry["type"] == "inbox.claimed":
                    found.append(entry["turn"])
                elif entry["type"] == "inbox.returned":
                    found.pop()
        return found


async def a_turn(scene: Scene, end: str) -> None:
    """From the send to the settlement, ended in one of the ways."""
    kernel = scene.kernel
    await scene.sent("first")
    scene.token = (await scene.view()).activity
    await scene.booted()
    claim = await scene.claimed()
    assert claim.ownership
    if end != "undelivered":
        await kernel.turns.output(scene.sid, claim.ownership, 1, "")
    await kernel.turns.step(scene.sid, claim.ownership, 1)
    reason = "error" if "error" in end or end == "undelivered" else end
    await scene.finished(claim.ownership, reason, undelivered=end == "undelivered")
    await scene.settled()


async def attended(scene: Scene) -> None:
    """Replicas and workers do all that there is to do."""
    for number in range(20):
        view = await scene.view()
        if view.unsettled_turn:
            await scene.settled()
        elif view.status == "idle":
            return
        else:
            scene.token = view.activity
            if not view.execution_id:
                await scene.booted(f"e{number + 2}")
            claim = await scene.claimed(f"later-{number}")
            assert claim.ownership, claim
            assert await scene.kernel.turns.output(scene.sid, claim.ownership, 1, "")
            await scene.finished(claim.ownership)
    pytest.fail("it never came to rest")


async def told(kernel: Kernel, faulty: FaultyStore, where: Where, script: str, end: str, into: ListName) -> Sender:
    """One session with that send in its first turn, come to rest."""
    scene = Scene(kernel, f"{end.replace(' ', '-')}-{into}")
    await scene.opened(after_error="continue" if end == "continued error" else "park")
    send = Sender(scene, into)
    (faulty.before if where == "before" else faulty.after)(script, send)
    await a_turn(scene, end)
    assert faulty.unused == []
    await attended(scene)
    return send


async def accounted_for(send: Sender, script: str, where: Where, end: str) -> None:
    """In one turn and gone from the inbox; or, sent before an error that parks, in line below the mark."""
    view = await send.scene.view()
    waiting = {entry.message_id: entry.awake for entry in (*view.inbox.next_turn, *view.inbox.next_step)}
    turns = await send.turns()
    ended = SCRIPTS.index(script) > SCRIPTS.index("finish") or (script == "finish" and where == "after")
    if end == "error" and not ended and not turns:
        assert waiting == {send.message: False}
    else:
        assert len(turns) == 1
        assert waiting == {}
    assert await send.scene.kernel.store.redis.zcard(send.scene.keys["awake"]) == len(waiting)


@pytest.mark.parametrize(("where", "script"), PLACES)
async def test_a_send_between_two_scripts_of_a_turn_is_never_lost(
    kernel: Kernel, faulty: FaultyStore, script: str, where: Where
) -> None:
    """Section 5.2, wake-latch G1: before the last look and the driver goes on, after it and it starts a driver."""
    send = await told(kernel, faulty, where, script, "completed", "next-turn")
    await accounted_for(send, script, where, "completed")


@pytest.mark.parametrize("backend_kind", ["bundled"], indirect=True)
@pytest.mark.parametrize(("where", "script"), PLACES)
async def test_nor_is_one_before_any_other_end(kernel: Kernel, faulty: FaultyStore, script: str, where: Where) -> None:
    """Every end of a turn, both lists: invariants 9 and 10."""
    for end in ENDS if script != "output" else ENDS[:-1]:
        for into in ("next-turn", "next-step"):
            send = await told(kernel, faulty, where, script, end, into)
            await accounted_for(send, script, where, end)
