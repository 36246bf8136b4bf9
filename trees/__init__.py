"""What is declared, checked, started and shown: trees of supervisors and workers, and the tasks that they work on."""

from actors.tasks.errors import (
    AttemptTimeoutError,
    BreakerOpenError,
    BudgetExceededError,
    EscalationError,
    NoCapableWorkerError,
    PlanError,
    StoreError,
    SubtaskFailedError,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    TaskTimeoutError,
    UnknownTaskError,
)
from actors.tasks.executable import ExecutableInfo
from actors.tasks.node import Escalation
from actors.tasks.outcome import Done
from actors.tasks.planner import CapabilityPlanner, KeywordPlanner, ModelPlanner, StaticPlan
from actors.tasks.policy import (
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
from actors.tasks.report import Report, SubtaskReport
from actors.tasks.settings import Tasks
from actors.tasks.synthesis import Last, ModelSynthesizer, Verbatim
from actors.tasks.task import Budget, Plan, Subtask, SubtaskStatus, Task, TaskStatus, Usage
from trees.config import Backoff, Mailbox, SupervisorSpec, WorkerSpec
from trees.handle import TaskHandle
from trees.start import start, start_async
from trees.tree import Tree

__all__ = [
    "Approve",
    "AttemptTimeoutError",
    "Backoff",
    "Breaker",
    "BreakerOpenError",
    "Budget",
    "BudgetExceededError",
    "CapabilityPlanner",
    "Check",
    "Done",
    "Edit",
    "Escalate",
    "Escalation",
    "EscalationError",
    "ExecutableInfo",
    "Failover",
    "KeywordPlanner",
    "Last",
    "Mailbox",
    "ModelPlanner",
    "ModelSynthesizer",
    "NoCapableWorkerError",
    "Plan",
    "PlanError",
    "Reject",
    "Report",
    "Respond",
    "Retry",
    "StaticPlan",
    "StoreError",
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
    "TaskStatus",
    "TaskTimeoutError",
    "Tasks",
    "Tree",
    "UnknownTaskError",
    "Usage",
    "Verbatim",
    "Verdict",
    "WorkerSpec",
    "start",
    "start_async",
]
