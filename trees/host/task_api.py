"""Tasks of a ``Tree``: submitted, waited for, found again, their questions answered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from actors.messaging.reply import Reply, require_thread
from actors.runtime.system import System
from actors.tasks.execution.task_tracer import tracer_of
from actors.tasks.journal.metadata import has_metadata, wanted_metadata
from actors.tasks.journal.questions import Escalation
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.policy import Answer
from actors.tasks.model.report import Report
from actors.tasks.model.task import Task, TaskStatus
from actors.tasks.model.task_errors import EscalationError, StoreError, TaskError, UnknownTaskError
from actors.tasks.model.task_events import TaskSubmitted
from actors.tasks.model.task_ids import NEW_IDS, require_own
from actors.tasks.orchestration.delegation_calls import waiting_chain
from actors.tasks.orchestration.event_numbers import FIRST
from actors.tasks.orchestration.task_runtime import OrchestratorPort, task_runtime_of
from actors.tasks.orchestration.waits_across_trees import TaskWaits, waiting
from actors.validation.validation_messages import listed, require_path, require_seconds, type_phrase, value_phrase
from trees.ha.roles import Leadership
from trees.host.answers import require_question, respond
from trees.host.bulk import checked_tasks, checked_tasks_async, own_copy
from trees.host.submission import STORE_WAIT_S, Submission, came
from trees.host.task_handle import TaskHandle
from trees.host.task_removal import remove

_Origin: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], None, int, int]
"""Chain and lineage of those who wait for a task, its parent, its hops, and the rule of its parts' ids."""


