"""``TreeTasks``: the methods of a ``Tree`` that submit tasks, find them again and answer their questions."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from functools import wraps
from inspect import iscoroutinefunction, signature
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from actors.messaging.blocking import require_thread
from actors.messaging.reply import Reply
from actors.tasks.engine.waits_across_trees import waiting
from actors.tasks.journal.metadata import has_metadata, wanted_metadata
from actors.tasks.journal.questions import Escalation
from actors.tasks.model.executable import ExecutableInfo
from actors.tasks.model.policy import Answer
from actors.tasks.model.report import Report
from actors.tasks.model.task import Task, TaskStatus
from actors.tasks.model.task_errors import StoreError, UnknownTaskError
from actors.validation.validation_messages import listed, require_seconds, type_phrase, value_phrase
from trees.host.answers import open_questions, respond_to
from trees.host.batch import Batch, ItemT, OnError
from trees.host.batch_targets import target_of
from trees.host.bulk import checked_tasks, checked_tasks_async
from trees.host.submission import STORE_WAIT_S, came
from trees.host.task_api import TaskApi, require_id
from trees.host.task_handle import TaskHandle
from trees.host.task_removal import remove

P = ParamSpec("P")
ReturnT = TypeVar("ReturnT")


def _takes_a_task(method: Callable[P, ReturnT]) -> Callable[P, ReturnT]:
    """Decorate a method that takes a task, so that a field of the task given to it says where it belongs."""
    own = frozenset(signature(method).parameters)

    def require_own(given: dict[str, Any]) -> None:
        fields = [name for name in given if name not in own and name in Task.model_fields and name != "goal"]
        if fields:
            named = ", ".join(f"{name}=..." for name in fields)
            write = f"Write tree.{method.__name__}(Task('the goal', {named}))"
            raise TypeError(f"{method.__name__}: {named.removesuffix('=...')} belongs to the task. {write}.")

    if iscoroutinefunction(method):

        @wraps(method)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            require_own(kwargs)
            return await method(*args, **kwargs)

        return cast("Callable[P, ReturnT]", awaited)

    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> ReturnT:
        require_own(kwargs)
        return method(*args, **kwargs)

    return called


class TreeTasks:
    """The part of a ``Tree`` that has to do with tasks."""

    _tasks: TaskApi

    @_takes_a_task
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
        submission, id_ = self._tasks.submission(task, path, joined=False)
        return self._tasks.handle(submission, id_, submission.run(), submission.across)

    @_takes_a_task
    async def asubmit(self, task: Task | str, path: str | None = None) -> TaskHandle:
        """Do this without holding an event loop up. Cancelled, it takes back what is not just being written."""
        submission, id_ = self._tasks.submission(task, path, joined=False)
        return self._tasks.handle(submission, id_, await submission.arun(), submission.across)

    def submit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Give many tasks to a supervisor in one commit: all of them are kept, or none; their handles, in order.

        Otherwise as ``submit``. Wrong ones are named by their place: ``tasks[3]: Task.priority: ...``. An id that is
        known gives its handle, and starts nothing; so does a task that stands in the list twice.
        """
        given = checked_tasks(tasks)
        submission = self._tasks.submission_of(given, path)
        new = submission.run()
        return [self._tasks.handle(submission, task.id or "", new) for task in given]

    async def asubmit_many(self, tasks: Iterable[Task | str], path: str | None = None) -> list[TaskHandle]:
        """Do this on an event loop, without holding it up."""
        given = await checked_tasks_async(tasks)
        submission = self._tasks.submission_of(given, path)
        new = await submission.arun()
        return [self._tasks.handle(submission, task.id or "", new) for task in given]

    @_takes_a_task
    def run(self, task: Task | str, timeout: float | None = None, path: str | None = None) -> Report:
        """Submit a task and wait for its report; raises what ``TaskHandle.result`` raises.

        Args:
            task: or only its goal.
            timeout: seconds to wait; the task goes on when they are over. None: as long as it takes.
            path: of the supervisor; None: the root.
        """
        require_thread(self._tasks.system.root_path if path is None else path, "await tree.arun(...)")
        require_seconds("run", timeout)  # before anything of it is begun
        submission, id_ = self._tasks.submission(task, path, joined=True)
        with waiting(submission.across):
            return self._tasks.handle(submission, id_, submission.run()).result(timeout)

    @_takes_a_task
    async def arun(self, task: Task | str, path: str | None = None) -> Report:
        """Do this on an event loop, without holding it up."""
        submission, id_ = self._tasks.submission(task, path, joined=True)
        with waiting(submission.across):
            return await self._tasks.handle(submission, id_, await submission.arun())

    def task(self, id: str) -> TaskHandle:
        """The handle of a task that was submitted before. Never waits, and reads nothing.

        Raises:
            UnknownTaskError: the store has no task of this id.
            StoreError: its journal is damaged.
        """
        return self._tasks.task(id)

    def retry(self, id: str) -> TaskHandle:
        """Try a task again that has failed, or was cancelled; see ``TaskHandle.retry``.

        Raises:
            UnknownTaskError, TaskError, StoreError: as there.
            NotLeaderError: this process is a standby.
        """
        return self._tasks.task(id).retry()

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
        require_id(id)
        require_thread(self._tasks.system.root_path, "await tree.aremove_task(...)")
        kept = remove(self._tasks.runtime, id)
        self._removed(id, kept is None or kept.wait(STORE_WAIT_S), kept)

    async def aremove_task(self, id: str) -> None:
        """Do this on an event loop, without holding it up."""
        require_id(id)
        kept = remove(self._tasks.runtime, id)
        self._removed(id, kept is None or await came(kept, STORE_WAIT_S), kept)

    def tasks(
        self, status: TaskStatus | str | None = None, *, metadata: Mapping[str, Any] | None = None
    ) -> list[TaskHandle]:
        """The tasks that the store has, of all supervisors, those of earlier processes too.

        First those that have ended and are still kept, the oldest first, then the others; for each supervisor.

        Args:
            status: only those that stand there.
            metadata: only tasks whose metadata has all of these entries, and none of their teams' parts. Those that
                have ended are read from the store: on an event loop, call it with ``asyncio.to_thread``.

        Raises:
            ValueError: there is no such status, or ``metadata`` is no dict.
            ConfigError: nobody can have that for metadata.
            StoreError: they cannot be read.
        """
        wanted = None if status is None else _status(status)
        if metadata is not None and not isinstance(metadata, Mapping):
            raise ValueError(f"tasks: metadata: expected a dict, got {type_phrase(metadata)}. Write {{'customer': 7}}")
        labels = None if metadata is None else wanted_metadata(metadata)
        found: list[TaskHandle] = []
        service = self._tasks.runtime
        store = service.store
        owners = dict.fromkeys([*service.scopes, *store.owners().values()])
        for owner in owners:
            port = service.scope_at(owner)
            known = [*dict.fromkeys([*store.finished(owner), *store.streams(owner)])]
            if labels is not None:
                known = [id_ for id_, first in store.firsts(known).items() if has_metadata(first, labels)]
            found += [TaskHandle(port, id_, found=True) for id_ in known]
        return found if wanted is None else [handle for handle in found if _stands_at(handle, wanted)]

    def resumed(self) -> list[TaskHandle]:
        """The tasks that earlier processes had left unfinished and that go on in this one, also where they have ended.

        A team's part of a task is not listed for itself. ``handle.kept`` tells what need not be done again.
        """
        service = self._tasks.runtime
        handles = []
        for id_, first in service.store.firsts(list(service.before)).items():
            scope = service.scopes.get(first.path)
            if scope is not None:
                handles.append(TaskHandle(scope, id_))
        return handles

    def registry(self, path: str | None = None) -> list[ExecutableInfo]:
        """List the workers that the supervisor at ``path`` (None: the root) can give work to, as they stand now.

        Raises:
            UnknownPathError: no supervisor of this path is listed now.
            TaskError: it has no ``tasks=``.
        """
        return self._tasks.port(path).registry()

    def escalations(self) -> list[Escalation]:
        """All open questions to people, the oldest first."""
        return open_questions(self._tasks.runtime)

    def respond(self, id: str | Escalation, answer: Answer) -> None:
        """Answer one: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        ``id`` is the question or its id. A question that has an equal answer already is left as it is.

        Raises:
            EscalationError: there is no such open question, it was answered otherwise, or this is no answer.
        """
        respond_to(self._tasks.runtime, id, answer)

    @overload
    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        on_error: Literal["raise"],
        timeout_s: float | None = ...,
        progress: Callable[..., object] | None = ...,
        max_in_flight: int | None = ...,
        key: Callable[[ItemT], str] | None = ...,
    ) -> Batch[ItemT, Any]: ...

    @overload
    def map(
        self,
        items: Iterable[ItemT] | AsyncIterable[ItemT],
        to: str,
        *,
        on_error: OnError = ...,
        timeout_s: float | None = ...,
        progress: Callable[..., object] | None = ...,
        max_in_flight: int | None = ...,
        key: Callable[[ItemT], str] | None = ...,
    ) -> Batch[ItemT, Any | Exception]: ...

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
            TypeError, ValueError: an argument is wrong; while iterating, a key is no text, or empty.
            TreeDownError: while iterating, when all that was taken is accounted for: the whole tree is down.
        """
        return Batch(target_of(self._tasks, to, timeout_s, max_in_flight, key), items, on_error, progress)

    def _removed(self, id_: str, in_time: bool, kept: Reply | None) -> None:
        if not in_time:
            what = f"task {id_} is not deleted after {STORE_WAIT_S:g} s. It will be when the store can be written"
            raise StoreError(self._tasks.runtime.store_name, what)
        if kept is not None:
            kept.get()


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
