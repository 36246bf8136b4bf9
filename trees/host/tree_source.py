"""Source of a live tree: what its page, its console and its terminal show, and the acts of a person on it.

Everything but the tree's health is read as a dump reads it: in the thread of whoever asks, from single reads, without
asking a supervisor or a worker. Acts are the calls of a ``Tree``; each that was carried out is an event
(``Operated``) with who has done it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict
from typing import Final, Literal

from actors.model.errors import UnknownPathError
from actors.model.events import Event
from actors.model.spec import Restart
from actors.runtime import child_admin
from actors.runtime.system import System
from actors.supervision.child import Child
from trees.agents.packages import package_flaw
from trees.agents.tree_gauges import busy_workers
from trees.ha.roles import Leadership
from trees.host.task_source import TaskSource, refusing
from trees.host.tree_health import health
from trees.observe.alert_notifier import AlertNotifier
from trees.observe.child_history import ChildHistory
from trees.observe.metrics import PROMETHEUS, TreeCollector, text_of
from trees.observe.source import ACTS, ROWS, VERSION, Shape, SourceError
from trees.observe.tree_shapes import Rooms, found_by, role_of, row_of, rows, settings_of
from trees.views.capture import capture, children_by_state
from trees.views.snapshot import PoolSnapshot, TreeSnapshot, WorkerSnapshot

_MOST_ATTEMPTS: Final = 50
_NO_ROOM: Final = Rooms((), 0)
_LATELY_S: Final = 60.0
"""Restarts of so many seconds are told with a row."""


class TreeSource(TaskSource):
    """A tree of this process."""

    kind: Literal["tree", "console", "store"] = "tree"

    def __init__(
        self, system: System, leadership: Leadership, notifiers: Sequence[AlertNotifier], *, content: bool = False
    ) -> None:
        super().__init__(system, leadership, content=content)
        self._notifiers = notifiers
        self._history = ChildHistory(system.error_texts)
        self._collector = TreeCollector()
        self.close = system.bus.subscribe(self._history.hear, wants=self._history.wants)
        """Hear nothing more."""
        # What was before anybody looked is what most come here for: the last end of each child.
        ends = [(path, child.last_exit) for path, child in system.children.copy().items()]
        for path, last in sorted(((path, last) for path, last in ends if last is not None), key=lambda end: end[1].at):
            self._history.recall(path, last.reason, last.detail, system.epoch + last.at)

    def without_content(self) -> TreeSource:
        """Return the same source without goals, questions, inputs and results. It ends with this one."""
        other = copy.copy(self)
        other._content = False  # noqa: SLF001 - of its own class
        return other

    @property
    def name(self) -> str:
        """Id of the root."""
        return self._system.root_path

    # -- looking -------------------------------------------------------------------------------------------

    def snapshot(
        self, unfold: Collection[str] = (), limit: int = ROWS, text: str = "", troubled: bool = False
    ) -> Shape:
        """The tree as rows; all children are searched, also those that are folded."""
        keep, hits = frozenset[str](), None
        if text or troubled:
            keep, hits = found_by(self._in_trouble() if troubled else list(self._system.children), text, limit)
        taken = self._capture(None, Rooms(unfold, limit, keep), keep)
        found, total, cut = rows(taken, unfold, limit, keep)
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
            "health": asdict(health(self._system, self._leadership)),
            "rows": found,
            "total": max(total, everything),
            "children": children_by_state(self._system),
            "cut": cut or everything > len(found),
            "found": hits,
            "now": {
                **self.now(),
                "crashes": self._history.crashes(),
                "dead_letters": taken.dead_letters,
                "alerts": [alert for notifier in tuple(self._notifiers) for alert in notifier.firing()],
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
        workers = [top] if isinstance(top, WorkerSnapshot) else []
        if isinstance(top, PoolSnapshot):
            workers = [each for each in top.members or () if each.stack]
        frames: list[str] = []
        for each in workers:
            if len(workers) > 1:
                frames.append(f"{each.path}:")
            frames += _frames("\n".join([each.stack or "", *(each.abandoned_stacks or ())]))
        return {"version": VERSION, "frames": frames}

    def subscribe(self, callback: Callable[[Shape], object]) -> Callable[[], None]:
        """Have all that happens told, as plain values."""
        errors, content = self._system.error_texts, self._content

        def tell(event: Event) -> None:
            callback(event.as_dict(content=content, errors=errors))

        return self._system.bus.subscribe(tell)

    def metrics(self) -> str | None:
        """Metrics, counted from the first look on; None: prometheus-client is not installed."""
        if package_flaw(*PROMETHEUS) is not None:
            return None
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
            states = {child.state for child in children}
            goes_on = not states.isdisjoint({"running", "restarting"})
            if system.root in children:
                raise SourceError(409, "The root is not restarted or terminated from here; end its program instead.")
            if act == "terminate" and states == {"stopped"}:
                raise SourceError(409, f"{path} is stopped already.")
            if act == "unpark" and "parked" not in states:
                raise SourceError(409, f"{path} is not parked.")
            if act == "restart" and goes_on and any(each.spec.restart is Restart.TEMPORARY for each in children):
                raise SourceError(409, f"{path} is temporary: it is forgotten once it is terminated.")
            if act == "terminate" or (act == "restart" and goes_on):
                child_admin.terminate_child(system, path)
            if act != "terminate":
                child_admin.restart_child(system, path)
            return self._operated(path, act, by)

    # -- within --------------------------------------------------------------------------------------------

    def _children(self, path: str) -> list[Child]:
        """Return a child, or the members of a pool."""
        child = self._system.children.get(path)
        found = child_admin.members_of(self._system, path) if child is None else [child]
        if not found:
            raise UnknownPathError(path, self._system.near(path))
        return found

    def _capture(
        self, path: str | None, room: Rooms = _NO_ROOM, keep: Collection[str] = (), *, stacks: bool = False
    ) -> TreeSnapshot:
        with refusing():
            facts = self._leadership.facts()
            return capture(self._system, path, fold=True, stacks=stacks, leading=facts, room=room, keep=keep)

    def _complete(self, row: Shape) -> Shape:
        """Mark the row of a command worker, and add its process id."""
        child = self._system.children.get(row["path"])
        if child is not None:
            if getattr(child.spec.recipe, "program", None) is not None:
                row["kind"] = "command"
            if child.incarnation is not None and row["pid"] is None:
                row["pid"] = child.incarnation.pid
        return row

    def _in_trouble(self) -> list[str]:
        """Return the paths of children that are neither running nor stopped, or have a breaker that is not closed.

        No record of each child is made: a tree may have 100,000 of them.
        """
        children, scopes = self._system.children.copy(), self._service.scopes.copy()
        found = [path for path, child in children.items() if child.state not in {"running", "stopped"}]
        for above, scope in scopes.items():
            breakers = [(each.id, each.breaker) for each in scope.workers]
            found += [f"{above}/{id_}" for id_, each in breakers if each is not None and each.state != "closed"]
        return list(dict.fromkeys(found))


def _frames(stack: str) -> list[str]:
    """Return the lines of a stack: of each frame its place, and below that, indented, its source text."""
    lines = [line.strip() for line in stack.splitlines() if line.strip()]
    return [line if line.startswith("File ") else f"    {line}" for line in lines]
