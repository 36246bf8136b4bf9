"""Trees of supervisors and workers, declared, checked, started and shown, and the tasks that they work on."""

from inspect import currentframe as _currentframe
from typing import TYPE_CHECKING

import actors as _actors
from actors.tasks.journal.questions import Escalation
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.model_call import offer_models
from actors.tasks.model.outcome import Done
from actors.tasks.model.policy import (
    Approve,
    Breaker,
    Check,
    Edit,
    Escalate,
    Failover,
    Reject,
    Respond,
    Retry,
    Verdict,
)
from actors.tasks.model.report import Report, SubtaskReport
from actors.tasks.model.store_events import JournalDamaged, OrderDamaged, StorePaused, StoreResumed, TaskStranded
from actors.tasks.model.task import Budget, Plan, Subtask, SubtaskStatus, Task, TaskStatus, Usage
from actors.tasks.model.task_errors import (
    AttemptTimeoutError,
    BreakerOpenError,
    BudgetExceededError,
    EscalationError,
    LeaseLostError,
    NoCapableWorkerError,
    PlanError,
    StepMismatchError,
    StoreBusyError,
    StoreError,
    SubtaskFailedError,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    TaskTimeoutError,
    UnknownTaskError,
)
from actors.tasks.model.task_events import (
    BreakerClosed,
    BreakerHalfOpened,
    BreakerOpened,
    Compensated,
    Compensating,
    CompensationRetrying,
    EscalationAnswered,
    EscalationExpired,
    EscalationRaised,
    Planned,
    PlanRefused,
    Replanning,
    Reviewed,
    ReviewRefused,
    ReworkBegun,
    StepAnswered,
    StepEscalated,
    StepFailed,
    StepPutBack,
    StepRetrying,
    StepStarted,
    StepUnanswered,
    SubtaskCancelled,
    SubtaskDelegated,
    SubtaskEvent,
    SubtaskFailed,
    SubtaskPreempted,
    SubtaskProgressed,
    SubtaskPutBack,
    SubtaskQueued,
    SubtaskRetrying,
    SubtaskSkipped,
    SubtaskStarted,
    SubtaskStepped,
    SubtaskStreamed,
    SubtaskSucceeded,
    Synthesized,
    TaskEnding,
    TaskEvent,
    TaskFinished,
    TaskJoined,
    TaskPaused,
    TaskPriorityChanged,
    TaskReopened,
    TaskResumed,
    TaskSubmitted,
    UsageTold,
)
from actors.tasks.planning.plan_schema import plan_schema
from actors.tasks.planning.planners import CapabilityPlanner, KeywordPlanner, ModelPlanner, StaticPlan
from actors.tasks.planning.task_settings import Tasks
from actors.tasks.planning.verb_families import VERB_FAMILIES
from actors.tasks.results.model_reviewer import ModelReviewer
from actors.tasks.results.synthesis import Last, ModelSynthesizer, Verbatim
from trees.agents.roles import recognised_model
from trees.declaration.command import Command
from trees.declaration.process import Process
from trees.declaration.ray import Ray
from trees.declaration.specs import Backoff, Mailbox, SupervisorSpec, WorkerSpec
from trees.ha.ha_settings import HA
from trees.ha.roles import NotLeaderError, RoleChanged, RoleLost
from trees.host.batch import Batch
from trees.host.start import start, start_async
from trees.host.task_handle import TaskHandle
from trees.host.tree import Tree
from trees.observe.alerts import Alert, AlertNotice, Log, Webhook
from trees.observe.health import Health, HealthProblem
from trees.observe.operator_events import AlertFailed, Operated, PageFailed
from trees.observe.web.web_settings import Web, WebError
from trees.store import Keep

offer_models(recognised_model)

__all__ = [
    "HA",
    "VERB_FAMILIES",
    "Alert",
    "AlertFailed",
    "AlertNotice",
    "Approve",
    "AttemptTimeoutError",
    "Backoff",
    "Batch",
    "Breaker",
    "BreakerClosed",
    "BreakerHalfOpened",
    "BreakerOpenError",
    "BreakerOpened",
    "Budget",
    "BudgetExceededError",
    "CapabilityPlanner",
    "Check",
    "Command",
    "Compensated",
    "Compensating",
    "CompensationRetrying",
    "Done",
    "Edit",
    "Escalate",
    "Escalation",
    "EscalationAnswered",
    "EscalationError",
    "EscalationExpired",
    "EscalationRaised",
    "ExecutableInfo",
    "Failover",
    "Health",
    "HealthProblem",
    "JournalDamaged",
    "Keep",
    "KeywordPlanner",
    "Last",
    "LeaseLostError",
    "Log",
    "Mailbox",
    "ModelPlanner",
    "ModelReviewer",
    "ModelSynthesizer",
    "NoCapableWorkerError",
    "NotLeaderError",
    "Operated",
    "OrderDamaged",
    "PageFailed",
    "Plan",
    "PlanError",
    "PlanRefused",
    "Planned",
    "Process",
    "Ray",
    "Reject",
    "Replanning",
    "Report",
    "Respond",
    "Retry",
    "ReviewRefused",
    "Reviewed",
    "ReworkBegun",
    "RoleChanged",
    "RoleLost",
    "StaticPlan",
    "StepAnswered",
    "StepEscalated",
    "StepFailed",
    "StepMismatchError",
    "StepPutBack",
    "StepRetrying",
    "StepStarted",
    "StepUnanswered",
    "StoreBusyError",
    "StoreError",
    "StorePaused",
    "StoreResumed",
    "Subtask",
    "SubtaskCancelled",
    "SubtaskDelegated",
    "SubtaskEvent",
    "SubtaskFailed",
    "SubtaskFailedError",
    "SubtaskPreempted",
    "SubtaskProgressed",
    "SubtaskPutBack",
    "SubtaskQueued",
    "SubtaskReport",
    "SubtaskRetrying",
    "SubtaskSkipped",
    "SubtaskStarted",
    "SubtaskStatus",
    "SubtaskStepped",
    "SubtaskStreamed",
    "SubtaskSucceeded",
    "SupervisorSpec",
    "Synthesized",
    "Task",
    "TaskCancelledError",
    "TaskDeadlineError",
    "TaskEnding",
    "TaskError",
    "TaskEvent",
    "TaskFailedError",
    "TaskFinished",
    "TaskHandle",
    "TaskJoined",
    "TaskPaused",
    "TaskPriorityChanged",
    "TaskReopened",
    "TaskResumed",
    "TaskStatus",
    "TaskStranded",
    "TaskSubmitted",
    "TaskTimeoutError",
    "Tasks",
    "Tree",
    "UnknownTaskError",
    "Usage",
    "UsageTold",
    "Verbatim",
    "Verdict",
    "Web",
    "WebError",
    "Webhook",
    "WorkerSpec",
    "plan_schema",
    "start",
    "start_async",
]


if not TYPE_CHECKING:  # a type checker that saw this would let any name be imported

    def __getattr__(name: str) -> object:
        hint = f"{name} is in actors. Write: from actors import {name}"
        if name not in _actors.__all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        # An import asks with hasattr, and would show an error of its own: without the hint.
        frame = _currentframe()
        if frame and frame.f_back and frame.f_back.f_globals["__name__"] == "importlib._bootstrap":
            raise ImportError(hint, name=name)
        raise AttributeError(hint, name=name)
