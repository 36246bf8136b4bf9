"""Tasks of a live tree as a source tells them: lists, pages and questions, and the acts of a person on them."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from actors.model.errors import ActorsError
from actors.model.events import Event
from actors.runtime.system import System
from actors.tasks.engine.service import service_of
from actors.tasks.journal.fold import unit_status_of
from actors.tasks.journal.view import TaskView
from actors.tasks.model.policy import ANSWERS
from actors.tasks.model.task import SubtaskStatus, TaskStatus
from actors.tasks.model.task_errors import EscalationError, StoreError, UnknownTaskError
from actors.tasks.model.task_events import TaskFinished, TaskSubmitted
from trees.ha.roles import Leadership, NotLeaderError
from trees.host.answers import open_question, open_questions, respond_to
from trees.host.task_handle import find_task
from trees.observe.source import TASKS, VERSION, Shape, SourceError
from trees.observe.task_shapes import in_a_list, question_row, task_page, task_row

MOST_LOOKS: Final = 5000
"""Tasks that a search looks at, the newest first."""
_AT_ONCE: Final = 500
"""First records of finished tasks that a search reads with one query."""
_MOST_ROWS: Final = 2 * MOST_LOOKS
"""Rows of finished tasks that are remembered, as long as the id stands for the same task."""

_SLOWEST: Final = 10
"""Attempts that are told of those that run."""

Told = Callable[[str, str, str, str], object]
"""Is told of an act: the path, the act, who did it, and the id of what it was about."""


class TaskSource:
    """Tasks of one tree."""

    def __init__(self, system: System, leadership: Leadership, operated: Told, *, content: bool) -> None:
        self._system = system
        self._leadership = leadership
        self._operated = operated
        self._content = content
        self._ended: dict[str, tuple[Event, Shape]] = {}
        """Rows of finished tasks, each with the last record of its task: another one may have the id of one that was
        removed. Each change is one step of C; whoever asks at the same time makes one twice."""

    # -- looking -------------------------------------------------------------------------------------------

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        """List the tasks, the newest first."""
        if status is not None and status not in {str(each) for each in TaskStatus}:
            raise SourceError(400, f"There is no status {status[:40]!r}; there are {', '.join(map(str, TaskStatus))}.")
        wanted, found, cut = text.casefold(), list[Shape](), False
        for looks, id_ in enumerate(self._sifted(status, wanted)):
            if looks >= MOST_LOOKS or len(found) > limit:
                cut = True
                break
            row = self._row(id_) if id_ else None
            if row is None or (status is not None and row["status"] != status):
                continue
            if wanted and not _has(wanted, id_, row["goal"]):
                continue
            found.append(row)
        cut = cut or len(found) > limit
        found.sort(key=lambda row: row["created_at"], reverse=True)
        return {"version": VERSION, "tasks": [in_a_list(row) for row in found[:limit]], "cut": cut}

    def now(self) -> Shape:
        """Count tasks by status, also those that have ended and are kept, and queued subtasks; find the slowest.

        Of all supervisors, whatever is drawn of the tree. A team's part is no task of its own.
        """
        counts: Counter[str] = Counter()
        running: list[Shape] = []
        queued, service = 0, service_of(self._system)
        now = service.time()
        for path in list(service.scopes):
            ends = [self._last(id_) for id_ in service.store.finished(path)]
            counts.update(str(end.status) for end in ends if isinstance(end, TaskFinished))
        for run in service.runs():
            counts[str(run.state.status)] += 1
            for unit in [each for each in list(run.state.units.values()) if each.role == "work"]:
                status = unit_status_of(unit)
                queued += status is SubtaskStatus.QUEUED
                if status is SubtaskStatus.RUNNING:
                    path = f"{unit.scope}/{unit.worker}" if unit.worker else unit.scope
                    since = max(0.0, now - unit.started_at)
                    running.append({"path": path, "task": run.id, "subtask": unit.path, "since_s": since})
        slowest = heapq.nlargest(_SLOWEST, running, key=lambda each: each["since_s"])
        return {"tasks": dict(+counts), "ready_queue": queued, "slowest": slowest}

    def _newest(self) -> Iterator[str]:
        """Ids of all supervisors, first what is not finished, then the newest that is; one of each in turn."""
        store = service_of(self._system).store
        owners = dict.fromkeys([*service_of(self._system).scopes, *store.owners().values()])
        of = ([*reversed(store.streams(path)), *reversed(store.finished(path))] for path in owners)
        for turn in itertools.zip_longest(*of):
            yield from (each for each in turn if each is not None)

    def _sifted(self, status: str | None, wanted: str) -> Iterator[str]:
        """Ids as ``_newest`` has them; an empty one stands for a finished task that cannot be what is looked for.

        How a finished task ended is at hand. Its goal stands in its first record, and one query reads those of hundreds
        of tasks: a query for the whole journal of each would take a second for some thousands.
        """
        newest = self._newest()
        while some := list(itertools.islice(newest, _AT_ONCE)):
            is_sifted = status is not None or bool(wanted)
            runs = {run.id for run in service_of(self._system).runs()}
            ended = {id_ for id_ in some if is_sifted and id_ not in runs and not self._is_listed(id_)}
            other = {id_ for id_ in ended if status is not None and _ended_otherwise(self._last(id_), status)}
            unsure = [id_ for id_ in ended - other if wanted and wanted not in id_.casefold()]
            goals = self._goals_of(unsure) if unsure and self._content else {}
            other |= {id_ for id_ in unsure if not _has(wanted, "", goals.get(id_))}
            yield from ("" if id_ in other else id_ for id_ in some)

    def _goals_of(self, ids: list[str]) -> dict[str, str]:
        """Return the goals of finished tasks; of one that is gone or damaged there is none."""
        firsts = service_of(self._system).store.firsts(ids)
        return {id_: first.spec.goal for id_, first in firsts.items() if isinstance(first, TaskSubmitted)}

    def _last(self, id_: str) -> Event | None:
        """Return the last record of a task; None: it is gone, or cannot be read."""
        try:
            return service_of(self._system).store.last(id_)
        except StoreError:
            return None

    def _is_listed(self, id_: str) -> bool:
        """True where the row of a finished task is remembered, and not that of a former task of this id."""
        known = self._ended.get(id_)
        return known is not None and known[0] is self._last(id_)

    def _row(self, id_: str) -> Shape | None:
        """Return a task as a line; None: it cannot be read."""
        last, known = self._last(id_), self._ended.get(id_)
        goes_on = service_of(self._system).run_of(id_) is not None
        if known is not None and known[0] is last and not goes_on:
            return known[1] or None
        view = self._view(id_)
        if view is None:
            return None
        row = task_row(view, content=self._content)
        if view.ended is not None and last is not None:
            if len(self._ended) >= _MOST_ROWS:
                self._ended.clear()
            self._ended[id_] = last, row
        return row

    def _view(self, id_: str) -> TaskView | None:
        service = service_of(self._system)
        try:
            records = service.store.read(id_)
            return TaskView(self._system.root_path, id_, records, service.state(id_), service) if records else None
        except (StoreError, UnknownTaskError):  # damaged: a page of it says so
            return None

    def task(self, id: str) -> Shape:
        """Return one task, also one that has ended."""
        self._require(id)
        view = self._view(id)
        if view is None:
            raise SourceError(409, f"The journal of task {id} is damaged, or its time in the store is over.")
        return task_page(view, content=self._content, errors=self._system.error_texts)

    def _require(self, id_: str) -> str:
        """Return the path of the supervisor that a task was given to; refuse a task that there is not."""
        try:
            find_task(service_of(self._leadership.running), id_)
        except NotLeaderError as error:
            raise SourceError(409, str(error)) from error
        except (UnknownTaskError, StoreError) as error:
            raise SourceError(404 if isinstance(error, UnknownTaskError) else 409, str(error)) from error
        except ActorsError as error:
            raise SourceError(503, str(error)) from error
        standing = service_of(self._system).store.standing(id_)
        return standing.owner if standing is not None else self._system.root_path

    def attempts_of(self, path: str) -> list[Shape]:
        """Return the subtasks of unfinished tasks that a worker has, or had last."""
        above, _, id_ = path.rpartition("/")
        service = service_of(self._system)
        now, found = service.time(), list[Shape]()
        for run in service.runs():
            for unit in [each for each in list(run.state.units.values()) if (each.scope, each.worker) == (above, id_)]:
                status = unit_status_of(unit)
                running_s = max(0.0, now - unit.started_at) if status is SubtaskStatus.RUNNING else None
                row = {"task": run.id, "subtask": unit.path, "attempt": unit.attempt}
                found.append({**row, "status": str(status), "running_s": running_s})
        return found

    def questions(self) -> Shape:
        """All that waits for a person."""
        service = service_of(self._system)
        shown: Shape = {"content": self._content, "errors": self._system.error_texts}
        views = {run.id: TaskView(self._system.root_path, run.id, None, run.state, service) for run in service.runs()}
        found = [
            question_row(each, views[each.task], **shown) for each in open_questions(service) if each.task in views
        ]
        return {"version": VERSION, "questions": found}

    # -- acting --------------------------------------------------------------------------------------------

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Cancel a task."""
        path = self._require(id)
        handle = find_task(service_of(self._leadership.running), id)
        if handle.report is not None:
            raise SourceError(409, f"Task {id} has ended: {handle.report.status}.")
        handle.cancel(reason)
        self._operated(path, "cancel", by, id)
        return {"version": VERSION, "ok": True}

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Answer a question."""
        kind, field = ANSWERS.get(answer, (None, None))
        if kind is None:
            raise SourceError(400, f"{answer[:40]!r} is none of {', '.join(ANSWERS)}.")
        refuse_standby(self._leadership)
        service = service_of(self._system)
        asked = open_question(service, id)
        given = {} if field is None else {field: value if field == "value" else text or ""}
        try:
            respond_to(service, id, kind(**given))
        except EscalationError as error:
            raise SourceError(400 if error.is_unfit else 404 if asked is None else 409, str(error)) from error
        except ActorsError as error:
            raise SourceError(400, str(error)) from error
        if asked is not None:  # else it had this answer before
            self._operated(self._require(asked.task), answer, by, id)
        return {"version": VERSION, "ok": True}


def refuse_standby(leadership: Leadership) -> None:
    """Refuse an act in a process that does not lead: what it is about is not there, though it is elsewhere."""
    try:
        _ = leadership.running
    except NotLeaderError as error:
        raise SourceError(409, str(error)) from error
    except ActorsError as error:
        raise SourceError(503, str(error)) from error


def _has(wanted: str, id_: str, goal: str | None) -> bool:
    return wanted in id_.casefold() or wanted in (goal or "").casefold()


def _ended_otherwise(last: Event | None, status: str) -> bool:
    return isinstance(last, TaskFinished) and str(last.status) != status
