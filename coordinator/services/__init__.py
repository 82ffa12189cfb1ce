"""The kernel as Python calls: one family of use cases a module, one script a method."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator.services.deadlines import Deadlines
from coordinator.services.executions import Executions
from coordinator.services.guards import Guards
from coordinator.services.inbox import Inbox
from coordinator.services.maintenance import Maintenance
from coordinator.services.questions import Questions
from coordinator.services.resets import Resets
from coordinator.services.sessions import Sessions
from coordinator.services.settlements import Settlements
from coordinator.services.snapshots import Snapshots
from coordinator.services.stops import Stops
from coordinator.services.turns import Turns
from coordinator.services.workflows import Workflows
from coordinator.store.channel import channel_of
from coordinator.store.queue import Placements

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from coordinator.store.store import Store


class Kernel:
    """Every script that there is, over one store; `queue` is the client of the Redis that holds arq's queue."""

    def __init__(self, store: Store, queue: Redis | None = None) -> None:
        self.store = store
        self.placements = Placements(channel_of(queue) if queue else store.commands, store.keys, store.settings)
        self.sessions = Sessions(store)
        self.inbox = Inbox(store, self.placements)
        self.turns = Turns(store, self.placements)
        self.executions = Executions(store, self.placements)
        self.settlements = Settlements(store)
        self.guards = Guards(store)
        self.deadlines = Deadlines(store, self.placements)
        self.stops = Stops(store, self.placements)
        self.maintenance = Maintenance(store, self.placements)
        self.resets = Resets(store, self.placements)
        self.workflows = Workflows(store, self.placements)
        self.questions = Questions(store, self.placements)
        self.snapshots = Snapshots(store)
