"""Way of tasks into a tree, and back to their handles: for a ``Tree``, its batches and its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from actors.messaging.reply import Reply
from actors.model.raised import is_a
from actors.runtime.system import System
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.service import TaskService, service_of
from actors.tasks.engine.task_waits import waiting_chain
from actors.tasks.engine.waits_across_trees import TaskWaits
from actors.tasks.execution.task_tracer import tracer_of
from actors.tasks.model.task import Task
from actors.tasks.model.task_errors import TaskError, UnknownTaskError
from actors.tasks.model.task_events import TaskSubmitted
from actors.tasks.model.task_ids import require_own
from actors.validation.validation_messages import require_path, value_phrase
from trees.ha.roles import Leadership
from trees.host.bulk import own_copy
from trees.host.submission import Submission
from trees.host.task_handle import TaskHandle

_Origin: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], int]
"""Chain and lineage of those who wait for a task, and its hops."""


class TaskApi:
    """Submissions and handles of the tasks of one tree. What its methods raise stands at those of ``Tree``."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership

    @property
    def system(self) -> System:
        """System that runs here; raises where another process leads."""
        return self._leadership.running

    @property
    def runtime(self) -> TaskService:
        """State that all tasks of the tree share."""
        return service_of(self.system)

    def task(self, id: str) -> TaskHandle:
        """Return the handle of a task that was submitted before."""
        require_id(id)
        runtime = self.runtime
        standing = runtime.store.standing(id)
        if standing is None or id in runtime.unkept:  # that may yet be refused
            raise UnknownTaskError(id)
        if standing.is_ == "damaged":
            runtime.store.read(id)  # says what is wrong, which is at hand
        return TaskHandle(runtime.scope_at(standing.owner), id, found=standing.is_ == "finished")

    def port(self, path: str | None) -> Scope:
        """Find the orchestrator of the supervisor at ``path``; None: the root."""
        system = self.system
        at = system.root_path if path is None else path
        require_path(at)
        port = service_of(system).scopes.get(at)
        if port is not None:
            return port
        if at not in system.supervisors:
            raise system.no_supervisor(at)
        raise NoOrchestratorError(at, *service_of(system).scopes)

    def submission(self, task: Task | str, path: str | None, *, joined: bool) -> tuple[Submission, str]:
        """Return what brings a task into the journal, and the id of the task."""
        if not isinstance(task, Task):
            task = Task(goal=task)  # whatever else it is, this says what is wrong with it
        require_own(task.id)
        task = own_copy(task)
        return self.submission_of([task], path, joined=joined), task.id or ""

    def submission_of(self, tasks: Sequence[Task], path: str | None, *, joined: bool = False) -> Submission:
        """Return what brings tasks into the journal that nobody changes any more; ``joined``: this code waits."""
        port, system = self.port(path), self.system
        if system.is_down:
            raise system.down_error(port.path)
        chain, lineage = waiting_chain(port) if joined else ((), ())
        now, origin = port.time(), (chain, lineage, system.hops_of_here())
        return Submission(port, [_first_record(system, port.path, now, task, origin) for task in tasks])

    def handle(
        self, submission: Submission, id_: str, new: Mapping[str, Reply], across: TaskWaits | None = None
    ) -> TaskHandle:
        """Return the handle of a task that was submitted."""
        return (
            TaskHandle(submission.port, id_, new[id_], across=across, is_known=False) if id_ in new else self.task(id_)
        )


def require_id(id_: object) -> None:
    """Refuse what can be no id of a task: a handle, a ``Task``."""
    if not is_a(id_, str):
        raise UnknownTaskError(value_phrase(id_))


def _first_record(system: System, path: str, now: float, task: Task, origin: _Origin) -> TaskSubmitted:
    deadline, id_, tracer = None if task.deadline_s is None else now + task.deadline_s, task.id or "", tracer_of(system)
    trace = "" if tracer is None else tracer.submit(id_, path)
    return TaskSubmitted(path, id_, now, task, deadline, *origin, trace, seq=1, metadata=task.metadata)


class NoOrchestratorError(TaskError):
    """The supervisor was declared without ``tasks=``."""

    def __init__(self, path: str, *others: str) -> None:
        super().__init__(path, *others)
        self.path = path
        self.others = others
        """Supervisors of the same tree that take tasks."""

    def __str__(self) -> str:
        others = ", ".join(self.others)
        hint = f"Say with path= which supervisor does it ({others}), or declare it" if others else "Declare it"
        return f"{self.path}: has no orchestrator, so it takes no tasks. {hint} with tasks=Tasks()."
