"""Replacing the provider's session of a live execution, as a context reset asks for it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from coordinator.domain.ids import new_id
from coordinator.domain.texts import told
from coordinator.services.reentry import enter, leave
from workers.agentcall import AgentCall

if TYPE_CHECKING:
    from workers.agents.protocol import Agent
    from workers.driver import Driver

logger = logging.getLogger(__name__)

LEFT: Final = "its worker had to leave before the agent had reset its context"


async def reset_agent(driver: Driver, agent: Agent, reset_id: str) -> None:
    """Have the agent reset its context, for at most `provider_reset` seconds, and report how that went.

    A hint may be late: the agent is called only while its reset is on, and once; the report is repeated. Anything but
    a commit that Redis has taken ends the execution: nobody knows which context its agent has. Raises Superseded when
    it was dropped meanwhile.
    """
    session_id, execution = driver.session_id, driver.execution
    resets, next_token = driver.host.kernel.resets, new_id("a")
    if not await driver.ask("reset", lambda: resets.is_called(session_id, execution.execution_id, reset_id)):
        return
    why = await _call(driver, agent, reset_id)
    resume_token = "" if why else execution.resume_token
    counted = await driver.ask(
        "reset",
        lambda: resets.end(
            session_id,
            execution.execution_id,
            reset_id,
            committed=not why,
            resume_token=resume_token,
            why=why,
            next_token=next_token,
        ),
    )
    if why:
        logger.warning("reset %s of session %s failed: %s", reset_id, session_id, why)
        driver.drop(f"its reset failed: {why}")
    elif not counted:
        driver.drop("its reset had ended otherwise")
    driver.saved_resume = resume_token


async def _call(driver: Driver, agent: Agent, reset_id: str) -> str:
    """Call the agent; why it failed, or empty."""
    bound, execution = driver.host.provider_reset, driver.execution
    # An agent that sets none has none: its next execution must not resume the context that was given up.
    execution.resume_token = ""
    scope = enter("turn", driver.session_id)
    try:
        driver.call = call = AgentCall(agent.reset(), f"reset {reset_id}")
        await call.within(
            bound, f"The agent did not reset its context within {bound:g} seconds (COORDINATOR_PROVIDER_RESET)."
        )
    except Exception as error:
        if driver.dropped:
            raise
        return LEFT if driver.interrupted else told(error)
    finally:
        leave(scope)
    return ""
