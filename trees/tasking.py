"""What a ``Tree`` can do with tasks: submit them, wait for them, find them again, answer their questions."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from actors.errors import UnknownPathError
from actors.tasks.errors import EscalationError, TaskError, UnknownTaskError
from actors.tasks.events import TaskSubmitted
from actors.tasks.executable import ExecutableInfo
from actors.tasks.ground import Desk
from actors.tasks.hears import Look
from actors.tasks.node import Escalation
from actors.tasks.policy import Answer
from actors.tasks.report import Report
from actors.tasks.task import Task, TaskStatus
from trees.handle import TaskHandle, known, respond, waiting_chain

if TYPE_CHECKING:
    from actors.system import System


class Tasking:
    """The part of a ``Tree`` that has to do with tasks."""

    _system: System

    def submit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Give a task to the supervisor at ``path`` (None: the root); returns when it is in the journal.

        Never waits for the orchestrator, so it may be called from async code and by workers. An id that is known gives
        its handle, and starts nothing.

        Raises:
            ConfigError: the task is wrong.
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
            TreeDownError: the whole tree is down.
        """
        return self._submit(task, path, joined=False)

    def run(self, task: Task | str, timeout: float | None = None, path: str | None = None) -> Report:
        """Submit a task and wait for its report; raises what ``TaskHandle.result`` raises.

        Args:
            task: or only its goal.
            timeout: seconds to wait; the task goes on when they are over. None: as long as it takes.
            path: of the supervisor; None: the root.
        """
        self._system.refuse_on_loop(path or self._system.root_path)
        return self._submit(task, path, joined=True).result(timeout)

    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """The same on an event loop, without holding it up."""
        return await self._submit(task, path, joined=True)

    def task(self, id: str) -> TaskHandle:
        """The handle of a task that was submitted before.

        Raises:
            UnknownTaskError: no task of this id is known.
        """
        for desk in list(self._system.tasks.desks.values()):
            try:
                return known(desk, id)
            except UnknownTaskError:
                continue
        raise UnknownTaskError(id)

    def tasks(self, status: TaskStatus | str | None = None) -> list[TaskHandle]:
        """The tasks that are known, of all supervisors: those that run, and the newest of those that have ended."""
        handles = [
            TaskHandle(desk, id_)
            for desk in list(self._system.tasks.desks.values())
            for id_ in dict.fromkeys([*list(desk.reports), *desk.ground.store.streams(desk.path), *list(desk.states)])
        ]
        return [handle for handle in handles if status is None or handle.status == TaskStatus(status)]

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """Who can be given work by the supervisor at ``path`` (None: the root), as they stand now.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
        """
        return self._desk(path).registry()

    def escalations(self) -> list[Escalation]:
        """All open questions to people, the oldest first."""
        found = [each for desk in list(self._system.tasks.desks.values()) for each in desk.escalations()]
        return sorted(found, key=lambda each: each.raised_at)

    def respond(self, id: str, answer: Answer) -> None:
        """Answer one: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        Raises:
            EscalationError: there is no such open question, it was answered already, or this is no answer.
        """
        for desk in list(self._system.tasks.desks.values()):
            if any(each.id == id for each in desk.escalations()):
                respond(desk, id, answer)
                return
        raise EscalationError(id, "no such question is open. It was answered, its time is up, or its task has ended")

    # -- within --------------------------------------------------------------------------------------------

    def _desk(self, path: str | None) -> Desk:
        system = self._system
        at = system.root_path if path is None else path
        desk = system.tasks.desks.get(at)
        if desk is not None:
            return desk
        if at not in system.supervisors:
            raise UnknownPathError(at, system.near(at))
        raise NoOrchestratorError(at)

    def _submit(self, task: Task | str, path: str | None, *, joined: bool) -> TaskHandle:
        if not isinstance(task, Task):
            task = Task(goal=task)  # whatever else it is, this says what is wrong with it
        desk, system = self._desk(path), self._system
        if system.is_down:
            raise system.down_error(desk.path)
        chain, lineage = waiting_chain(desk) if joined else ((), ())
        id_ = task.id or uuid.uuid4().hex[:12]
        now = desk.time()
        deadline = None if task.deadline_s is None else now + task.deadline_s
        hops = system.hops_of_here()
        event = TaskSubmitted(desk.path, id_, now, task, deadline, chain, lineage, None, hops)
        if not desk.ground.store.create(id_, desk.path, event):
            return self.task(id_)  # it may be a task of another supervisor
        kept = desk.ground.store.flush()
        if kept is not None:
            kept.get()
        handle = TaskHandle(desk, id_, new=True)
        system.publish(event)
        desk.tell(Look(id_))
        return handle


class NoOrchestratorError(TaskError):
    """The supervisor was declared without ``tasks=``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: has no orchestrator, so it takes no tasks. Declare it with tasks=Tasks()."
