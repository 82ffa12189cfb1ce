"""One session on the test's own hands: stopped and replaced as a client does, and judged at the end."""

from __future__ import annotations

import asyncio
from typing import Any

from coordinator.domain.records import Receipt
from coordinator.services import Kernel
from coordinator.session import Session
from coordinator.ticket import Ticket
from tests.integration.conftest import Deployment
from tests.integration.puppet import Call, Puppet
from tests.support.faulty import FaultyStore
from tests.support.oracle import Oracle
from tests.support.watch import BOUND, seen, told
from workers.agents.protocol import Execution, Prompt, Turn, TurnEnd

Turns = list[tuple[str, ...]]


async def aborted(call: Call) -> str:
    """Wait until the agent was asked to end its turn; the cause that it is shown."""
    async with asyncio.timeout(BOUND):
        await call.turn.cancelled.wait()
    return call.turn.cancel_cause


class Resident(Puppet):
    """A puppet with executions: they start when the test lets them, and their store can be meddled with."""

    def __init__(self) -> None:
        super().__init__()
        self.executions: list[Execution] = []
        self.stopped = asyncio.Semaphore(0)
        """Released once for every execution that was ended."""
        self.starting = asyncio.Semaphore(0)
        self.may_start = asyncio.Event()
        self.may_start.set()

    @property
    def faulty(self) -> FaultyStore:
        """Faults for the worker's own scripts, once an execution has begun."""
        return FaultyStore(self.executions[-1].store)

    async def start(self, execution: Execution) -> None:
        """Boot when the test lets it."""
        self.executions.append(execution)
        self.starting.release()
        await self.may_start.wait()

    async def prompt(self, prompt: Prompt, turn: Turn) -> TurnEnd:
        """Hand the prompt over; the test accepts it, or not."""
        return await self(prompt, turn) or TurnEnd(prompt.ownership)

    async def reset(self) -> None:
        """Nothing is kept."""

    async def stop(self) -> None:
        """Count."""
        self.stopped.release()


class Scene:
    """A session, what was sent to it, and its agent."""

    def __init__(self, deployment: Deployment, puppet: Puppet, session: Session) -> None:
        self.deployment = deployment
        self.puppet = puppet
        self.session = session
        self.kernel: Kernel = deployment.coord.kernel
        self.texts: dict[str, str] = {}
        """What was sent, by message id."""

    async def send(self, text: str, **options: Any) -> Receipt:
        """Send."""
        receipt = await self.kernel.inbox.send(self.session.id, text, **options)
        self.texts.setdefault(receipt.message_id, text)
        return receipt

    async def run(self, text: str, *queued: str) -> Call:
        """Have a prompt with the agent, and others in line."""
        receipt = await self.send(text)
        call = await self.puppet.next()
        assert call.prompt.messages[-1].message_id == receipt.message_id
        for one in queued:
            await self.send(one)
        return call

    async def cancel(self, **options: Any) -> Ticket:
        """Cancel; answers at once."""
        return await self.session.cancel(**options)

    async def replace(self, text: str, **options: Any) -> Receipt:
        """Replace what runs."""
        receipt = await self.session.replace(text, **options)
        self.texts.setdefault(receipt.message_id, text)
        return receipt

    async def interrupt(self, text: str, **options: Any) -> Receipt:
        """Interrupt as a parent."""
        receipt = await self.session.interrupt(text, **options)
        self.texts.setdefault(receipt.message_id, text)
        return receipt

    async def outcome(self, stop: Ticket | str) -> str:
        """Wait for an operation's end; the log says the same."""
        ticket = self.session.ticket(stop) if isinstance(stop, str) else stop
        outcome = await ticket.outcome(timeout=BOUND)
        if isinstance(stop, str) or stop.known is None:
            settled = await seen(self.session, "cancel.settled", operation_id=ticket.id)
            assert settled.fields["outcome"] == outcome
        return outcome

    async def cancelled(self, call: Call, **options: Any) -> str:
        """Cancel, have the agent obey, and wait for the end of both."""
        stop = await self.cancel(**options)
        await aborted(call)
        call.done("cancelled")
        return await self.outcome(stop)

    async def goes_on(self, *texts: str, reason: str = "completed") -> None:
        """The next prompts are these, and end."""
        for text in texts:
            call = await self.puppet.next()
            assert call.prompt.text == text
            call.done(reason)

    async def idle(self) -> None:
        """Wait until nothing runs and nothing is about to."""
        await self.session.wait_idle(timeout=BOUND)

    async def pending(self) -> list[str]:
        """What waits in the inbox."""
        inbox = (await self.session.snapshot()).inbox
        return [entry.body for entry in (*inbox.next_step, *inbox.next_turn)]

    async def judged(self, *, rests: bool = True) -> Oracle:
        """Let the oracle judge, once it is idle; what is parked at the end is no rest."""
        await self.idle()
        return await self.deployment.judged(self.session, *self.texts, rests=rests)

    async def turns(self, *, rests: bool = True) -> Turns:
        """The turns, each a reason and what it took; judged by the oracle."""
        oracle = await self.judged(rests=rests)
        return [(turn.reason, *(self.texts[one] for one in turn.messages)) for turn in oracle.turns.values()]

    async def told(self, *kinds: str) -> list[str]:
        """The log in short."""
        return await told(self.session, *kinds)
