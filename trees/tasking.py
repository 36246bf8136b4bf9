"""What a ``Tree`` can do with tasks: submit them, wait for them, find them again, answer their questions."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from actors.problems import listed, require_seconds, shown
from actors.reply import require_thread
from actors.tasks.errors import EscalationError, StoreError, TaskError, UnknownTaskError
from actors.tasks.events import TaskSubmitted
from actors.tasks.executable import ExecutableInfo
from actors.tasks.ground import Desk
from actors.tasks.naming import NEW_IDS, require_own
from actors.tasks.node import Escalation
from actors.tasks.policy import Answer
from actors.tasks.report import Report
from actors.tasks.task import Task, TaskStatus
from trees.ha.roles import Leading
from trees.handle import TaskHandle, known, respond, waiting_chain
from trees.submitting import Submission


class Tasking(Leading):
    """The part of a ``Tree`` that has to do with tasks."""

    def submit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Give a task to the supervisor at ``path`` (None: the root); returns when it is in the journal, and kept.

        Never waits for the orchestrator, so workers may call it; waits for the store, which takes milliseconds, at most
        10 seconds. On an event loop of yours write ``await tree.asubmit(...)``. An id that is known gives its handle,
        and starts nothing.

        Raises:
            ConfigError: the task is wrong.
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
            StoreError: the store could not keep it. It was not taken and never runs, unless ``may_be_taken`` is True.
            NotLeaderError: this process is a standby.
            TreeDownError: the whole tree is down.
        """
        submission, handle = self._submission(task, path, joined=False)
        return handle(new=submission.run())

    async def asubmit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """The same on an event loop, without holding it up."""
        submission, handle = self._submission(task, path, joined=False)
        return handle(new=await submission.arun())

    def run(self, task: Task | str, timeout: float | None = None, path: str | None = None) -> Report:
        """Submit a task and wait for its report; raises what ``TaskHandle.result`` raises.

        Args:
            task: or only its goal.
            timeout: seconds to wait; the task goes on when they are over. None: as long as it takes.
            path: of the supervisor; None: the root.
        """
        require_thread(path or self._up.root_path, "await tree.arun(...)")
        require_seconds("run", timeout)  # before anything of it is begun
        submission, handle = self._submission(task, path, joined=True)
        return handle(new=submission.run()).result(timeout)

    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """The same on an event loop, without holding it up."""
        submission, handle = self._submission(task, path, joined=True)
        return await handle(new=await submission.arun())

    def task(self, id: str) -> TaskHandle:
        """The handle of a task that was submitted before.

        Raises:
            UnknownTaskError: no task of this id is known.
        """
        ground = self._up.tasks
        if id in ground.submitting:
            raise UnknownTaskError(id)  # it may yet be refused
        for desk in ground.all_desks():
            try:
                return known(desk, id)
            except UnknownTaskError:
                continue
        left = ground.desk_of(id)
        if left is None:
            raise UnknownTaskError(id)
        return TaskHandle(left, id)  # its supervisor is not in the tree any more

    def tasks(self, status: TaskStatus | str | None = None) -> list[TaskHandle]:
        """The tasks that the store has, of all supervisors, those of earlier processes too.

        First those that have ended and are still kept, the oldest first, then the others; for each supervisor.

        Raises:
            ValueError: there is no such status.
        """
        wanted = None if status is None else _status(status)
        found: list[TaskHandle] = []
        for desk in self._up.tasks.all_desks():
            store = desk.ground.store
            known = dict.fromkeys(
                [*store.finished(desk.path), *list(desk.reports), *store.streams(desk.path), *list(desk.states)]
            )
            found += [TaskHandle(desk, id_, listed=True) for id_ in known]
        return found if wanted is None else [handle for handle in found if _stands_at(handle, wanted)]

    def resumed(self) -> list[TaskHandle]:
        """The tasks that earlier processes had left unfinished and that go on in this one, also where they have ended.

        A team's part of a task is not listed for itself. ``handle.kept`` tells what need not be done again.
        """
        ground = self._up.tasks
        handles = []
        for id_ in list(ground.before):
            first = next(iter(ground.store.read(id_)), None)
            desk = ground.desks.get(first.path) if isinstance(first, TaskSubmitted) and first.parent is None else None
            if desk is not None:
                handles.append(TaskHandle(desk, id_))
        return handles

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """Who can be given work by the supervisor at ``path`` (None: the root), as they stand now.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
        """
        return self._desk(path).registry()

    def escalations(self) -> list[Escalation]:
        """All open questions to people, the oldest first."""
        found = [each for desk in list(self._up.tasks.desks.values()) for each in desk.escalations()]
        return sorted(found, key=lambda each: each.raised_at)

    def respond(self, id: str, answer: Answer) -> None:
        """Answer one: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        Raises:
            EscalationError: there is no such open question, it was answered already, or this is no answer.
        """
        for desk in list(self._up.tasks.desks.values()):
            if desk.question(id) is not None:
                respond(desk, id, answer)
                return
        raise EscalationError(id, "no such question is open. It was answered, its time is up, or its task has ended")

    # -- within --------------------------------------------------------------------------------------------

    def _desk(self, path: str | None) -> Desk:
        system = self._up
        at = system.root_path if path is None else path
        desk = system.tasks.desks.get(at)
        if desk is not None:
            return desk
        if at not in system.supervisors:
            raise system.no_supervisor(at)
        raise NoOrchestratorError(at)

    def _submission(
        self, task: Task | str, path: str | None, *, joined: bool
    ) -> tuple[Submission, Callable[..., TaskHandle]]:
        """What brings a task into the journal, and what makes its handle then."""
        if not isinstance(task, Task):
            task = Task(goal=task)  # whatever else it is, this says what is wrong with it
        require_own(task.id)
        desk, system = self._desk(path), self._up
        if system.is_down:
            raise system.down_error(desk.path)
        chain, lineage = waiting_chain(desk) if joined else ((), ())
        id_ = task.id or uuid.uuid4().hex[:12]
        now = desk.time()
        deadline = None if task.deadline_s is None else now + task.deadline_s
        hops = system.hops_of_here()
        event = TaskSubmitted(desk.path, id_, now, task, deadline, chain, lineage, None, hops, NEW_IDS)

        def handle(*, new: bool) -> TaskHandle:
            return TaskHandle(desk, id_) if new else self.task(id_)  # it may be a task of another supervisor

        return Submission(desk, event), handle


def _status(word: TaskStatus | str) -> TaskStatus:
    try:
        return TaskStatus(word)
    except ValueError:
        known = [str(each) for each in TaskStatus]
        raise ValueError(f"tasks: {shown(word)} is no status of a task. Use {listed(known)}") from None


def _stands_at(handle: TaskHandle, wanted: TaskStatus) -> bool:
    try:
        return handle.status is wanted
    except StoreError:  # its journal is damaged: nobody can tell
        return False


class NoOrchestratorError(TaskError):
    """The supervisor was declared without ``tasks=``."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: has no orchestrator, so it takes no tasks. Declare it with tasks=Tasks()."
