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
from actors.tasks.journal.fold import fold
from actors.tasks.journal.person_waits import status_of, subtask_status_of
from actors.tasks.journal.view import TaskView
from actors.tasks.model.policy import ANSWERS
from actors.tasks.model.task import SubtaskStatus, TaskStatus
from actors.tasks.model.task_errors import EscalationError, StoreError, UnknownTaskError
from actors.tasks.model.task_events import TaskFinished, TaskSubmitted
from actors.tasks.model.task_ids import MARK, is_part_of
from actors.tasks.orchestration.task_runtime import OrchestratorPort, task_runtime_of
from trees.ha.roles import Leadership, NotLeaderError
from trees.host.answers import port_of_question, respond_to
from trees.host.task_api import TaskApi
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
        self._tasks = TaskApi(leadership)
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
        for looks, (port, id_) in enumerate(self._sifted(status, wanted)):
            if looks >= MOST_LOOKS or len(found) > limit:
                cut = True
                break
            row = self._row(port, id_) if id_ else None
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
        queued, runtime = 0, task_runtime_of(self._system)
        for port in list(runtime.ports.values()):
            now = port.time()
            ends = [self._last(id_) for id_ in runtime.store.finished(port.path) if MARK not in id_]
            counts.update(str(end.status) for end in ends if isinstance(end, TaskFinished))
            for state in [each for each in list(port.states.values()) if each.final is None]:
                if state.parent is None:
                    counts[str(status_of(state, runtime.part_of))] += 1
                for node in list(state.nodes.values()):
                    status = subtask_status_of(state, node, runtime.part_of)
                    queued += status is SubtaskStatus.QUEUED
                    if status is SubtaskStatus.RUNNING:
                        path = f"{port.path}/{node.worker}" if node.worker else port.path
                        since = max(0.0, now - node.started_at)
                        running.append({"path": path, "task": state.id, "subtask": node.id, "since_s": since})
        slowest = heapq.nlargest(_SLOWEST, running, key=lambda each: each["since_s"])
        return {"tasks": dict(+counts), "ready_queue": queued, "slowest": slowest}

    def _newest(self) -> Iterator[tuple[OrchestratorPort, str]]:
        """Ids of all supervisors, first what is not finished, then the newest that is; one of each in turn."""
        runtime = task_runtime_of(self._system)

        def of(port: OrchestratorPort) -> Iterator[tuple[OrchestratorPort, str]]:
            store, path = runtime.store, port.path
            going = dict.fromkeys([*store.streams(path), *list(port.states)])
            known = itertools.chain(reversed(list(going)), reversed(list(store.finished(path))))
            return ((port, id_) for id_ in dict.fromkeys(known))

        for turn in itertools.zip_longest(*(of(port) for port in runtime.all_ports())):
            yield from (each for each in turn if each is not None)

    def _sifted(self, status: str | None, wanted: str) -> Iterator[tuple[OrchestratorPort, str]]:
        """Ids as ``_newest`` has them; an empty one stands for a finished task that cannot be what is looked for.

        How a finished task ended is at hand. Its goal stands in its first record, and one query reads those of hundreds
        of tasks: a query for the whole journal of each would take a second for some thousands.
        """
        newest = self._newest()
        while some := list(itertools.islice(newest, _AT_ONCE)):
            is_sifted = status is not None or bool(wanted)
            ended = {id_ for port, id_ in some if is_sifted and id_ not in port.states and not self._is_listed(id_)}
            other = {id_ for id_ in ended if status is not None and _ended_otherwise(self._last(id_), status)}
            unsure = [id_ for id_ in ended - other if wanted and wanted not in id_.casefold()]
            goals = self._goals_of(unsure) if unsure and self._content else {}
            other |= {id_ for id_ in unsure if not _has(wanted, "", goals.get(id_))}
            yield from ((port, "" if id_ in other else id_) for port, id_ in some)

    def _goals_of(self, ids: list[str]) -> dict[str, str]:
        """Return the goals of finished tasks; of one that is gone or damaged there is none."""
        firsts = task_runtime_of(self._system).store.firsts(ids)
        return {id_: first.spec.goal for id_, first in firsts.items() if isinstance(first, TaskSubmitted)}

    def _last(self, id_: str) -> Event | None:
        """Return the last record of a task; None: it is gone, or cannot be read."""
        try:
            return task_runtime_of(self._system).store.last(id_)
        except StoreError:
            return None

    def _is_listed(self, id_: str) -> bool:
        """True where the row of a finished task is remembered, and not that of a former task of this id."""
        known = self._ended.get(id_)
        return known is not None and known[0] is self._last(id_)

    def _row(self, port: OrchestratorPort, id_: str) -> Shape | None:
        """Return a task as a line; None: a team's part, or one that cannot be read."""
        last, known = self._last(id_), self._ended.get(id_)
        if known is not None and known[0] is last and id_ not in port.states:
            return known[1] or None
        view = self._view(port, id_)
        if view is None:
            return None
        row = {} if view.team_subtask is not None else task_row(view, content=self._content)
        if view.ended is not None and last is not None:
            if len(self._ended) >= _MOST_ROWS:
                self._ended.clear()
            self._ended[id_] = last, row
        return row or None

    def _view(self, port: OrchestratorPort, id_: str) -> TaskView | None:
        runtime = task_runtime_of(self._system)
        try:
            records = runtime.outline(id_)
            if not records:
                return None
            state = port.states.get(id_) or fold(id_, records)
            return TaskView(self._system.root_path, id_, records, state, port)
        except StoreError:  # damaged: a page of it says so
            return None

    def task(self, id: str) -> Shape:
        """Return one task, also one that has ended."""
        port = self._port_of(id)
        view = self._view(port, id)
        if view is None:
            raise SourceError(409, f"The journal of task {id} is damaged, or its time in the store is over.")
        parts = [part for each in self._part_ids(view) if (part := self._view(self._owner(each), each)) is not None]
        return task_page(view, parts, content=self._content, errors=self._system.error_texts)

    def _part_ids(self, view: TaskView) -> list[str]:
        """Return the ids of the teams' parts of a task, and of the parts of those."""
        found: dict[str, None] = {}
        waiting = [view]
        while waiting:
            each = waiting.pop()
            for record in each.records:
                part = getattr(record, "part", "")
                if part and part not in found and is_part_of(part, None, view.id):
                    found[part] = None
                    below = self._view(self._owner(part), part)
                    waiting += [below] if below is not None else []
        return list(found)

    def _owner(self, id_: str) -> OrchestratorPort:
        runtime = task_runtime_of(self._system)
        standing = runtime.store.standing(id_)
        return runtime.port_at(standing.owner if standing is not None else self._system.root_path)

    def _port_of(self, id_: str) -> OrchestratorPort:
        try:
            self._tasks.task(id_)
        except NotLeaderError as error:
            raise SourceError(409, str(error)) from error
        except (UnknownTaskError, StoreError) as error:
            raise SourceError(404 if isinstance(error, UnknownTaskError) else 409, str(error)) from error
        except ActorsError as error:
            raise SourceError(503, str(error)) from error
        return self._owner(id_)

    def attempts_of(self, path: str) -> list[Shape]:
        """Return the subtasks of unfinished tasks that a worker has, or had last."""
        above, _, id_ = path.rpartition("/")
        runtime = task_runtime_of(self._system)
        port = runtime.ports.get(above)
        if port is None:
            return []
        now, found = port.time(), list[Shape]()
        for state in list(port.states.values()):
            for node in [each for each in list(state.nodes.values()) if each.worker == id_]:
                status = subtask_status_of(state, node, runtime.part_of)
                running_s = max(0.0, now - node.started_at) if status is SubtaskStatus.RUNNING else None
                row = {"task": state.id, "subtask": node.id, "attempt": node.attempt}
                found.append({**row, "status": str(status), "running_s": running_s})
        return found

    def questions(self) -> Shape:
        """All that waits for a person."""
        ports = list(task_runtime_of(self._system).ports.values())
        shown: Shape = {"content": self._content, "errors": self._system.error_texts}
        found = [
            question_row(each, TaskView(self._system.root_path, each.task, None, state, port), **shown)
            for port in ports
            for each in port.answers.open_questions()
            if (state := port.states.get(each.task)) is not None
        ]
        found.sort(key=lambda each: each["asked_at"])
        return {"version": VERSION, "questions": found}

    # -- acting --------------------------------------------------------------------------------------------

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Cancel a task."""
        port = self._port_of(id)
        handle = self._tasks.task(id)
        if handle.report is not None:
            raise SourceError(409, f"Task {id} has ended: {handle.report.status}.")
        handle.cancel(reason)
        self._operated(port.path, "cancel", by, id)
        return {"version": VERSION, "ok": True}

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Answer a question."""
        kind, field = ANSWERS.get(answer, (None, None))
        if kind is None:
            raise SourceError(400, f"{answer[:40]!r} is none of {', '.join(ANSWERS)}.")
        refuse_standby(self._leadership)
        runtime = task_runtime_of(self._system)
        port = port_of_question(runtime, id)
        given = {} if field is None else {field: value if field == "value" else text or ""}
        try:
            respond_to(runtime, id, kind(**given))
        except EscalationError as error:
            raise SourceError(400 if error.is_unfit else 404 if port is None else 409, str(error)) from error
        except ActorsError as error:
            raise SourceError(400, str(error)) from error
        if port is not None:  # else it had this answer before
            self._operated(port.path, answer, by, id)
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
