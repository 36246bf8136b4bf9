"""Source of a live tree: what its page, its console and its terminal show, and the acts of a person on it.

Everything but the tree's health is read as a dump reads it: in the thread of whoever asks, from single reads, without
asking a supervisor or a worker. Acts are the calls of a ``Tree``; each that was carried out is an event
(``Operated``) with who has done it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal

from actors.messaging.message_errors import TreeDownError
from actors.messaging.pool_address import PoolAddress
from actors.model.errors import ActorsError, ChildError, UnknownPathError
from actors.model.events import Event
from actors.model.spec import Restart
from actors.runtime import child_admin
from actors.runtime.system import System
from actors.supervision.child import Child
from actors.tasks.engine.service import service_of
from trees.agents.packages import package_flaw
from trees.agents.tree_gauges import busy_workers
from trees.ha.roles import Leadership
from trees.host.task_source import TaskSource, refuse_standby
from trees.host.tree_health import health
from trees.observe.alert_notifier import AlertNotifier
from trees.observe.child_history import ChildHistory
from trees.observe.metrics import PROMETHEUS, TreeCollector, text_of
from trees.observe.operator_events import Operated
from trees.observe.source import ROWS, VERSION, Shape, SourceError
from trees.observe.tree_shapes import Rooms, found_by, last_exit, role_of, row_of, rows, settings_of
from trees.views.capture import capture, children_by_state
from trees.views.snapshot import PoolSnapshot, TreeSnapshot, WorkerSnapshot

_CALM: Final = frozenset({"running", "stopped"})
_MOST_ATTEMPTS: Final = 50
_MOST_RECALLED: Final = 200
"""Crashes of before the first look that are shown."""
_LATELY_S: Final = 60.0
"""Restarts of so many seconds are told with a row."""


class TreeSource:
    """A tree of this process."""

    kind: Literal["tree", "console", "store"] = "tree"

    def __init__(
        self, system: System, leadership: Leadership, notifiers: Sequence[AlertNotifier], *, content: bool = False
    ) -> None:
        self._system = system
        self._notifiers = notifiers
        self._leadership = leadership
        self._errors = system.error_texts
        self._history = ChildHistory(self._errors)
        self._unsubscribe = system.bus.subscribe(self._history.hear, wants=self._history.wants)
        self._recall()
        self._collector = TreeCollector()
        self._show(content=content)

    def _show(self, *, content: bool) -> None:
        self._content = content
        self._tasks = TaskSource(self._system, self._leadership, self._operated, content=content)
        self.tasks, self.task, self.questions = self._tasks.tasks, self._tasks.task, self._tasks.questions
        self.cancel, self.answer = self._tasks.cancel, self._tasks.answer

    def without_content(self) -> TreeSource:
        """Return the same source without goals, questions, inputs and results. It ends with this one."""
        other = copy.copy(self)
        other._show(content=False)  # noqa: SLF001 - of its own class
        return other

    @property
    def name(self) -> str:
        """Id of the root."""
        return self._system.root_path

    def _recall(self) -> None:
        """Take over the last crash of each child: what was before anybody looked is what most come here for."""
        epoch = self._system.epoch
        crashes = [
            (last.at, child.path, last)
            for child in list(self._system.children.values())
            if (last := child.last_exit) is not None and not last.reason.clean
        ]
        for at, path, last in sorted(crashes, key=lambda each: each[0])[-_MOST_RECALLED:]:
            self._history.recall(path, str(last.reason), last.detail, epoch + at)

    # -- looking -------------------------------------------------------------------------------------------

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        """The tree as rows; all children are searched, also those that are folded."""
        keep, hits = frozenset[str](), None
        if text or troubled:
            keep, hits = found_by(_in_trouble(self._system) if troubled else list(self._system.children), text, limit)
        taken = self._capture(None, unfold, limit, keep)
        found, total, cut = rows(taken, unfold, limit, keep)
        everything = self._number()
        restarted, errors = self._history.recent(taken.taken_at - _LATELY_S), self._history.last_errors()
        for row in found:
            self._complete(row)["restarted_at"] = sorted(restarted.get(row["path"], ()))
            row["last_error"] = errors.get(row["path"], row["last_error"])
        return {
            "version": VERSION,
            "at": taken.taken_at,
            "name": self.name,
            "role": role_of(taken),
            "health": self._health(),
            "rows": found,
            "total": max(total, everything),
            "children": children_by_state(self._system),
            "cut": cut or everything > len(found),
            "found": hits,
            "now": {
                **self._tasks.now(),
                "crashes": self._history.crashes(),
                "dead_letters": taken.dead_letters,
                "alerts": [alert for notifier in tuple(self._notifiers) for alert in notifier.firing()],
                "busy_threads": busy_workers(self._system),
            },
        }

    def child(self, path: str) -> Shape:
        """One child, with what is known of its past."""
        taken = self._capture(path, (), 1)
        row = self._complete(row_of(taken.top))
        members = child_admin.members_of(self._system, path)
        past = self._history.of(path, *(child.path for child in members))
        if not past["exits"]:
            past["exits"] = last_exit(taken.top.last_exit, taken.taken_at)
        child = self._system.children.get(path) or members[0]
        attempts = self._tasks.attempts_of(path)[:_MOST_ATTEMPTS]
        return {"version": VERSION, "row": row, "settings": settings_of(child.spec), **past, "attempts": attempts}

    def stack(self, path: str) -> Shape:
        """Where its code stands."""
        with _refusing():
            top = capture(self._system, path, stacks=True, room=lambda _, __: 0).top
        found = [top] if isinstance(top, WorkerSnapshot) else []
        if isinstance(top, PoolSnapshot):
            found = [each for each in top.members or () if each.stack]
        frames: list[str] = []
        for each in found:
            frames += [f"{each.path}:"] if len(found) > 1 else []
            frames += [line for stack in (each.stack, *(each.abandoned_stacks or ())) for line in _frames(stack)]
        return {"version": VERSION, "frames": frames}

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have all that happens told, as plain values."""
        errors, content = self._errors, self._content

        def tell(event: Event) -> None:
            callback(event.as_dict(content=content, errors=errors))

        return self._system.bus.subscribe(tell)

    def metrics(self) -> str | None:
        """Metrics, counted from the first look on; None: prometheus-client is not installed."""
        if package_flaw(*PROMETHEUS) is not None:
            return None
        self._collector.watch(self._system)
        return text_of(self._collector)

    def close(self) -> None:
        """Hear nothing more."""
        self._unsubscribe()

    # -- acting --------------------------------------------------------------------------------------------

    def act(self, path: str, act: str, by: str = "") -> Shape:
        """Restart, terminate or unpark a child."""
        acts = {"restart": self._restart, "terminate": self._terminate, "unpark": self._unpark}
        if act not in acts:
            raise SourceError(400, f"{act[:40]!r} is none of {', '.join(acts)}.")
        refuse_standby(self._leadership)
        with _refusing():
            children = self._listed(path)
            acts[act](path, children)
        self._operated(path, act, by)
        return {"version": VERSION, "ok": True}

    def _listed(self, path: str) -> list[Child]:
        """Return a child, or the members of a pool."""
        child = self._system.children.get(path)
        found = child_admin.members_of(self._system, path) if child is None else [child]
        if not found:
            raise UnknownPathError(path, self._system.near(path))
        if child is not None and child is self._system.root:
            raise SourceError(409, "The root is not restarted or terminated from here; end its program instead.")
        return found

    def _restart(self, path: str, children: list[Child]) -> None:
        if any(child.state in {"running", "restarting"} for child in children):
            if any(child.spec.restart is Restart.TEMPORARY for child in children):
                raise SourceError(409, f"{path} is temporary: it is forgotten once it is terminated.")
            child_admin.terminate_child(self._system, path)
        child_admin.restart_child(self._system, path)

    def _terminate(self, path: str, children: list[Child]) -> None:
        if all(child.state == "stopped" for child in children):
            raise SourceError(409, f"{path} is stopped already.")
        child_admin.terminate_child(self._system, path)

    def _unpark(self, path: str, children: list[Child]) -> None:
        if not any(child.state == "parked" for child in children):
            raise SourceError(409, f"{path} is not parked.")
        child_admin.restart_child(self._system, path)

    def _operated(self, path: str, act: str, by: str, about: str = "") -> None:
        self._system.publish(Operated(path, act, by or "unknown", about))

    # -- within --------------------------------------------------------------------------------------------

    def _capture(
        self, path: str | None, unfold: Collection[str], limit: int, keep: Collection[str] = ()
    ) -> TreeSnapshot:
        with _refusing():
            facts, room = self._leadership.facts(), Rooms(unfold, limit, keep)
            return capture(self._system, path, fold=True, leading=facts, room=room, keep=keep)

    def _number(self) -> int:
        """Return how many rows the whole tree would have: what is folded is not looked at. A pool is one."""
        members = sum(["#" in path for path in list(self._system.children)])  # no other path has this sign
        pools = sum([isinstance(box, PoolAddress) for box in list(self._system.boxes.values())]) if members else 0
        return len(self._system.children) - members + pools

    def _complete(self, row: Shape) -> Shape:
        """Say of a program that it is one, and in which process it runs."""
        child = self._system.children.get(row["path"])
        if child is not None:
            recipe, incarnation = child.spec.recipe, child.incarnation
            if getattr(recipe, "program", None) is not None:
                row["kind"] = "command"
            if incarnation is not None and row["pid"] is None:
                row["pid"] = incarnation.pid
        return row

    def _health(self) -> Shape:
        """Tell what ``tree.health()`` tells."""
        found = health(self._system, self._leadership)
        problems = [{"path": each.path, "what": each.what} for each in found.problems]
        return {"ok": found.ok, "ready": found.ready, "problems": problems}


def _frames(stack: str | None) -> list[str]:
    """Return the lines of a stack: of each frame its place, and below that, indented, its source text."""
    lines = [line.strip() for line in (stack or "").splitlines() if line.strip()]
    return [line if line.startswith("File ") else f"    {line}" for line in lines]


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn errors of a tree into those of a source."""
    try:
        yield
    except SourceError:
        raise
    except UnknownPathError as error:
        raise SourceError(404, str(error)) from error
    except ChildError as error:
        raise SourceError(404 if error.code == "not_found" else 409, str(error)) from error
    except TreeDownError as error:
        raise SourceError(503, str(error)) from error
    except ActorsError as error:
        raise SourceError(409, str(error)) from error


def _in_trouble(system: System) -> list[str]:
    """Return the paths of children that are neither running nor stopped, or have a breaker that is not closed.

    No record of each child is made: a tree may have 100,000 of them.
    """
    found = [path for path, child in system.children.copy().items() if child.state not in _CALM]
    for above, port in service_of(system).scopes.copy().items():
        open_ = [each.id for each in port.workers if each.breaker is not None and each.breaker.state != "closed"]
        found += [f"{above}/{id_}" for id_ in open_]
    return list(dict.fromkeys(found))
