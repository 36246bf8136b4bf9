"""``TaskHandle``: what a host holds of one task, from its submission to its report and beyond.

It reads what the service of tasks shows (``actors.tasks.engine.service``) and what is in the journal, so it never waits
for the engine, and works while that is being restarted. May be used from any
thread; ``await handle`` from any event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal

from actors.messaging.blocking import require_thread
from actors.messaging.envelope import own_error
from actors.messaging.reply import Reply
from actors.tasks.engine.orders import CANCEL, PRIORITY, RETRY, Order
from actors.tasks.engine.scope import Scope
from actors.tasks.engine.service import TaskService
from actors.tasks.engine.task_waits import order_reply, wait_for_task
from actors.tasks.journal.fold import fold
from actors.tasks.journal.unit import Escalation
from actors.tasks.journal.view import TaskView
from actors.tasks.model import (
    SUCCEEDED,
    Answer,
    Report,
    StoreError,
    Task,
    TaskError,
    TaskFinished,
    TaskStatus,
    TaskTimeoutError,
    UnknownTaskError,
)
from actors.validation.validation_messages import missing_name, require_seconds, require_text, value_phrase
from trees.host.answers import open_questions, respond_to
from trees.host.events import Questions, TaskEvents, TextStream
from trees.host.submission import STORE_WAIT_S
from trees.views.run_text import draw
from trees.views.run_view import view_of

_REPORTED: Final = ("results", "output", "failed", "skipped", "error", "usage", "graph", "timings")
_MEANT: Final = {each: f"Write handle.result().{each}." for each in _REPORTED} | dict.fromkeys(
    ("get", "wait", "join", "run"), "Write handle.result(), or await handle."
)


class TaskHandle:
    """One task of a tree. Two handles of one task are equal."""

    def __init__(self, port: Scope, id_: str, waits: Reply | None = None) -> None:
        self.id = id_
        self.is_known = waits is None
        """False: this handle was returned by the submission that began the task. True: the task was there before."""
        self._port, self._service = port, port.service
        self._waits = waits
        """Completed with the report. A handle of a known task asks for it when it is used: it may be one of many."""

    def __repr__(self) -> str:
        try:
            return f"<TaskHandle {self.id} {self.status}>"
        except TaskError as error:  # the store has let go of it, or its journal is damaged
            return f"<TaskHandle {self.id} {type(error).__name__}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TaskHandle) and (self.id, self._service) == (other.id, other._service)

    def __hash__(self) -> int:
        return hash((self.id, self._service))

    if not TYPE_CHECKING:  # a type checker that saw this would let anything be read

        def __getattr__(self, name: str) -> object:
            raise missing_name(self, name, _MEANT)

    @property
    def _done(self) -> Reply:
        if self._waits is None:
            self._waits = self._service.waiting(self.id)
        return self._waits

    @property
    def status(self) -> TaskStatus:
        """Where it stands now.

        Raises:
            UnknownTaskError: the store has let go of it before anybody has asked this handle for its end.
            StoreError: its journal is damaged.
        """
        service = self._service
        is_held = service.run_of(self.id) is not None
        report = service.reports.get(self.id) or (None if is_held else self._heard)
        if report is not None:
            return report.status
        last = None if is_held else service.store.last(self.id)
        if isinstance(last, TaskFinished):
            return last.status
        state = service.state(self.id)
        if state.events == 1 and not is_held:
            return TaskStatus.PENDING  # the engine has not looked at it yet
        return TaskStatus.RUNNING if state.status.is_final else state.status  # it has ended: that is yet to be kept

    @property
    def _heard(self) -> Report | None:
        """The report, if this handle has got it: the store may have forgotten the task by now."""
        return self._waits.get() if self._waits is not None and self._waits.succeeded else None

    @property
    def report(self) -> Report | None:
        """Report of the task; None as long as it has not ended.

        Where it ended long ago it is read from the store: on an event loop, ``await`` the handle first.
        """
        return self._heard or self._service.report(self.id)

    @property
    def kept(self) -> list[str]:
        """The subtasks that were done when this process began: their results are kept, and they do not run again.

        Those of a team's part as ``team/subtask``, where the team was not done. Empty for a task of this process. A
        reviewer may still send them back.
        """
        service = self._service
        number = service.before.get(self.id)
        if number is None:
            return []
        return [
            unit.path
            for unit in fold(self.id, service.store.read(self.id)[:number]).units.values()
            if unit.status is SUCCEEDED and unit.role == "work" and unit.asker is None
            if not any(each.status is SUCCEEDED or (each.course and not each.course.plan) for each in unit.over)
        ]

    @property
    def task(self) -> Task:
        """Task that was submitted. Large inputs of it may have to be read from the store, which waits for that.

        Raises:
            UnknownTaskError, StoreError: as ``status``.
        """
        return self._service.state(self.id).task

    # -- waiting -------------------------------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> Report:
        """Wait for its end.

        Args:
            timeout: seconds; None: as long as it takes. The task goes on when it is over.

        Raises:
            TaskFailedError: it has failed (``PlanError``, ``BudgetExceededError`` ...); ``.report`` has what was done.
            TaskCancelledError: it was cancelled; ``.report`` has what was done.
            TaskTimeoutError: it has not ended within ``timeout`` seconds.
            UnknownTaskError: it was removed, or its time in the store was over, before anybody asked.
            TreeDownError: the tree is down; the task stays unfinished in its store.
            ActorStoppedError: called by a worker that is to stop before the task's supervisor is started again.
            RecursionDetectedError: called by a worker that the task's own supervisor waits for, or that could only wait
            for ever: the task needs workers that wait for this one, or for each other.
            ValueError: ``timeout`` is no number of seconds.
            BlockingAskError: called on the event loop that the task needs; await the handle there.
        """
        require_seconds(f"task {self.id}: result", timeout)
        if not self._done.done:
            require_thread(self._port.path, "await handle")
            with self._waiting() as waits:
                if waits.wait(timeout):
                    waits.outcome()
                elif not self._done.done:
                    raise own_error(TaskTimeoutError(self.id, timeout or 0.0, self._waits_for()))
        return self._outcome()

    def _waits_for(self) -> str:
        """Say what the task waits for, where a longer wait does not help."""
        service = self._service
        if asked := next(iter(self.escalations), None):
            return f"A person is asked: {asked.question} Answer it: handle.respond({asked.id!r}, ...)."
        if service.durable is not None and service.durable.paused_s is not None:
            return "Its store cannot be written to, and it goes on when that is possible again: see StorePaused."
        run = service.run_of(self.id)
        why = run.engine.limits.put_off(run) if run is not None else ""
        return f"It goes on when it can: {why}." if why else ""

    def __await__(self) -> Generator[Any, None, Report]:
        """Wait for its end on an event loop; raises as ``result`` does."""
        if self._waits is None:  # its report may have to be read from the store
            self._waits = yield from asyncio.to_thread(self._service.waiting, self.id).__await__()
        if not self._done.done:
            with self._waiting() as waits:
                yield from waits.__await__()
        return self._outcome()

    def _outcome(self) -> Report:
        report: Report = self._done.get()
        if report.error is not None:
            raise own_error(report.error.with_traceback(None))
        return report

    @contextmanager
    def _waiting(self) -> Iterator[Reply]:
        """Yield what to wait for: the end of the task, and for an attempt also until it has its slot again."""
        joined = wait_for_task(self._port, self.id, self._done)
        try:
            yield self._done if joined is None else joined
        finally:
            if joined is not None:
                joined.complete()

    # -- changing ------------------------------------------------------------------------------------------

    def cancel(self, reason: str = "") -> Reply:
        """End it: what waits does not start, what runs is ended, what was done is undone where that is declared.

        Returns at once, before that is recorded: ``status`` and ``result()`` tell when it has ended. Where its
        orchestrator is down that happens as soon as it is up again; where the tree ends before that, the process that
        goes on with the task does it. Only if the process is killed before it is recorded, it is lost, and the task
        goes on in the next one.

        Returns:
            A future, which can be awaited: done once the cancel is recorded, so that no crash loses it, or the task has
            ended. ``handle.cancel().get()`` waits for that, as long as it takes to write to the store. It fails where
            the tree has ended before (``TreeDownError``), and the order was not kept.

        Raises:
            TypeError: ``reason`` is no text.
            TreeDownError: the tree has ended, and the task goes on in another process: cancel it there.
        """
        words = require_text(f"task {self.id}: cancel: reason:", reason, "Say it in words")
        recorded = order_reply(self._port)
        if self._service.report(self.id) is not None:  # of its last end: it may have been tried again
            recorded.complete()
        else:
            self._port.port.order(Order(self.id, CANCEL, {"reason": words}, recorded))
        return recorded

    def retry(self) -> TaskHandle:
        """Try a task again that has failed, or was cancelled: what is done is kept, all else begins anew.

        What begins anew has another idempotency key, and its ladder, its budget and a relative deadline begin again. A
        plan that failed is made again. Returns when that is recorded. On an event loop of yours write
        ``await asyncio.to_thread(handle.retry)``.

        Returns:
            A fresh handle. This one keeps the former end in ``report`` and ``result()`` if it had waited for that; its
            ``status`` is the present one.

        Raises:
            TaskError: the task has succeeded, or has not ended.
            UnknownTaskError: the store has no task of this id any more.
            StoreError: that could not be written within 10 seconds.
            TreeDownError: as ``cancel``.
        """
        if self._service.store.standing(self.id) is None:
            raise UnknownTaskError(self.id)
        status = self.status
        if status not in {TaskStatus.FAILED, TaskStatus.CANCELLED}:
            raise TaskError(
                f"task {self.id}: cannot be tried again: it is {status}. Only what failed or was cancelled can"
            )
        require_thread(self._port.path, "await asyncio.to_thread(handle.retry)")
        recorded = order_reply(self._port)
        self._port.port.order(Order(self.id, RETRY, recorded=recorded))
        until_written(self._service, recorded, f"task {self.id}: the retry was not written in time")
        return TaskHandle(self._port, self.id)

    def set_priority(self, priority: int) -> None:
        """Give it another priority; smaller is sooner. A task that has ended keeps the one that it had.

        It counts for what waits, for what runs (which something more urgent may interrupt) and for its teams' parts,
        and is recorded: whoever goes on with the task has it. Where its orchestrator is down that happens as soon as
        it is up again.

        Raises:
            ConfigError: ``priority`` is no int.
            TreeDownError: as ``cancel``.
        """
        checked = Task(goal=self.id, priority=priority).priority
        if self._service.report(self.id) is None:
            self._port.port.order(Order(self.id, PRIORITY, {"priority": checked}))

    @property
    def escalations(self) -> list[Escalation]:
        """Open questions to people, those of its teams too, the oldest first."""
        return open_questions(self._service, self.id)

    def questions(self) -> Questions:
        """Its questions to people, and those of its teams, each once, as ``Escalation``; ``for`` and ``async for``.

        The open ones come first, then each new one as it is asked: by a worker, a ladder, an undo, a planner, a
        reviewer or a synthesizer. What was answered meanwhile is left out. It ends with the task, and when the tree is
        stopped. ::

            for question in handle.questions():
                handle.respond(question.id, Approve())

        Raises:
            TreeDownError: while it is read: the tree has ended, and nobody had asked for that.
            ActorStoppedError: as ``result``, while it is read.
        """
        return Questions(self._port, self.id)

    def respond(self, id: str | Escalation, answer: Answer) -> None:
        """Answer one of them: ``Approve()``, ``Edit(value)``, ``Respond(text)`` or ``Reject(reason)``.

        Returns at once, as ``cancel``: only if the process is killed before the answer is recorded, it is asked again.
        ``id`` is the question or its id. A question that has an equal answer already is left as it is.

        Raises:
            EscalationError: it has no such open question, it was answered otherwise, or this is no answer.
        """
        respond_to(self._service, id, answer, self.id)

    # -- looking -------------------------------------------------------------------------------------------

    def events(self, *, after: int | None = None, new: bool = False, deep: bool = True) -> TaskEvents:
        """Everything that has happened and happens to it, in order, up to its end; ``for`` and ``async for``.

        It is read once: to read from the beginning again, call ``events()`` again. ``next(events)`` and
        ``anext(events)`` work, too, and a loop goes on from there. After a cancelled wait or an error of the store the
        next call goes on with the next event. One iterator has one consumer at a time: two threads need an iterator
        each, and a Ctrl-C inside ``next`` may lose the events that it had found. ``events.close()`` ends it, also for
        one who waits on another thread. Whoever still reads a task that was removed may read on in the next one of its
        id.

        What happens inside its teams is among it: those events have the path of the team, and as ``subtask`` a path in
        the task. The last event is its own ``TaskFinished``. It ends without that where the store has let go of the
        task, and when the tree is stopped: then ``handle.report`` is None. Each event has a number, ``event.seq``,
        which is the same for every reader and in every process.

        Args:
            after: only what comes after the event of this number, such as the ``Last-Event-ID`` of a client that comes
                back. None: from the beginning.
            new: only what happens in this process, and not what earlier ones have recorded.
            deep: False: nothing of what happens inside its teams.

        Raises:
            ValueError: ``after`` is no number of an event.
            TreeDownError: while it is read: the tree has ended, and nobody had asked for that.
            ActorStoppedError: as ``result``, while it is read.
        """
        if after is not None and (type(after) is not int or after < 0):
            what = f"events: after={value_phrase(after)} is not a number of an event"
            raise ValueError(f"{what}. Give the seq of the last one that was seen, or 0")
        earlier = self._service.before.get(self.id, 0) if new else 0
        return TaskEvents(self._port, self.id, deep=deep, after=max(after or 0, earlier))

    def stream(self, subtask: str | None = None) -> TextStream:
        """Text as its agents stream it (``context.stream``), and nothing else; ``for`` and ``async for``.

        It ends with the task, or with the subtask, and when the tree is stopped. What was streamed before is among it,
        as far as there is room: the newest 131,072 characters of a task, of the 64 tasks that have streamed last. Who
        reads more slowly than it comes loses the oldest; ``stream.lost`` counts what was lost. Which attempt says what,
        and calls of tools, is told by ``handle.events()``: ``SubtaskStreamed``. None of it is kept.

        Args:
            subtask: only what this one streams; of a team all that its members do. None: all.

        Raises:
            TreeDownError: while it is read: the tree has ended, and nobody had asked for that.
            ActorStoppedError: as ``result``, while it is read.
        """
        return TextStream(self._port, self.id, subtask)

    def dump(self, format: Literal["text", "mermaid", "json"] = "text", *, deep: bool = True) -> str:
        """The run as it stands now: a line for each subtask, the graph, or all there is to know.

        What happens inside its teams stands under the subtask that they were given.

        Args:
            format: what it becomes.
            deep: False: nothing of what happens inside its teams.

        Raises:
            DumpFormatError: no such format.
            UnknownTaskError, StoreError: as ``status``.
        """
        service = self._service
        task = TaskView(service.system.root_path, service.state(self.id), service=service)
        return draw(view_of(task, service.time(), deep=deep), format)


def until_written(service: TaskService, kept: Reply | None, late: str) -> None:
    """Wait until the store has written something; ``late`` says what it has not written after ``STORE_WAIT_S``.

    Raises:
        StoreError: it could not be written, or not in time.
    """
    if kept is not None:
        if not kept.wait(STORE_WAIT_S):
            raise StoreError(service.store_name, late)
        kept.outcome()


def remove(service: TaskService, id_: str) -> Reply | None:
    """Have a task forgotten: one that has ended, or one that nobody can go on with. None: it is; else it is written.

    A task that goes on is refused: it is cancelled first, so that what it did is undone. A task whose supervisor is not
    in the tree any more (``TaskStranded``) does not go on, because nobody could cancel it.

    ``TaskService.removing`` is held from the look at a task to its removal. Else a second removal of the id, which had
    looked before the first one and acts after it, would take out the next task of the id.

    Raises:
        UnknownTaskError: the store has no task of this id.
        TaskError: it goes on.
    """

    def look() -> None:
        standing = service.store.standing(id_)
        if standing is None or id_ in service.unkept:
            raise UnknownTaskError(id_)
        goes_on = standing.is_ == "unfinished" and not service.is_stranded(standing.owner)
        if id_ not in service.aside and (goes_on or service.run_of(id_) is not None):
            raise TaskError(f"task {id_} cannot be removed: it has not ended. Cancel it first")
        service.store.remove(id_)
        service.forget_former(id_)
        waits = service.done.pop(id_, None)
        if waits is not None:
            waits.fail(UnknownTaskError(id_))
        service.streams.wake(id_)

    service.removing.look(look)
    return service.store.flush()
