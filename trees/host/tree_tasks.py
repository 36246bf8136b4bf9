"""``TreeTasks``: the methods of a ``Tree`` that submit tasks, find them again and answer their questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any

from actors.messaging.blocking import require_thread
from actors.tasks.engine.service import TaskService, service_of
from actors.tasks.journal.fold import has_metadata
from actors.tasks.journal.unit import Escalation
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.policy import Answer
from actors.tasks.model.report import Report
from actors.tasks.model.task import Task, TaskStatus
from actors.tasks.model.task_errors import StoreError, UnknownTaskError
from actors.validation.validation_messages import listed, require_seconds, value_phrase
from trees.ha.roles import Leadership
from trees.host.answers import open_questions, respond_to
from trees.host.batch import Batch, ItemT, OnError, target_of
from trees.host.submission import STORE_WAIT_S, Submission, own_task, own_tasks, scope_at
from trees.host.task_handle import TaskHandle, find_task, remove


class TreeTasks:
    """The part of a ``Tree`` that has to do with tasks."""

    _leadership: Leadership

    @property
    def _service(self) -> TaskService:
        return service_of(self._leadership.running)

    def _submission(self, tasks: list[Task], path: str | None, *, joined: bool = False) -> Submission:
        return Submission(scope_at(self._leadership.running, path), tasks, joined=joined)

    def _submitted(self, submission: Submission, task: Task) -> TaskHandle:
        id_ = task.id or ""
        if id_ not in submission.new:
            return self.task(id_)
        return TaskHandle(submission.scope, id_, submission.new[id_])

    def submit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Give a task to the supervisor at ``path`` (None: the root); returns when it is in the journal, and kept.

        Never waits for the orchestrator, so workers may call it; waits for the store for milliseconds, at most 10 s.
        On an event loop write ``await tree.asubmit(...)``. An id that is known gives its handle, and starts nothing:
        ``handle.is_known`` is true then. If the known task has another goal or other inputs, ``TaskKnownOtherwise`` is
        published as well.

        Raises:
            ConfigError: the task is wrong.
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: the supervisor has no ``tasks=``, or the id is in use by another supervisor of this tree.
            StoreError: the store could not keep it. It was not taken and never runs, unless ``may_be_taken`` is True.
            NotLeaderError: this process is a standby.
            TreeDownError: the whole tree is down.
        """
        own = own_task(task)
        return self._submitted(self._submission([own], path).run(), own)

    async def asubmit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Do this without holding an event loop up. Cancelled, it takes back what is not just being written."""
        own = own_task(task)
        return self._submitted(await self._submission([own], path).arun(), own)

    def submit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Give many tasks to a supervisor in one commit: all of them are kept, or none; their handles, in order.

        Otherwise as ``submit``. Wrong ones are named by their place: ``tasks[3]: Task.priority: ...``. An id that is
        known gives its handle, and starts nothing; so does a task that stands in the list twice.
        """
        given = own_tasks(tasks)
        submission = self._submission(given, path).run()
        return [self._submitted(submission, task) for task in given]

    async def asubmit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Do this on an event loop, without holding it up. Cancelled, it goes on: the tasks may have been taken."""
        return await asyncio.to_thread(self.submit_many, tasks, path)

    def run(self, task: Task | str, timeout: float | None = None, path: str | None = None) -> Report:
        """Submit a task and wait for its report; raises what ``TaskHandle.result`` raises.

        Args:
            task: or only its goal.
            timeout: seconds to wait; the task goes on when they are over. None: as long as it takes.
            path: of the supervisor; None: the root.
        """
        require_thread(self._leadership.running.root_path if path is None else path, "await tree.arun(...)")
        require_seconds("run", timeout)  # before anything of it is begun
        own = own_task(task)
        submission = self._submission([own], path, joined=True)
        return self._submitted(submission.run(), own).result(timeout)

    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """Do this on an event loop, without holding it up."""
        own = own_task(task)
        submission = self._submission([own], path, joined=True)
        return await self._submitted(await submission.arun(), own)

    def task(self, id: str) -> TaskHandle:
        """The handle of a task that was submitted before. Never waits, and reads nothing.

        Raises:
            UnknownTaskError: the store has no task of this id.
            StoreError: its journal is damaged.
        """
        return find_task(self._service, id)

    def retry(self, id: str) -> TaskHandle:
        """Try a task again that has failed, or was cancelled; see ``TaskHandle.retry``.

        Raises:
            UnknownTaskError, TaskError, StoreError: as there.
            NotLeaderError: this process is a standby.
        """
        return self.task(id).retry()

    def remove_task(self, id: str) -> None:
        """Delete a task that has ended, is damaged, or whose supervisor is gone; returns when the store forgot it.

        Its id may be used again then, and starts a new task. On an event loop of yours write
        ``await tree.aremove_task(id)``.

        Raises:
            UnknownTaskError: the store has no task of this id.
            TaskError: it goes on, or it is a team's part of another one.
            StoreError: that could not be written within 10 seconds.
            NotLeaderError: this process is a standby.
        """
        service = self._service
        require_thread(service.system.root_path, "await tree.aremove_task(...)")
        kept = remove(service, id)
        if kept is not None and not kept.wait(STORE_WAIT_S):
            what = f"task {id} is not deleted after {STORE_WAIT_S:g} s. It will be when the store can be written"
            raise StoreError(service.store_name, what)
        if kept is not None:
            kept.outcome()

    async def aremove_task(self, id: str) -> None:
        """Do this on an event loop, without holding it up."""
        await asyncio.to_thread(self.remove_task, id)

    def tasks(
        self, status: TaskStatus | str | None = None, *, metadata: dict[str, Any] | None = None
    ) -> list[TaskHandle]:
        """The tasks that the store has, of all supervisors, those of earlier processes too.

        First those that have ended and are still kept, the oldest first, then the others; for each supervisor.

        Args:
            status: only those that stand there.
            metadata: only tasks whose metadata has all of these entries, and none of their teams' parts. Those that
                have ended are read from the store: on an event loop, call it with ``asyncio.to_thread``.

        Raises:
            ValueError: there is no such status.
            ConfigError: this cannot be metadata.
            StoreError: they cannot be read.
        """
        if status is not None and status not in list(TaskStatus):
            what = f"tasks: expected the status of a task, got {value_phrase(status)}"
            raise ValueError(f"{what}. Use {listed(list(TaskStatus))}")
        labels = None if metadata is None else Task(goal="?", metadata=metadata).metadata
        service, found = self._service, list[TaskHandle]()
        store = service.store
        for owner in dict.fromkeys([*service.scopes, *store.owners().values()]):
            known = list(dict.fromkeys([*store.finished(owner), *store.streams(owner)]))
            if labels is not None:
                known = [id_ for id_, first in store.firsts(known).items() if has_metadata(first, labels)]
            found += [TaskHandle(service.scope_at(owner), id_) for id_ in known]
        return found if status is None else [handle for handle in found if _stands_at(handle, status)]

    def resumed(self) -> list[TaskHandle]:
        """The tasks that earlier processes had left unfinished and that go on in this one, also where they have ended.

        A team's part of a task is not listed for itself. ``handle.kept`` tells what need not be done again.
        """
        service = self._service
        firsts = service.store.firsts(list(service.before))
        return [
            TaskHandle(service.scopes[first.path], id_) for id_, first in firsts.items() if first.path in service.scopes
        ]

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """List the workers that the supervisor at ``path`` (None: the root) can give work to, as they stand now.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
        """
        return scope_at(self._leadership.running, path).registry()

    def escalations(self) -> list[Escalation]:
        """All open questions to people, the oldest first."""
        return open_questions(self._service)

    def respond(self, id: str | Escalation, answer: Answer) -> None:
        """Answer one: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        ``id`` is the question or its id. A question that has an equal answer already is left as it is.

        Raises:
            EscalationError: there is no such open question, it was answered otherwise, or this is no answer.
        """
        respond_to(self._service, id, answer)

    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        timeout_s: float | None = None,
        on_error: OnError = "keep",
        progress: Callable[..., object] | None = None,
        max_in_flight: int | None = None,
        key: Callable[[ItemT], str] | None = None,
    ) -> Batch[ItemT, Any]:
        """Give each item to a worker, and yield ``(item, result or error)`` for each, as they end.

        Iterate with ``for``, in a coroutine with ``async for``. Items are taken as there is room, so they may have no
        end, and memory stays flat. What is left when its loop is left is let go of (``batch.close()`` does the same).

        A worker with ``handle=`` or a class gets each item as a message. A crash over one counts in no restart window,
        and a worker that still handles one whose time is up is replaced. What takes tasks gets one for each item:
        ``str(task)`` is the item as text, ``context.inputs["item"]`` the item (of a dict its keys, too). An item that
        is a ``Task`` is given as it is.

        Args:
            items: any iterable; in a coroutine also an async one.
            to: a path of a worker, a pool or a team; or the id or a capability of a worker that takes tasks.
            timeout_s: seconds that one message may take, with its wait in the mailbox; of a task one attempt. ``None``:
                10 for a message, for a task its worker's, else 60. ``math.inf``: no limit.
            on_error: ``"keep"``: the error stands in the place of the result. ``"raise"``: the first one ends it.
            progress: ``progress(done, total)`` after each; ``total`` is None where the items have no length. One that
                raises is not called again (``CallbackRaised``).
            max_in_flight: items given at a time, at most. ``None``: as many as its target works on at once, and of
                tasks four times ``max_parallel``. Messages are never given beyond the members of a pool.
            key: ``key(item)`` is a text that makes the id of the item's task: an item whose key is known is not done
                again, also after a kill, if the tree has a store. Its result or error is that of then. Equal keys are
                one task. What was given goes on when the loop is left. ``None``: every item is a new task.

        Raises:
            UnknownPathError: there is no such path, worker or capability.
            TaskError: it is a supervisor without ``tasks=``.
            TypeError, ValueError: an argument is wrong; while iterating, a key is no text, or empty (TypeError).
            TreeDownError: while iterating, when all that was taken is accounted for: the whole tree is down.
        """
        return Batch(target_of(self._leadership.running, to, timeout_s, max_in_flight, key), items, on_error, progress)


def _stands_at(handle: TaskHandle, wanted: str) -> bool:
    try:
        return handle.status == wanted
    except (StoreError, UnknownTaskError):  # its journal is damaged, or is gone meanwhile: nobody can tell
        return False
