"""Putting one prompt to an agent, and reading how it ended."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from coordinator.domain.errors import QuestionClosed, Superseded
from coordinator.domain.texts import told
from coordinator.services.reentry import enter, leave
from workers.agentcall import AgentCall, AgentStopped
from workers.agents.protocol import AGENT_REASONS, DispatchFailed, Prompt, TurnEnd

if TYPE_CHECKING:
    from coordinator.domain.records import Message
    from coordinator.services.turns import Claim
    from workers.agents.protocol import Agent
    from workers.driver import Driver
    from workers.turn import LiveTurn

logger = logging.getLogger(__name__)


class Ending(NamedTuple):
    """What the driver reports of a turn."""

    reason: str
    error: str = ""
    resume_token: str = ""
    undelivered: bool = False


async def prompt_agent(driver: Driver, agent: Agent, turn: LiveTurn, claim: Claim) -> Ending:
    """Put the claimed messages to the agent and wait for the end of its turn.

    Raises Superseded when the prompt became another's, or was given up without the right to report it.
    """
    if turn.cancelled.is_set():
        # Stopped before the claim's answer was here: the agent has seen nothing of it, and never will.
        return Ending("cancelled")
    if driver.interrupted:
        return Ending("interrupted", driver.interrupted)
    if driver.accepts and not await turn.output.accept():
        raise Superseded(driver.dropped)
    if driver.interrupted:
        return Ending("interrupted", driver.interrupted)
    ownership, session_id = turn.ownership, driver.session_id
    prompt = Prompt(session_id, _joined(claim.messages), claim.messages, ownership, claim.turn, claim.attempt)
    scope = enter("turn", session_id)
    try:
        driver.call = call = AgentCall(agent.prompt(prompt, turn), session_id)
        end = await call.outcome
    except Exception as error:
        if driver.dropped:
            raise
        return _failed(driver, turn, error)
    finally:
        leave(scope)
    return _ended(driver, turn, end)


def _joined(messages: tuple[Message, ...]) -> str:
    return messages[0].body if len(messages) == 1 else "\n".join(message.body for message in messages)


def _ended(driver: Driver, turn: LiveTurn, end: object) -> Ending:
    ownership = turn.ownership
    if not isinstance(end, TurnEnd):
        return _refused(driver, f"The agent returned {type(end).__name__} where a TurnEnd belongs.")
    if end.ownership != ownership:
        return _refused(driver, f"The agent answered prompt {ownership} with the end of another, {end.ownership}.")
    if end.reason not in AGENT_REASONS:
        return _refused(
            driver, f"The agent gave {end.reason!r} as the reason; {', '.join(sorted(AGENT_REASONS))} are known."
        )
    if end.resume_token:
        driver.execution.resume_token = end.resume_token
    resume_token = driver.execution.resume_token
    changed = resume_token if resume_token != driver.saved_resume else ""
    driver.saved_resume = resume_token
    # One that was stopped before its worker had to leave has answered that stop.
    if driver.interrupted and end.reason == "cancelled" and turn.cancel_cause == driver.interrupted:
        return Ending("interrupted", driver.interrupted, changed)
    return Ending(end.reason, end.error, changed)


def _failed(driver: Driver, turn: LiveTurn, error: Exception) -> Ending:
    if driver.interrupted:
        return Ending("interrupted", driver.interrupted)
    # A function that waits for an answer learns of the stop by that error, and need not know of it.
    if isinstance(error, AgentStopped | QuestionClosed) and turn.cancelled.is_set():
        return Ending("cancelled")
    if isinstance(error, AgentStopped):
        return Ending("error", "The agent cancelled its own task.")
    logger.warning("the agent of session %s failed", driver.session_id, exc_info=error)
    undelivered = isinstance(error, DispatchFailed) and not turn.output.number
    return Ending("error", told(error), undelivered=undelivered)


def _refused(driver: Driver, what: str) -> Ending:
    logger.error("session %s: %s", driver.session_id, what)
    return Ending("error", what)
