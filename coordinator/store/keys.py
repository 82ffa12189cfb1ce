"""Every key and channel name. Nothing else, in Python or Lua, puts one together.

All keys of a session and of its partition carry the partition's hash tag, so one script may change them together,
on a cluster too.
"""

from __future__ import annotations

from binascii import crc_hqx

SLOTS = 16384
GROUP = "orchestrators"
"""The consumer group of the orchestrator replicas, on every partition's event stream."""
_CACHED = 20_000

SESSION_PARTS = {
    "next_turn": "next-turn",
    "next_step": "next-step",
    "in_flight": "in-flight",
    "awake": "awake",
    "messages": "messages",
    "message_info": "message-info",
    "log": "log",
    "guard": "guard",
    "suspects": "suspects",
}
PARTITION_PARTS = ("events", "dead", "deadlines", "sessions", "counters")


def _tags(partitions: int) -> tuple[str, ...]:
    """One fixed text a partition, chosen so that the slots are spread evenly over the slot range."""
    tags = []
    for partition in range(partitions):
        low, high = partition * SLOTS // partitions, (partition + 1) * SLOTS // partitions
        number = 0
        while not low <= crc_hqx(f"p{partition}-{number}".encode(), 0) % SLOTS < high:
            number += 1
        tags.append(f"p{partition}-{number}")
    return tuple(tags)


class Keys:
    """The key names of one deployment: a namespace and a number of partitions."""

    def __init__(self, namespace: str, partitions: int) -> None:
        self.namespace = namespace
        self.partitions = partitions
        self.channels = f"{namespace}:"
        self.meta = f"{namespace}:meta"
        self.workers = f"{namespace}:workers"
        self.workflows = f"{namespace}:workflows"
        self.doorbell = f"{namespace}:doorbell"
        self.queue = f"arq:{namespace}:v1"
        self._bases = tuple(f"{namespace}:{{{tag}}}:" for tag in _tags(partitions))
        self._partition_keys = tuple({part: base + part for part in PARTITION_PARTS} for base in self._bases)
        self._sessions: dict[str, dict[str, str]] = {}

    def partition_of(self, session_id: str) -> int:
        """The partition that holds a session."""
        return crc_hqx(session_id.encode(), 0) % self.partitions

    def partition(self, partition: int) -> dict[str, str]:
        """The keys of a partition, by name: events, dead, deadlines, sessions, counters."""
        return self._partition_keys[partition]

    def session(self, session_id: str) -> dict[str, str]:
        """The keys of a session and of its partition, by the names that scripts declare."""
        found = self._sessions.get(session_id)
        if found is None:
            if len(self._sessions) >= _CACHED:
                self._sessions.clear()
            partition = self.partition_of(session_id)
            base = f"{self._bases[partition]}session:{session_id}"
            found = {"session": base, **self._partition_keys[partition]}
            found.update({name: f"{base}:{part}" for name, part in SESSION_PARTS.items()})
            self._sessions[session_id] = found
        return found

    def receipt(self, session_id: str, operation_id: str) -> str:
        """The first answer to a client's call."""
        return f"{self.session(session_id)['session']}:receipt:{operation_id}"

    def events(self, partition: int) -> str:
        """The stream of what replicas must act on."""
        return self._partition_keys[partition]["events"]

    def worker(self, worker_id: str) -> str:
        """A worker's registration."""
        return f"{self.namespace}:worker:{worker_id}"

    def hint(self, session_id: str) -> str:
        """The channel on which every change of a session's record is hinted."""
        return f"{self.channels}hint:{session_id}"

    def control(self, worker_id: str) -> str:
        """The channel of hints to one worker."""
        return f"{self.channels}control:{worker_id}"
