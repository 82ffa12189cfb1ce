"""A Redis-backed event coordinator for AI-agent sessions.

    async with Coordinator.connect("redis://…") as coord:
        session = coord.session("task-42")
        await session.open()
        await session.send("fix the tests")

What is named here is the public interface; each name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.client import Coordinator
    from coordinator.domain.errors import (
        AgentInvalid,
        CancelConflict,
        ConflictingRepeat,
        ContentionError,
        CoordinatorError,
        GuardBusy,
        GuardLost,
        InboxFull,
        InvalidId,
        MessageInvalid,
        MessageNotPending,
        MessageTooLarge,
        NotAvailable,
        OutcomeUnknown,
        OwnershipError,
        PredecessorPending,
        QuestionClosed,
        Reentry,
        ResetFailed,
        ResetInProgress,
        SessionBusy,
        SessionClosed,
        SessionUnknown,
        SettingsError,
        StoreError,
        StoreMisconfigured,
        StoreUnavailable,
        Superseded,
        TurnChanged,
        UnknownStep,
        UsageError,
        WorkflowInvalid,
        WorkflowUnknown,
    )
    from coordinator.domain.events import (
        AgentBootReady,
        AgentFailed,
        AgentLost,
        AgentReady,
        AgentStopped,
        QuestionAsked,
        StepEntered,
    )
    from coordinator.domain.records import (
        Inbox,
        InboxEntry,
        LogEntry,
        Receipt,
        SessionPolicy,
        Snapshot,
        TurnResult,
    )
    from coordinator.domain.workflow import Step, Workflow, Workflows
    from coordinator.guard import Guard
    from coordinator.handlers import SettledTurn
    from coordinator.inbox import SessionInbox
    from coordinator.maintenance import MaintenanceJob
    from coordinator.orchestrator import Orchestrator
    from coordinator.overview import SessionRow, Stats, WorkerRow
    from coordinator.session import Session
    from coordinator.settings import Settings
    from coordinator.ticket import Ticket
    from coordinator.turn import Turn

__all__ = (
    "AgentBootReady",
    "AgentFailed",
    "AgentInvalid",
    "AgentLost",
    "AgentReady",
    "AgentStopped",
    "CancelConflict",
    "ConflictingRepeat",
    "ContentionError",
    "Coordinator",
    "CoordinatorError",
    "Guard",
    "GuardBusy",
    "GuardLost",
    "Inbox",
    "InboxEntry",
    "InboxFull",
    "InvalidId",
    "LogEntry",
    "MaintenanceJob",
    "MessageInvalid",
    "MessageNotPending",
    "MessageTooLarge",
    "NotAvailable",
    "Orchestrator",
    "OutcomeUnknown",
    "OwnershipError",
    "PredecessorPending",
    "QuestionAsked",
    "QuestionClosed",
    "Receipt",
    "Reentry",
    "ResetFailed",
    "ResetInProgress",
    "Session",
    "SessionBusy",
    "SessionClosed",
    "SessionInbox",
    "SessionPolicy",
    "SessionRow",
    "SessionUnknown",
    "Settings",
    "SettingsError",
    "SettledTurn",
    "Snapshot",
    "Stats",
    "Step",
    "StepEntered",
    "StoreError",
    "StoreMisconfigured",
    "StoreUnavailable",
    "Superseded",
    "Ticket",
    "Turn",
    "TurnChanged",
    "TurnResult",
    "UnknownStep",
    "UsageError",
    "WorkerRow",
    "Workflow",
    "WorkflowInvalid",
    "WorkflowUnknown",
    "Workflows",
)

_ELSEWHERE = {
    "Coordinator": "client",
    "Guard": "guard",
    "MaintenanceJob": "maintenance",
    "Orchestrator": "orchestrator",
    "Session": "session",
    "SessionInbox": "inbox",
    "SessionRow": "overview",
    "SettledTurn": "handlers",
    "Settings": "settings",
    "Stats": "overview",
    "Ticket": "ticket",
    "Turn": "turn",
    "WorkerRow": "overview",
    **dict.fromkeys(("Inbox", "InboxEntry", "LogEntry", "Receipt"), "domain.records"),
    **dict.fromkeys(("SessionPolicy", "Snapshot", "TurnResult"), "domain.records"),
    **dict.fromkeys(("AgentBootReady", "AgentFailed", "AgentLost", "AgentReady", "AgentStopped"), "domain.events"),
    **dict.fromkeys(("Step", "Workflow", "Workflows"), "domain.workflow"),
    **dict.fromkeys(("QuestionAsked", "StepEntered"), "domain.events"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'domain.errors')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
