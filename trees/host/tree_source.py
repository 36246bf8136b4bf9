"""Source of a live tree: what its page, its console and its terminal show, and the acts of a person on it.

Everything but the tree's health is read as a dump reads it: in the thread of whoever asks, from single reads, without
asking a supervisor or a worker. Acts are the calls of a ``Tree``; each that was carried out is an event
(``Operated``) with who has done it.
"""

from __future__ import annotations

import copy
import heapq
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from actors.messaging.message_errors import TreeDownError
from actors.model.errors import ActorsError, ChildError, ConfigError, UnknownPathError
from actors.model.events import Event
from actors.model.spec import Restart
from actors.runtime import child_admin
from actors.supervision.child import Child
from actors.tasks.engine.run import Run
from actors.tasks.engine.service import service_of
from actors.tasks.journal.fold import unit_status_of
from actors.tasks.journal.unit import Unit
from actors.tasks.journal.view import TaskView
from actors.tasks.model import ANSWERS, EscalationError, StoreError, SubtaskStatus, TaskFinished, UnknownTaskError
from trees.agents.packages import install, package_flaw
from trees.agents.tree_gauges import busy_workers
from trees.host.answers import open_question, open_questions
from trees.observe.child_history import ChildHistory
from trees.observe.metrics import PROMETHEUS, TreeCollector, text_of
from trees.observe.operator_events import Operated
from trees.observe.source import ACTS, ROWS, TASKS, VERSION, Shape, SourceError, Status
from trees.observe.task_search import MOST_LOOKS, goal_of, require_status
from trees.observe.task_shapes import in_a_list, question_row, task_page, task_row
from trees.observe.tree_shapes import Rooms, found_by, role_of, row_of, rows, settings_of
from trees.views.capture import children_by_state
from trees.views.snapshot import TreeSnapshot, WorkerSnapshot

if TYPE_CHECKING:
    from trees.host.tree import Tree

_MOST_ROWS: Final = 2 * MOST_LOOKS
"""Rows of finished tasks that are remembered: a page asks for hundreds every second, and each is a journal."""
_SLOWEST: Final = 10
"""Attempts that are told of those that run."""
_MOST_ATTEMPTS: Final = 50
_NO_ROOM: Final = Rooms((), 0)
_LATELY_S: Final = 60.0
"""Restarts of so many seconds are told with a row."""


