"""Tasks of a live tree as a source tells them: lists, pages and questions, and the acts of a person on them."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from actors.messaging.message_errors import TreeDownError
from actors.model.errors import ActorsError, ChildError, ConfigError, UnknownPathError
from actors.model.events import Event
from actors.runtime.system import System
from actors.tasks.engine.run import Run
from actors.tasks.engine.service import TaskService, service_of
from actors.tasks.journal.fold import unit_status_of
from actors.tasks.journal.unit import Unit
from actors.tasks.journal.view import TaskView
from actors.tasks.model.policy import ANSWERS
from actors.tasks.model.task import SubtaskStatus
from actors.tasks.model.task_errors import EscalationError, StoreError, UnknownTaskError
from actors.tasks.model.task_events import TaskFinished
from trees.ha.roles import Leadership
from trees.host.answers import open_question, open_questions, respond_to
from trees.host.task_handle import find_task
from trees.observe.operator_events import Operated
from trees.observe.source import TASKS, VERSION, Shape, SourceError, Status
from trees.observe.task_search import MOST_LOOKS, matching, require_status
from trees.observe.task_shapes import in_a_list, question_row, task_page, task_row

_MOST_ROWS: Final = 2 * MOST_LOOKS
"""Rows of finished tasks that are remembered: a page asks for hundreds every second, and each is a journal."""
_SLOWEST: Final = 10
"""Attempts that are told of those that run."""


class TaskSource:
    """The tasks of a tree of this process."""

    def __init__(self, system: System, leadership: Leadership, *, content: bool) -> None:
        self._system = system
        self._leadership = leadership
        self._content = content
        self._rows: dict[str, tuple[Event, Shape]] = {}
        """Rows of finished tasks, each with the last record of its task: another one may have the id of one that was
        removed. Each change is one step of C; whoever asks at the same time makes one twice."""

    @property
    def _service(self) -> TaskService:
        return service_of(self._system)

    # -- looking -------------------------------------------------------------------------------------------

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        """List the tasks, the newest first."""
        require_status(status)
        store = self._service.store
        going = store.owners()
        paths = dict.fromkeys([*self._service.scopes, *going.values()])
        ended = [store.finished(path) for path in paths]
        newest = heapq.merge(*map(reversed, ended), key=self._ended_at, reverse=True)
        found = list(itertools.islice(self._matching(reversed(going), newest, status, text), limit + 1))
        found.sort(key=lambda row: row["created_at"], reverse=True)
        is_cut = len(found) > limit or len(going) + sum(map(len, ended)) > MOST_LOOKS
        return {"version": VERSION, "tasks": [in_a_list(row) for row in found[:limit]], "cut": is_cut}

    def _matching(self, going: Iterator[str], ended: Iterator[str], status: str | None, text: str) -> Iterator[Shape]:
        """Yield the rows of those that are looked for."""
        wanted = text.casefold()
        for row in map(self._row, itertools.islice(going, MOST_LOOKS)):
            is_named = row is not None and wanted in f"{row['id']} {row['goal'] or ''}".casefold()
            if row is not None and is_named and status in {None, row["status"]}:
                yield row
        for id_ in matching(ended, status, text, str, self._ends, self._firsts):
            if (row := self._row(id_)) is not None:
                yield row

    def _row(self, id_: str) -> Shape | None:
        """Return a task as a line; None: it cannot be read."""
        last, known = self._last(id_), self._rows.get(id_)
        if known is not None and known[0] is last:
            row = known[1]
        else:
            try:
                view = self._view(id_)
            except (StoreError, UnknownTaskError):  # damaged: a page of it says so
                return None
            row = task_row(view, content=True)
            if isinstance(last, TaskFinished) and view.ended is not None:
                if len(self._rows) >= _MOST_ROWS:
                    self._rows.clear()
                self._rows[id_] = last, row
        return row if self._content else row | {"goal": None}

    def _view(self, id_: str) -> TaskView:
        service = self._service
        return TaskView(self._system.root_path, id_, service.store.read(id_), service.state(id_), service)

    def _last(self, id_: str) -> Event | None:
        """Return the last record of a task; None: it is gone, or cannot be read."""
        try:
            return self._service.store.last(id_)
        except StoreError:
            return None

    def _ended_at(self, id_: str) -> float:
        last = self._last(id_)
        return 0.0 if last is None else last.at

    def _ends(self, ids: Sequence[str]) -> list[tuple[str, Event | None]]:
        return [(id_, self._last(id_)) for id_ in ids]

    def _firsts(self, ids: Sequence[str]) -> list[tuple[str, Event]]:
        return list(self._service.store.firsts(ids).items()) if self._content else []

    def now(self) -> Shape:
        """Count tasks by status, also those that have ended and are kept, and queued subtasks; find the slowest.

        Of all supervisors, whatever is drawn of the tree. A team's part is no task of its own.
        """
        service = self._service
        ends = [self._last(id_) for path in list(service.scopes) for id_ in service.store.finished(path)]
        counts = Counter(str(end.status) for end in ends if isinstance(end, TaskFinished))
        counts.update(str(run.state.status) for run in service.runs())
        running, queued, now = list[Shape](), 0, service.time()
        for run, unit, status in self._units():
            if unit.role == "work":
                queued += status is SubtaskStatus.QUEUED
                if status is SubtaskStatus.RUNNING:
                    path = f"{unit.scope}/{unit.worker}" if unit.worker else unit.scope
                    since_s = max(0.0, now - unit.started_at)
                    running.append({"path": path, "task": run.id, "subtask": unit.path, "since_s": since_s})
        slowest = heapq.nlargest(_SLOWEST, running, key=lambda each: each["since_s"])
        return {"tasks": dict(+counts), "ready_queue": queued, "slowest": slowest}

    def attempts_of(self, path: str) -> list[Shape]:
        """Return the subtasks of unfinished tasks that a worker has, or had last."""
        now = self._service.time()
        return [
            {
                "task": run.id,
                "subtask": unit.path,
                "attempt": unit.attempt,
                "status": str(status),
                "running_s": max(0.0, now - unit.started_at) if status is SubtaskStatus.RUNNING else None,
            }
            for run, unit, status in self._units()
            if f"{unit.scope}/{unit.worker}" == path
        ]

    def _units(self) -> Iterator[tuple[Run, Unit, SubtaskStatus]]:
        """Yield what is done for all tasks that go on."""
        for run in self._service.runs():
            for unit in list(run.state.units.values()):
                yield run, unit, unit_status_of(unit)

    def task(self, id: str) -> Shape:
        """Return one task, also one that has ended."""
        with refusing():
            find_task(service_of(self._leadership.running), id)
            return task_page(self._view(id), content=self._content, errors=self._system.error_texts)

    def questions(self) -> Shape:
        """All that waits for a person."""
        service, root, found = self._service, self._system.root_path, list[Shape]()
        for asked in open_questions(service):
            if (run := service.run_of(asked.task)) is not None:
                view = TaskView(root, run.id, None, run.state, service)
                found.append(question_row(asked, view, content=self._content, errors=self._system.error_texts))
        return {"version": VERSION, "questions": found}

    # -- acting --------------------------------------------------------------------------------------------

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Cancel a task."""
        with refusing():
            handle = find_task(service_of(self._leadership.running), id)
            if handle.report is not None:
                raise SourceError(409, f"Task {id} has ended: {handle.report.status}.")
            handle.cancel(reason)
            return self._operated(self._view(id).path, "cancel", by, id)

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Answer a question."""
        kind, field = ANSWERS.get(answer, (None, None))
        if kind is None:
            raise SourceError(400, f"{answer[:40]!r} is none of {', '.join(ANSWERS)}.")
        given = {} if field is None else {field: value if field == "value" else text or ""}
        with refusing():
            _ = self._leadership.running  # raises on a standby
            asked = open_question(self._service, id)
            respond_to(self._service, id, kind(**given))
            if asked is None:  # it had this answer before
                return {"version": VERSION, "ok": True}
            return self._operated(self._view(asked.task).path, answer, by, id)

    def _operated(self, path: str, act: str, by: str, about: str = "") -> Shape:
        """Tell of an act that was carried out."""
        self._system.publish(Operated(path, act, by or "unknown", about))
        return {"version": VERSION, "ok": True}


@contextmanager
def refusing() -> Iterator[None]:
    """Turn errors of a tree into those of a source."""
    try:
        yield
    except SourceError:
        raise
    except ActorsError as error:
        raise SourceError(_status_of(error), str(error)) from error


def _status_of(error: ActorsError) -> Status:
    is_unfit = isinstance(error, ConfigError) or (isinstance(error, EscalationError) and error.is_unfit)
    is_unknown = isinstance(error, (UnknownPathError, UnknownTaskError, EscalationError))
    if is_unfit:
        return 400
    if is_unknown or (isinstance(error, ChildError) and error.code == "not_found"):
        return 404
    return 503 if isinstance(error, TreeDownError) else 409
