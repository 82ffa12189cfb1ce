"""The one door to Redis for everything that changes a session: calling a script, safely repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import redis.exceptions
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, wait_random_exponential

from coordinator.domain.errors import OutcomeUnknown, ScriptContractError
from coordinator.domain.texts import sendable
from coordinator.domain.verdicts import Verdict
from coordinator.store.channel import Commands, channel_of
from coordinator.store.failures import is_transient, translate, was_sent
from coordinator.store.keys import GROUP, Keys
from coordinator.store.scripts import load_all

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from coordinator.settings import Settings
    from coordinator.store.scripts import Script

PATIENCE = 10.0
"""Seconds for which a call is repeated while Redis does not answer."""
_MILLISECONDS = (
    "lease", "placement", "settlement", "maintenance_lease", "acceptance", "guard_ttl", "retention_idle",
    "retention_closed", "receipts", "entry", "reset", "question",
)  # fmt: skip
_SETTINGS = {"entry": "entry_timeout", "reset": "reset_timeout", "question": "question_timeout"}


class Reply(NamedTuple):
    """A script's answer."""

    word: Verdict
    details: list[Any]


class Store:
    """Scripts, keys and settings over one coordination client, which decodes replies to text."""

    def __init__(self, redis: Redis, settings: Settings, *, patience: float = PATIENCE, flags: bool = True) -> None:
        """`patience` bounds a call's repeats, in seconds; `flags=False` is for a server that reads no script flags."""
        self.redis = redis
        self.commands: Commands = channel_of(redis)
        self.settings = settings
        self.keys = Keys(settings.namespace, settings.partitions)
        self._patience = patience
        self._scripts = {name: script if flags else script.unflagged() for name, script in load_all().items()}
        self._common: dict[str, str | int] = {
            "channels": self.keys.channels,
            "group": GROUP,
            "max_log": settings.max_log,
            "max_inbox": settings.max_inbox,
            "max_inbox_bytes": settings.max_inbox_bytes,
            "cancel_ms": _ms(settings.cancel_timeout),
            # The worker's own timer comes first, and knows why: this one is for workers that can't tell.
            "start_ms": _ms(settings.start_timeout + settings.lease),
            "suspect_ms": _ms(settings.self_stop + settings.lease),
            **{f"{name}_ms": _ms(getattr(settings, _SETTINGS.get(name, name))) for name in _MILLISECONDS},
        }

    async def call(self, name: str, session_id: str, /, *rest: str, **args: str | int) -> Reply:
        """Run a script for a session: its keys by name, its arguments from `args` or else from the settings.

        `rest` fills the slot that stands for all that follow.

        A call whose reply is lost is repeated, since every script recognises its own repeat.
        Raises StoreUnavailable or StoreMisconfigured when Redis can't or won't, OutcomeUnknown when the call was sent
        and no reply came within the store's patience, ScriptContractError for a slot that is missing.
        """
        script = self._scripts[name]
        names = self.keys.session(session_id)
        args["session_id"] = session_id
        operation = args.get("operation_id") or args.get("message_id")
        if "receipt" in script.keys:
            names = {**names, "receipt": self.keys.receipt(session_id, str(operation))}
        try:
            return await self.run(script, [names[key] for key in script.keys], args, list(rest))
        except OutcomeUnknown as error:
            if "receipt" not in script.keys:
                raise
            raise OutcomeUnknown(f"{error} Made again with its id, {operation}, it gives the first answer.") from error

    async def call_partition(
        self, name: str, partition: int, keys: list[str] | None = None, rest: list[str] | None = None, **args: str | int
    ) -> Reply:
        """Run a script for a partition; `keys` and `rest` fill the slots that stand for all that follow.

        Raises as `call` does.
        """
        script = self._scripts[name]
        names = self.keys.partition(partition)
        declared = [names[key] for key in script.keys if not key.endswith("...")]
        return await self.run(script, declared + (keys or []), args, rest or [])

    async def look(self, name: str, session_id: str, /, *rest: str) -> Reply:
        """Run a script that only reads: not repeated. Raises StoreUnavailable or StoreMisconfigured."""
        script, names = self._scripts[name], self.keys.session(session_id)
        argv = self._arguments(script, {"session_id": session_id}, list(rest))
        try:
            raw = await self._evaluate(script, [names[key] for key in script.keys], argv)
        except (redis.exceptions.RedisError, OSError) as error:
            raise translate(error) from error
        return Reply(Verdict(raw[0]), raw[1:])

    async def run(
        self, script: Script, keys: list[str], args: dict[str, str | int], rest: list[str] | None = None
    ) -> Reply:
        """Send one script with its keys in order. Raises as `call`."""
        argv = self._arguments(script, args, rest or [])
        try:
            raw = await self._evaluate(script, keys, argv)
        except (redis.exceptions.RedisError, OSError) as error:
            raw = await self._repeat(script, keys, argv, error)
        return Reply(Verdict(raw[0]), raw[1:])

    def _arguments(self, script: Script, args: dict[str, str | int], rest: list[str]) -> list[str | int]:
        common = self._common
        try:
            return [args[arg] if arg in args else common[arg] for arg in script.args if arg[-1] != "."] + rest
        except KeyError as error:
            msg = f"lua/{script.name}.lua declares {error}, which the call does not give"
            raise ScriptContractError(msg) from None

    async def fields(self, key: str, *names: str) -> list[str | None]:
        """Some fields of a hash, None for an absent one. Raises StoreUnavailable or StoreMisconfigured."""
        try:
            return await self.commands.execute_command("HMGET", key, *names)
        except (redis.exceptions.RedisError, OSError) as error:
            raise translate(error) from error

    async def text(self, key: str) -> str:
        """A string, empty when it is absent. Raises as `fields`."""
        try:
            found = await self.commands.execute_command("GET", key)
        except (redis.exceptions.RedisError, OSError) as error:
            raise translate(error) from error
        return str(found or "")

    async def put(self, key: str, field: str, value: str) -> None:
        """Set a field of a hash that no script reads. Raises as `fields`."""
        try:
            await self.commands.execute_command("HSET", key, field, value)
        except (redis.exceptions.RedisError, OSError) as error:
            raise translate(error) from error

    async def field_names(self, key: str) -> list[str]:
        """The fields of a hash, sorted. Raises as `fields`."""
        try:
            return sorted(await self.commands.execute_command("HKEYS", key))
        except (redis.exceptions.RedisError, OSError) as error:
            raise translate(error) from error

    async def newest(self, log: str, kind: str, **wanted: str) -> dict[str, str] | None:
        """The newest log entry of a type and with these fields, looked for backwards. Raises as `fields`."""
        end = "+"
        try:
            while page := await self.redis.xrevrange(log, max=end, count=200):
                for _, fields in page:
                    if fields["type"] == kind and wanted.items() <= fields.items():
                        return dict(fields)
                end = f"({page[-1][0]}"
        except (redis.exceptions.RedisError, OSError) as error:
            raise translate(error) from error
        return None

    async def _evaluate(self, script: Script, keys: list[str], argv: list[str | int]) -> list[Any]:
        try:
            return await self.commands.execute_command("EVALSHA", script.sha, len(keys), *keys, *argv)
        except UnicodeEncodeError:
            # Nothing was sent. Messages were checked before; what is left is what an agent's or a handler's code said,
            # and a turn that could not end for its error's text would never end.
            return await self._evaluate(script, keys, [sendable(a) if isinstance(a, str) else a for a in argv])
        except redis.exceptions.NoScriptError:
            return await self.commands.execute_command("EVAL", script.text, len(keys), *keys, *argv)

    async def _repeat(self, script: Script, keys: list[str], argv: list[str | int], error: BaseException) -> list[Any]:
        if not is_transient(error):
            raise translate(error) from error
        sent = was_sent(error)
        retrying = AsyncRetrying(
            stop=stop_after_delay(self._patience),
            wait=wait_random_exponential(multiplier=0.05, max=1.0),
            retry=retry_if_exception(is_transient),
            reraise=True,
        )
        try:
            return await retrying(self._evaluate, script, keys, argv)
        except (redis.exceptions.RedisError, OSError) as last:
            if sent or was_sent(last):
                msg = f"Redis got '{script.name}' and its answer was lost; look at the session before doing it again."
                raise OutcomeUnknown(msg) from last
            raise translate(last) from last


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