class TreeSource:
    """A tree of this process."""

    def __init__(self, tree: Tree, *, content: bool = False) -> None:
        self._tree, self._system, self._leadership = tree, tree._system, tree._leadership  # noqa: SLF001 - of this room
        self._service, self._content = service_of(self._system), content
        self.name = self._system.root_path
        """Id of the root."""
        self._row_of_ended = lru_cache(_MOST_ROWS)(self._row)
        """Makes the row of a finished task, by its id and its last record: another task may have the id by now."""
        self._history = ChildHistory(self._system.error_texts)
        self._collector = TreeCollector()
        self.close = self._system.bus.subscribe(self._history.hear, wants=self._history.wants)
        """Hear nothing more."""

    def without_content(self) -> TreeSource:
        """Return the same source without goals, questions, inputs and results. It ends with this one."""
        other = copy.copy(self)
        other._content = False  # noqa: SLF001 - of its own class
        return other

    # -- the tree ------------------------------------------------------------------------------------------

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        """The tree as rows; all children are searched, also those that are folded."""
        keep, hits = frozenset[str](), None
        if text or troubled:
            keep, hits = found_by(self._in_trouble() if troubled else list(self._system.children), text, limit)
        taken = self._capture(None, room=Rooms(unfold, limit, keep), keep=keep)
        found = list(rows(taken.top))
        everything = len({path.partition("#")[0] for path in list(self._system.children)})  # a pool is one row
        restarted, errors = self._history.recent(taken.taken_at - _LATELY_S), self._history.last_errors()
        for row in found:
            self._complete(row)["restarted_at"] = sorted(restarted.get(row["path"], ()))
            row["last_error"] = errors.get(row["path"], row["last_error"])
        return {
            "version": VERSION,
            "at": taken.taken_at,
            "name": self.name,
            "role": role_of(taken),
            "health": asdict(self._tree.health()),
            "rows": found,
            "total": everything,
            "children": children_by_state(self._system),
            "cut": everything > len(found),
            "found": hits,
            "now": {
                **self.now(),
                "crashes": self._history.crashes(),
                "dead_letters": taken.dead_letters,
                "alerts": [alert for notifier in tuple(self._tree._notifiers) for alert in notifier.firing()],  # noqa: SLF001 - of this room
                "busy_threads": busy_workers(self._system),
            },
        }

    def child(self, path: str) -> Shape:
        """One child, with what is known of its past."""
        taken = self._capture(path)
        members = self._children(path)
        return {
            "version": VERSION,
            "row": self._complete(row_of(taken.top)),
            "settings": settings_of(members[0].spec),
            **self._history.of(*{path, *(child.path for child in members)}),
            "attempts": self.attempts_of(path)[:_MOST_ATTEMPTS],
        }

    def stack(self, path: str) -> Shape:
        """Where its code stands."""
        top = self._capture(path, stacks=True).top
        workers = [top] if isinstance(top, WorkerSnapshot) else getattr(top, "members", None) or ()
        shown = [(each.path, text) for each in workers for text in (each.stack, *(each.abandoned_stacks or ())) if text]
        frames = [f"{of}:\n{text}" if len(workers) > 1 else text for of, text in shown]
        return {"version": VERSION, "frames": "".join(frames).splitlines()}

    def dump(self, **shown: Any) -> Shape:
        """Render the tree, as ``Tree.dump`` does."""
        return {"version": VERSION, "dump": self._tree.dump(**shown)}

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have all that happens told, as plain values."""
        errors, content = self._system.error_texts, self._content

        def tell(event: Event) -> None:
            callback(event.as_dict(content=content, errors=errors))

        return self._system.bus.subscribe(tell)

    def metrics(self) -> str:
        """Metrics, counted from the first look on; refused without prometheus-client."""
        if package_flaw(*PROMETHEUS) is not None:
            raise SourceError(
                404, f"There are no metrics here: prometheus-client is not installed. {install('metrics')}"
            )
        self._collector.watch(self._system)
        return text_of(self._collector)

    # -- acting --------------------------------------------------------------------------------------------

    def act(self, path: str, act: str, by: str = "") -> Shape:
        """Restart, terminate or unpark a child, or all members of a pool."""
        if act not in ACTS:
            raise SourceError(400, f"{act[:40]!r} is none of {', '.join(ACTS)}.")
        with refusing():
            system = self._leadership.running  # raises on a standby
            children = self._children(path)
            goes_on = not {child.state for child in children}.isdisjoint({"running", "restarting"})
            if system.root in children:
                raise SourceError(409, "The root is not restarted or terminated from here; end its program instead.")
            if act == "restart" and goes_on and any(each.spec.restart is Restart.TEMPORARY for each in children):
                raise SourceError(409, f"{path} is temporary: it is forgotten once it is terminated.")
            if act == "terminate" or (act == "restart" and goes_on):
                self._tree.terminate_child(path)
            if act != "terminate":
                self._tree.restart_child(path)
            return self._operated(path, act, by)

    # -- its tasks -----------------------------------------------------------------------------------------

    def tasks(self, status: str | None = None, text: str = "", limit: int = TASKS) -> Shape:
        """List the tasks, the newest first."""
        require_status(status)
        store, wanted = self._service.store, text.casefold()
        going, ends = store.owners(), self._ends()
        ids = [*reversed(going), *sorted(ends, key=lambda id_: ends[id_].at, reverse=True)][:MOST_LOOKS]
        # What is left out here is not read: how a task ended stands in its last record, what it is about in its first.
        if status is not None:
            ids = [id_ for id_ in ids if id_ in going or ends[id_].status == status]
        if wanted:
            goals = {id_: goal_of(first) for id_, first in store.firsts(ids).items()} if self._content else {}
            ids = [id_ for id_ in ids if wanted in f"{id_} {goals.get(id_, '')}".casefold()]
        rows = (self._row_of_ended(id_, ends[id_]) if id_ in ends else self._row(id_) for id_ in ids)
        shown = (row for row in rows if row is not None and status in {None, row["status"]})
        found = sorted(itertools.islice(shown, limit + 1), key=lambda row: row["created_at"], reverse=True)
        is_cut = len(found) > limit or len(going) + len(ends) > MOST_LOOKS
        listed = [in_a_list(row if self._content else row | {"goal": None}) for row in found[:limit]]
        return {"version": VERSION, "tasks": listed, "cut": is_cut}

    def _ends(self) -> dict[str, TaskFinished]:
        """Return the last records of the tasks that have ended, of all supervisors; a damaged one has none."""
        store, ends = self._service.store, dict[str, TaskFinished]()
        for path in dict.fromkeys([*self._service.scopes, *store.owners().values()]):
            for id_ in store.finished(path):
                with suppress(StoreError):
                    if isinstance(last := store.last(id_), TaskFinished):
                        ends[id_] = last
        return ends

    def _row(self, id_: str, _end: TaskFinished | None = None) -> Shape | None:
        """Return a task as a line; None: it cannot be read."""
        try:
            return task_row(self._view(id_), content=True)
        except (StoreError, UnknownTaskError):  # damaged: a page of it says so
            return None

    def _view(self, id_: str) -> TaskView:
        service = self._service
        return TaskView(self._system.root_path, service.state(id_), service.store.read(id_), service)

    def now(self) -> Shape:
        """Count tasks by status, also those that have ended and are kept, and queued subtasks; find the slowest.

        Of all supervisors, whatever is drawn of the tree. A team's part is no task of its own.
        """
        service = self._service
        counts = Counter(str(end.status) for end in self._ends().values())
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
            self._tree.task(id)
            return task_page(self._view(id), content=self._content, errors=self._system.error_texts)

    def questions(self) -> Shape:
        """All that waits for a person."""
        service, root, found = self._service, self._system.root_path, list[Shape]()
        for asked in open_questions(service):
            if (run := service.run_of(asked.task)) is not None:
                view = TaskView(root, run.state, service=service)
                found.append(question_row(asked, view, content=self._content, errors=self._system.error_texts))
        return {"version": VERSION, "questions": found}

    # -- acting --------------------------------------------------------------------------------------------

    def cancel(self, id: str, reason: str = "", by: str = "") -> Shape:
        """Cancel a task."""
        with refusing():
            handle = self._tree.task(id)
            if handle.report is not None:
                raise SourceError(409, f"Task {id} has ended: {handle.report.status}.")
            handle.cancel(reason)
            return self._operated(self._view(id).state.path, "cancel", by, id)

    def answer(self, id: str, answer: str, text: str | None = None, value: Any = None, by: str = "") -> Shape:
        """Answer a question."""
        kind, field = ANSWERS.get(answer, (None, None))
        if kind is None:
            raise SourceError(400, f"{answer[:40]!r} is none of {', '.join(ANSWERS)}.")
        given = {} if field is None else {field: value if field == "value" else text or ""}
        with refusing():
            asked = open_question(self._service, id)
            self._tree.respond(id, kind(**given))
            if asked is None:  # it had this answer before
                return {"version": VERSION, "ok": True}
            return self._operated(self._view(asked.task).state.path, answer, by, id)

    def _operated(self, path: str, act: str, by: str, about: str = "") -> Shape:
        """Tell of an act that was carried out."""
        self._system.publish(Operated(path, act, by or "unknown", about))
        return {"version": VERSION, "ok": True}

    # -- within --------------------------------------------------------------------------------------------

    def _children(self, path: str) -> list[Child]:
        """Return a child, or the members of a pool."""
        child = self._system.children.get(path)
        found = child_admin.members_of(self._system, path) if child is None else [child]
        if not found:
            raise UnknownPathError(path, self._system.near(path))
        return found

    def _capture(self, path: str | None, room: Rooms = _NO_ROOM, **how: Any) -> TreeSnapshot:
        with refusing():
            return self._tree._capture(path, fold=True, room=room, **how)  # noqa: SLF001 - of this room

    def _complete(self, row: Shape) -> Shape:
        """Mark the row of a command worker."""
        child = self._system.children.get(row["path"])
        if child is not None and getattr(child.spec.recipe, "program", None) is not None:
            row["kind"] = "command"
        return row

    def _in_trouble(self) -> list[str]:
        """Return the paths of children that are neither running nor stopped, or have a breaker that is not closed.

        No record of each child is made: a tree may have 100,000 of them.
        """
        children, scopes = self._system.children.copy(), self._service.scopes.copy()
        found = [path for path, child in children.items() if child.state not in {"running", "stopped"}]
        for above, scope in scopes.items():
            found += [
                f"{above}/{each.id}"
                for each in scope.workers
                if (breaker := each.breaker) is not None and breaker.state != "closed"
            ]
        return list(dict.fromkeys(found))


@contextmanager
def refusing() -> Iterator[None]:
    """Turn errors of a tree into those of a source."""
    try:
        yield
    except SourceError:
        raise
    except ActorsError as error:
        status: Status = 503 if isinstance(error, TreeDownError) else 409
        is_unknown = isinstance(error, (UnknownPathError, UnknownTaskError, EscalationError))
        if isinstance(error, ConfigError) or (isinstance(error, EscalationError) and error.is_unfit):
            status = 400
        elif is_unknown or (isinstance(error, ChildError) and error.code == "not_found"):
            status = 404
        raise SourceError(status, str(error)) from error