class TaskApi:
    """The part of a ``Tree`` that has to do with tasks. What its methods raise stands at those of ``Tree``."""

    def __init__(self, leadership: Leadership) -> None:
        self._leadership = leadership

    def submit(self, task: Task | str, path: str | None) -> TaskHandle:
        """Give a task to a supervisor; returns when it is in the journal, and kept."""
        submission, id_ = self.submission(task, path, joined=False)
        return self._handle(submission, id_, submission.run(), submission.across)

    async def asubmit(self, task: Task | str, path: str | None) -> TaskHandle:
        """Do this on an event loop, without holding it up."""
        submission, id_ = self.submission(task, path, joined=False)
        return self._handle(submission, id_, await submission.arun(), submission.across)

    def submit_many(self, tasks: Iterable[Task | str], path: str | None) -> list[TaskHandle]:
        """Give many tasks to a supervisor, in one commit."""
        given = checked_tasks(tasks)
        submission = self.submission_of(given, path)
        new = submission.run()
        return [self._handle(submission, task.id or "", new) for task in given]

    async def asubmit_many(self, tasks: Iterable[Task | str], path: str | None) -> list[TaskHandle]:
        """Do this on an event loop, without holding it up."""
        given = await checked_tasks_async(tasks)
        submission = self.submission_of(given, path)
        new = await submission.arun()
        return [self._handle(submission, task.id or "", new) for task in given]

    def run(self, task: Task | str, timeout: float | None, path: str | None) -> Report:
        """Submit a task and wait for its report."""
        require_thread(self._system.root_path if path is None else path, "await tree.arun(...)")
        require_seconds("run", timeout)  # before anything of it is begun
        submission, id_ = self.submission(task, path, joined=True)
        with waiting(submission.across):
            return self._handle(submission, id_, submission.run()).result(timeout)

    async def arun(self, task: Task | str, path: str | None) -> Report:
        """Do this on an event loop, without holding it up."""
        submission, id_ = self.submission(task, path, joined=True)
        with waiting(submission.across):
            return await self._handle(submission, id_, await submission.arun())

    def task(self, id: str) -> TaskHandle:
        """Return the handle of a task that was submitted before."""
        _require_id(id)
        runtime = task_runtime_of(self._system)
        standing = runtime.store.standing(id)
        if standing is None or id in runtime.unkept:  # that may yet be refused
            raise UnknownTaskError(id)
        if standing.is_ == "damaged":
            runtime.store.read(id)  # says what is wrong, which is at hand
        return TaskHandle(runtime.port_at(standing.owner), id, found=standing.is_ == "finished")

    def remove(self, id: str) -> None:
        """Delete a task that has ended, is damaged, or whose supervisor is gone; returns when the store forgot it."""
        _require_id(id)
        require_thread(self._system.root_path, "await tree.aremove_task(...)")
        self._removed(id, (kept := remove(task_runtime_of(self._system), id)) is None or kept.wait(STORE_WAIT_S), kept)

    async def aremove(self, id: str) -> None:
        """Do this on an event loop, without holding it up."""
        _require_id(id)
        kept = remove(task_runtime_of(self._system), id)
        self._removed(id, kept is None or await came(kept, STORE_WAIT_S), kept)

    def tasks(self, status: TaskStatus | str | None, metadata: Mapping[str, Any] | None = None) -> list[TaskHandle]:
        """List the tasks that the store has, of all supervisors, those of earlier processes too."""
        wanted = None if status is None else _status(status)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ValueError(f"tasks: metadata: expected a dict, got {type_phrase(metadata)}. Write {{'customer': 7}}")
        labels = None if metadata is None else wanted_metadata(metadata)
        found: list[TaskHandle] = []
        for port in task_runtime_of(self._system).all_ports():
            store = port.runtime.store
            known = [*dict.fromkeys([*store.finished(port.path), *store.streams(port.path), *list(port.states)])]
            if labels is not None:
                known = [id_ for id_, first in store.firsts(known).items() if has_metadata(first, labels)]
            found += [TaskHandle(port, id_, found=True) for id_ in known]
        return found if wanted is None else [handle for handle in found if _stands_at(handle, wanted)]

    def resumed(self) -> list[TaskHandle]:
        """List the tasks that earlier processes had left unfinished and that go on in this one."""
        runtime = task_runtime_of(self._system)
        handles = []
        for id_ in list(runtime.before):
            first = next(iter(runtime.outline(id_)), None)
            port = runtime.ports.get(first.path) if isinstance(first, TaskSubmitted) and first.parent is None else None
            if port is not None:
                handles.append(TaskHandle(port, id_))
        return handles

    def registry(self, path: str | None) -> list[ExecutableInfo]:
        """List the workers that a supervisor can give work to, as they stand now."""
        return self.port(path).registry()

    def escalations(self) -> list[Escalation]:
        """List all open questions to people, the oldest first."""
        found = [each for port in list(task_runtime_of(self._system).ports.values()) for each in port.escalations()]
        return sorted(found, key=lambda each: each.raised_at)

    def respond(self, id: str, answer: Answer) -> None:
        """Answer a question."""
        require_question(id)
        for port in list(task_runtime_of(self._system).ports.values()):
            if port.question(id) is not None:
                respond(port, id, answer)
                return
        raise EscalationError(id, "no such question is open. It was answered, its time is up, or its task has ended")

    # -- what a batch asks as well -------------------------------------------------------------------------

    def port(self, path: str | None) -> OrchestratorPort:
        """Find the orchestrator of the supervisor at ``path``; None: the root."""
        system = self._system
        at = system.root_path if path is None else path
        require_path(at)
        port = task_runtime_of(system).ports.get(at)
        if port is not None:
            return port
        if at not in system.supervisors:
            raise system.no_supervisor(at)
        raise NoOrchestratorError(at, *(each.path for each in task_runtime_of(system).all_ports()))

    def submission(self, task: Task | str, path: str | None, *, joined: bool) -> tuple[Submission, str]:
        """Return what brings a task into the journal, and the id of the task."""
        if not isinstance(task, Task):
            task = Task(goal=task)  # whatever else it is, this says what is wrong with it
        require_own(task.id)
        task = own_copy(task)
        return self.submission_of([task], path, joined=joined), task.id or ""

    def submission_of(self, tasks: Sequence[Task], path: str | None, *, joined: bool = False) -> Submission:
        """Return what brings tasks into the journal that nobody changes any more."""
        port, system = self.port(path), self._system
        if system.is_down:
            raise system.down_error(port.path)
        chain, lineage = waiting_chain(port) if joined else ((), ())
        now, origin = port.time(), (chain, lineage, None, system.hops_of_here(), NEW_IDS)
        return Submission(port, [_first_record(system, port.path, now, task, origin) for task in tasks])

    def _handle(
        self, submission: Submission, id_: str, new: Mapping[str, Reply], across: TaskWaits | None = None
    ) -> TaskHandle:
        """The handle of a task that was submitted; one that was known may be of another supervisor."""
        return TaskHandle(submission.port, id_, new[id_], across=across) if id_ in new else self.task(id_)

    # -- within --------------------------------------------------------------------------------------------

    @property
    def _system(self) -> System:
        return self._leadership.running

    def _removed(self, id_: str, in_time: bool, kept: Reply | None) -> None:
        if not in_time:
            what = f"task {id_} is not deleted after {STORE_WAIT_S:g} s. It will be when the store can be written"
            raise StoreError(task_runtime_of(self._system).store_name, what)
        if kept is not None:
            kept.get()


def _require_id(id_: object) -> None:
    """Refuse what can be no id of a task: a handle, a ``Task``."""
    if not issubclass(type(id_), str):
        raise UnknownTaskError(value_phrase(id_))


def _first_record(system: System, path: str, now: float, task: Task, origin: _Origin) -> TaskSubmitted:
    deadline, id_, tracer = None if task.deadline_s is None else now + task.deadline_s, task.id or "", tracer_of(system)
    trace = "" if tracer is None else tracer.submit(id_, path)
    return TaskSubmitted(path, id_, now, task, deadline, *origin, trace, seq=FIRST, metadata=task.metadata)


def _status(word: TaskStatus | str) -> TaskStatus:
    try:
        return TaskStatus(word)
    except ValueError:
        known = [str(each) for each in TaskStatus]
        what = f"expected the status of a task, got {value_phrase(word)}"
        raise ValueError(f"tasks: {what}. Use {listed(known)}") from None


def _stands_at(handle: TaskHandle, wanted: TaskStatus) -> bool:
    try:
        return handle.status is wanted
    except (StoreError, UnknownTaskError):  # its journal is damaged, or is gone meanwhile: nobody can tell
        return False


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
