"""Whether an agent got its prompt, and what becomes of the message when it did not."""

from __future__ import annotations

from tests.integration.conftest import Deployment
from tests.integration.puppet import Puppet
from tests.integration.recorder import Recorder
from tests.support.watch import BOUND, seen, told
from workers.agents.protocol import DispatchFailed, Execution, Prompt, Turn, TurnEnd


async def test_a_failed_dispatch_goes_back_first_in_line_and_is_parked_the_third_time(
    deployment: Deployment,
) -> None:
    """Kandev A2, section 8: each attempt uses its generation up, and the order of what waits is kept."""

    class Refusing(Recorder):
        works = False

        async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
            self.calls.append(prompt.text)
            if not self.works:
                raise DispatchFailed("no route")
            await turn.accepted()
            return TurnEnd(prompt.ownership)

    await deployment.replica()
    await deployment.worker(Refusing)
    session = await deployment.opened()
    sent = [(await session.send(body)).message_id for body in ("first", "second")]
    await seen(session, "error", where="dispatch")
    await session.wait_idle(timeout=BOUND)
    view = await session.snapshot()
    assert [(entry.body, entry.attempt) for entry in view.inbox.next_turn] == [("first", 3), ("second", 0)]
    assert (view.generation, view.status) == (3, "idle")
    Refusing.works = True
    await session.send("wake")
    await session.wait_idle(timeout=BOUND)
    assert Refusing.calls[1:] == ["first"] * 4 + ["second", "wake"]
    oracle = await deployment.judged(session, *sent)
    assert oracle.messages[sent[0]].turns == [1, 2, 3, 4]


async def test_a_failed_dispatch_after_the_agent_spoke_is_an_error_like_any_other(
    deployment: Deployment, puppet: Puppet
) -> None:
    """Whoever has heard something of it has acted: the message is not dispatched twice."""
    session = await deployment.opened()
    receipt = await session.send("work")
    call = await puppet.next()
    await call.turn.emit("got it")
    call.raises(DispatchFailed("lost the line"))
    result = await session.result(receipt.message_id, timeout=BOUND)
    assert (result.reason, result.text) == ("error", "got it")
    assert not puppet.is_asked


async def test_text_that_was_emitted_before_a_failed_dispatch_counts_as_the_acceptance(
    deployment: Deployment,
) -> None:
    """The first output is the acceptance, also while it still waits for more to be written with it."""

    class Hasty(Recorder):
        async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
            self.calls.append(prompt.text)
            await turn.emit("on it")
            raise DispatchFailed("lost the line")

    await deployment.replica()
    await deployment.worker(Hasty)
    session = await deployment.opened()
    receipt = await session.send("work")
    result = await session.result(receipt.message_id, timeout=BOUND)
    await session.wait_idle(timeout=BOUND)
    assert (result.reason, result.text, Hasty.calls[1:]) == ("error", "on it", ["work"])
    await deployment.judged(session)


async def test_an_agent_that_ends_at_once_was_accepted_all_the_same(deployment: Deployment) -> None:
    """Kandev A14: running is told before the end, and before the text, however soon the end comes."""

    class Quick(Recorder):
        async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
            await turn.emit("done")
            return TurnEnd(prompt.ownership)

    await deployment.replica()
    await deployment.worker(Quick)
    session = await deployment.opened()
    await session.send("work")
    await session.wait_idle(timeout=BOUND)
    kinds = await told(session, "agent.running", "output", "turn.ended")
    assert kinds == ["agent.running", "output", "turn.ended"]
    await deployment.judged(session)


async def test_an_agent_that_never_starts_parks_the_session_with_the_reason(deployment: Deployment) -> None:
    """A failed start is an error, visibly; what was queued waits for the next wake."""

    class Broken(Recorder):
        async def start(self, execution: Execution) -> None:
            raise RuntimeError(f"no key for {execution.session_id}")

    await deployment.replica()
    await deployment.worker(Broken)
    session = await deployment.opened()
    sent = (await session.send("work")).message_id
    error = await seen(session, "error", where="start")
    await session.wait_idle(timeout=BOUND)
    view = await session.snapshot()
    assert error.fields["message"] == "RuntimeError: no key for s1"
    assert (view.status, view.execution_status, view.turn) == ("idle", "failed", 0)
    assert [entry.message_id for entry in view.inbox.next_turn] == [sent]
    await deployment.judged(session, sent, rests=False)
