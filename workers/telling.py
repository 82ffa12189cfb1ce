"""Passing on what a worker is told of its executions: by hints, and by what its renewals are answered.

Whatever is told of a session or a generation that is not here is late, and is ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator.services.executions import Answer, Held
    from workers.driver import Driver

logger = logging.getLogger(__name__)


class Telling:
    """What the drivers of one worker hear."""

    def __init__(self) -> None:
        self.drivers: dict[str, Driver] = {}

    def run(self, session_id: str, token: str) -> None:
        """An activity of an execution wants a driver."""
        driver = self.drivers.get(session_id)
        if driver is not None:
            driver.run(token)

    def abort(self, session_id: str, generation: int, cause: str) -> None:
        """Ask the agent of this generation to end its turn."""
        driver = self.drivers.get(session_id)
        if driver is not None:
            driver.abort(generation, cause)

    def drop(self, session_id: str, execution_id: str) -> None:
        """Stop what is no longer the session's execution."""
        driver = self.drivers.get(session_id)
        if driver is not None and driver.execution.execution_id == execution_id:
            driver.drop("it is no longer the session's execution")

    def reset(self, session_id: str, reset_id: str) -> None:
        """Have the provider's session replaced."""
        driver = self.drivers.get(session_id)
        if driver is not None:
            driver.reset(reset_id)

    def answered(self, session_id: str) -> None:
        """Let the turn that has asked something look for its answer."""
        driver = self.drivers.get(session_id)
        if driver is not None:
            driver.answered()

    def apply(self, held: Iterable[Held], answers: dict[str, Answer]) -> None:
        """Do what a renewal answered about the executions that it named."""
        for one in held:
            driver, answer = self.drivers.get(one.session_id), answers.get(one.session_id)
            if driver is None or answer is None or driver.execution.execution_id != one.execution_id:
                continue
            if answer.word == "run":
                driver.run(answer.token)
            elif answer.word == "abort":
                if driver.turn is not None and driver.turn.ownership.claim_id == one.claim_id:
                    driver.turn.cancel(answer.token)
            elif answer.word == "reset":
                driver.reset(answer.token)
            elif answer.word == "superseded":
                driver.drop("it is no longer the session's execution")
            elif answer.word == "release":
                driver.release("its session is closed")
            elif answer.word == "expired":
                logger.warning("session %s: Redis has given up what this worker did not name twice", one.session_id)
