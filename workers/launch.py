"""The beginning and the end of an execution: starting its agent, and giving it up with nothing open."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from coordinator.domain.errors import StoreError
from coordinator.domain.ids import new_id
from coordinator.domain.texts import told
from coordinator.domain.verdicts import Verdict
from workers.agentcall import AgentCall
from workers.persistence import persist

if TYPE_CHECKING:
    from workers.driver import Driver

logger = logging.getLogger(__name__)

_GRACE: Final = 0.5
"""Seconds that a cancelled call has before the agent's `stop` is called in the middle of it."""
_STOP: Final = 10.0
"""Seconds that an agent's `stop` may take before it is cancelled."""


async def launch(driver: Driver) -> bool:
    """Start or restore the agent and report it. False: it failed, which was reported and parks the session."""
    execution, host = driver.execution, driver.host
    try:
        driver.call = AgentCall(_boot(driver), f"start {execution.execution_id}")
        await driver.call.within(
            host.start_timeout,
            f"The agent did not start within {host.start_timeout:g} seconds (COORDINATOR_START_TIMEOUT).",
        )
    except Exception as error:
        if driver.dropped:
            raise
        await _retire(driver, "" if driver.interrupted else told(error))
        logger.warning(
            "execution %s of session %s did not start", execution.execution_id, driver.session_id, exc_info=error
        )
        return False
    resume_token = driver.saved_resume = execution.resume_token
    executions = host.kernel.executions
    if not await driver.ask("boot", lambda: executions.boot(driver.session_id, execution.execution_id, resume_token)):
        driver.drop("it is no longer the session's execution")
    return True


async def _boot(driver: Driver) -> None:
    driver.agent = agent = driver.host.make_agent()
    driver.accepts = bool(getattr(agent, "accepted_by_host", False))
    await agent.start(driver.execution)


async def give_up(driver: Driver, reason: str) -> bool:
    """Give the execution up, and what waits for its next claim with it. False while a prompt of it is open."""
    if driver.token:
        if await _retire(driver, ""):
            return True
        driver.ends(Verdict.GONE)
    executions = driver.host.kernel.executions
    driver.released = await driver.ask(
        "release", lambda: executions.release(driver.session_id, driver.execution.execution_id, reason)
    )
    return driver.released


async def bury(driver: Driver) -> None:
    """End the agent of an execution that is over, however long that takes, then report that it is gone.

    A call that does not end by its cancellation may do so when `stop` has ended the process that it waits for.
    """
    execution, agent, call = driver.execution, driver.agent, driver.call
    if call is not None and not call.task.done():
        await asyncio.wait({call.task}, timeout=_GRACE)
    if agent is not None:
        try:
            await AgentCall(agent.stop(), f"stop {execution.execution_id}").within(_STOP, "it did not stop in time")
        except Exception as error:  # noqa: BLE001 - an agent that can't stop must not keep its session from going on
            logger.warning("agent of execution %s: stop failed: %s", execution.execution_id, error)
    if call is not None and not call.task.done():
        await asyncio.wait({call.task})
    if driver.released:
        return
    executions = driver.host.kernel.executions
    try:
        await persist(
            lambda: executions.release(execution.session_id, execution.execution_id, "ended"),
            f"release of session {execution.session_id}",
            lambda: True,
        )
    except StoreError as error:
        logger.warning("execution %s was not reported as gone: %s", execution.execution_id, error)


async def _retire(driver: Driver, error: str) -> bool:
    turns, token, next_token = driver.host.kernel.turns, driver.token, new_id("a")
    execution_id = driver.execution.execution_id
    end = await driver.ask(
        "retire", lambda: turns.retire(driver.session_id, token, execution_id, error=error, next_token=next_token)
    )
    driver.released = end.verdict in {Verdict.GONE, Verdict.RESTARTED}
    return driver.released
