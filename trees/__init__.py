"""Trees of supervisors and workers, declared, checked, started and shown, and the tasks that they work on."""

from typing import TYPE_CHECKING

import actors as _actors
from actors import *  # noqa: F403 - every public name of the runtime is one of this package
from actors import __version__ as __version__
from actors.model.names import missing as _missing
from actors.tasks.journal.unit import Escalation
from actors.tasks.model import (
    Approve,
    AttemptTimeoutError,
    Breaker,
    Budget,
    BudgetExceededError,
    Check,
    Edit,
    Escalate,
    EscalationError,
    ExecutableInfo,
    Failover,
    JournalDamaged,
    LeaseLostError,
    NoCapableWorkerError,
    OrderDamaged,
    Plan,
    PlanError,
    Reject,
    Report,
    Respond,
    Retry,
    StoreBusyError,
    StoreError,
    StorePaused,
    StoreResumed,
    Subtask,
    SubtaskFailedError,
    SubtaskReport,
    SubtaskStatus,
    Task,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    TaskKnownOtherwise,
    TaskStatus,
    TaskStranded,
    TaskTimeoutError,
    UnknownTaskError,
    Verdict,
    offer_models,
)
from actors.tasks.planning.capability import CapabilityPlanner
from actors.tasks.planning.keyword import VERB_FAMILIES, KeywordPlanner
from actors.tasks.planning.model_planner import ModelPlanner, plan_schema
from actors.tasks.planning.planners import StaticPlan
from actors.tasks.planning.settings import Tasks
from actors.tasks.results.model_reviewer import ModelReviewer
from actors.tasks.results.synthesis import Last, ModelSynthesizer, Verbatim
from trees.agents.roles import recognised_model
from trees.declaration.command import Command
from trees.declaration.process import Process
from trees.declaration.ray import Ray
from trees.declaration.specs import Backoff, Mailbox, SupervisorSpec, WorkerSpec
from trees.ha.roles import NotLeaderError, RoleChanged, RoleLost
from trees.ha.settings import HA
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
    "Budget",
    "BudgetExceededError",
    "CapabilityPlanner",
    "Check",
    "Command",
    "Edit",
    "Escalate",
    "Escalation",
    "EscalationError",
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
    "Process",
    "Ray",
    "Reject",
    "Report",
    "Respond",
    "Retry",
    "RoleChanged",
    "RoleLost",
    "StaticPlan",
    "StoreBusyError",
    "StoreError",
    "StorePaused",
    "StoreResumed",
    "Subtask",
    "SubtaskFailedError",
    "SubtaskReport",
    "SubtaskStatus",
    "SupervisorSpec",
    "Task",
    "TaskCancelledError",
    "TaskDeadlineError",
    "TaskError",
    "TaskFailedError",
    "TaskHandle",
    "TaskKnownOtherwise",
    "TaskStatus",
    "TaskStranded",
    "TaskTimeoutError",
    "Tasks",
    "Tree",
    "UnknownTaskError",
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
__all__ += _actors.__all__


if not TYPE_CHECKING:  # a type checker that saw this would let any name be imported

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name)
