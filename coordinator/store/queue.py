"""Offering an activity to the workers: a short arq job, and a doorbell that wakes one of them."""

from __future__ import annotations

import logging
import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import msgspec
import redis.exceptions
from arq.constants import job_key_prefix
from arq.jobs import serialize_job

if TYPE_CHECKING:
    from coordinator.settings import Settings
    from coordinator.store.channel import Commands
    from coordinator.store.keys import Keys

FUNCTION = "place"
"""The arq function that a worker runs for an offer: `place(session_id, token)`."""
_RINGS = 100
_LONGEST_MS = 60_000
_log = logging.getLogger(__name__)
_encoder = msgspec.msgpack.Encoder(enc_hook=lambda value: f"{type(value).__name__}: {value}")
_decoder = msgspec.msgpack.Decoder()


def serialize(job: dict[str, Any]) -> bytes:
    """MessagePack instead of arq's pickle, with which whoever writes to the queue runs code in the workers."""
    return _encoder.encode(job)


def deserialize(data: bytes) -> dict[str, Any]:
    """The inverse of `serialize`. Raises `msgspec.DecodeError` for anything else, a pickle included."""
    return dict(_decoder.decode(data))


class Placements:
    """Offers. Losing one delays the activity until its placement deadline, when a sweeper makes the next."""

    def __init__(self, queue: Commands, keys: Keys, settings: Settings) -> None:
        self._queue = queue
        self._keys = keys
        self._first_ms = round(settings.placement * 1000)

    async def offer(self, session_id: str, token: str, offer: int = 0) -> None:
        """Offer an activity once, under a job id that is never used again. An offer that fails is logged only.

        The job is written in one piece, body first: arq's own enqueue watches keys for a repeated id, which can't be.
        """
        name = blake2b(session_id.encode(), digest_size=6).hexdigest()
        job_id = f"{name}-{token}-{offer}"
        lifetime = min(max(_LONGEST_MS, self._first_ms), self._first_ms * 2**offer)
        now_ms = int(time.time() * 1000)
        job = serialize_job(FUNCTION, (session_id, token), {}, None, now_ms, serializer=serialize)
        try:
            await self._queue.together(
                ("PSETEX", job_key_prefix + job_id, lifetime, job),
                ("ZADD", self._keys.queue, now_ms, job_id),
                ("RPUSH", self._keys.doorbell, job_id),
                ("LTRIM", self._keys.doorbell, -_RINGS, -1),
            )
        except (redis.exceptions.RedisError, OSError) as error:
            _log.warning("no placement offered for session %s: %s", session_id, type(error).__name__)
