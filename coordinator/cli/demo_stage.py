"""What the demo's scenes act with: processes, sessions, and every message that was sent."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from coordinator.cli.children import Child
from coordinator.cli.demo_flow import WORKFLOW
from coordinator.domain.errors import CoordinatorError
from coordinator.domain.records import Ownership

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from coordinator.cli.demo_view import View
    from coordinator.client import Coordinator
    from coordinator.domain.records import LogEntry, Receipt, Snapshot, TurnResult

_BOUND: Final = 20.0
_AGENT: Final = "workers.agents.scripted:agent"
CAPACITY: Final = 4


class DemoFailed(CoordinatorError):
    """Raised when something that the demo shows did not come out as promised."""


class Stage:
    """The demo's crew and its record of what was sent. Ends its processes when it is left."""

    def __init__(self, coord: Coordinator, view: View, env: Mapping[str, str]) -> None:
        self.coord = coord
        self.view = view
        self.sent: list[tuple[str, str]] = []
        """Session and message id of everything that was accepted."""
        self.workers: dict[str, Child] = {}
        self._env = env
        self._others: list[Child] = []

    async def __aenter__(self) -> Self:
        self.view.watch(self.coord)
        started = await asyncio.gather(
            self._add_orchestrator(), self.add_worker("w1"), self.add_worker("w2"), return_exceptions=True
        )
        failed = [problem for problem in started if problem is not None]
        if failed:
            await self.__aexit__(None, None, None)
            raise failed[0]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.view.unwatch()
        await asyncio.gather(*(child.stop() for child in (*self.workers.values(), *self._others)))

    async def _add_orchestrator(self) -> None:
        with tempfile.TemporaryDirectory(prefix="coordinator-demo-") as folder:
            # It has read the file, and published what is in it, when it says that it is ready.
            arguments = ["orchestrator", "--workflow", _workflow_file(folder)]
            self._others.append(await Child.start("the orchestrator", arguments, self._env))

    async def add_worker(self, worker_id: str) -> None:
        """Start one more worker process."""
        arguments = ["worker", "--agent", _AGENT, "--max-sessions", str(CAPACITY), "--worker-id", worker_id]
        self.workers[worker_id] = await Child.start(f"worker {worker_id}", arguments, self._env)

    async def kill_worker(self, worker_id: str) -> None:
        """SIGKILL a worker: no chance to clean up, as in a crash."""
        await self.workers.pop(worker_id).kill()

    async def open(self, session_id: str) -> None:
        """Open a session."""
        await self.coord.session(session_id).open()

    async def send(self, session_id: str, *lines: str) -> Receipt:
        """Send the scripted agent a prompt and note that it was accepted."""
        receipt = await self.coord.session(session_id).send("\n".join(lines))
        self.sent.append((session_id, receipt.message_id))
        return receipt

    async def replace(self, session_id: str, *lines: str) -> Receipt:
        """Stop what runs for another prompt, and note that this was accepted."""
        receipt = await self.coord.session(session_id).replace("\n".join(lines))
        self.sent.append((session_id, receipt.message_id))
        return receipt

    async def result(self, session_id: str, receipt: Receipt) -> TurnResult:
        """Wait for the end of a message's turn."""
        return await self.coord.session(session_id).result(receipt.message_id, timeout=_BOUND)

    async def see(self, session_id: str) -> Snapshot:
        """Read a session."""
        return await self.coord.session(session_id).snapshot()

    async def until(self, session_id: str, kind: str, **fields: str) -> LogEntry:
        """Wait for the log entry of this type and with these fields."""
        async with asyncio.timeout(_BOUND):
            async for entry in self.coord.session(session_id).follow():
                if entry.type == kind and fields.items() <= entry.fields.items():
                    return entry
        raise DemoFailed(f"session {session_id} was removed")

    async def owner_of(self, session_id: str, turn: int) -> Ownership:
        """Read from the log who was given a turn: the triple that its completion must carry."""
        fields = (await self.until(session_id, "turn.started", turn=str(turn))).fields
        return Ownership(fields["execution_id"], int(fields["generation"]), fields["claim_id"])

    async def let_go(self, name: str) -> None:
        """End every `hold NAME` of the scripted agent."""
        store = self.coord.kernel.store
        await store.redis.set(f"{store.keys.namespace}:scripted:{name}", "1")

    def expect(self, what: str, *, holds: bool) -> None:
        """Say what is so. Raises `DemoFailed` if it is not."""
        if not holds:
            raise DemoFailed(f"this did not hold: {what}")
        self.view.say(what)


def _workflow_file(folder: str) -> str:
    file = Path(folder, "flow.toml")
    file.write_text(WORKFLOW)
    return str(file)
