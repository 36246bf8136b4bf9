"""Small trees and a record of what happens in them, for the tests that watch a supervisor at work."""

from __future__ import annotations

import concurrent.futures
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from actors import ChildExited, ChildRestarting, Event, SystemClock
from actors.testing import AsyncFaultyWorker, FaultyWorker, ManualClock, settle
from trees import SupervisorSpec, Tree, WorkerSpec, start

LONG_S = 60.0
"""How long a test waits for what should happen at once: on a machine that does much else, a start may take 20 s."""
OFFSET_S = 1e5 + secrets.randbelow(10**6)
"""Added to the real clock, so that code which peeks at another clock is wrong at once."""
TARGETS: dict[str, tuple[str, Callable[[Any], WorkerSpec | SupervisorSpec]]] = {
    "a worker": ("shop/y", lambda handle: WorkerSpec(id="y", handle=handle)),
    "a pool": ("shop/y", lambda handle: WorkerSpec(id="y", handle=handle, pool=2)),
    "one of another supervisor": (
        "shop/desk/y",
        lambda handle: SupervisorSpec(id="desk", children=[WorkerSpec(id="y", handle=handle)]),
    ),
}
EACH_TARGET = pytest.mark.parametrize(("path", "target"), TARGETS.values(), ids=list(TARGETS))
"""Each names the path of somebody who may be asked in a ``shop``, and makes the child of that."""
EventT = TypeVar("EventT", bound=Event)


def faulty(id: str, *, dispatch: str = "pool", diary: list[str] | None = None, **words: Any) -> WorkerSpec:
    """A worker that fails on command; faults of its hooks and fields of its spec by name."""
    hooks = {name: words.pop(name) for name in ("in_init", "on_start", "on_stop", "on_failure") if name in words}
    actor = AsyncFaultyWorker if dispatch == "loop" else FaultyWorker
    return WorkerSpec(id=id, actor=actor, kwargs={"diary": diary, **hooks}, dispatch=dispatch, **words)  # type: ignore[arg-type]


def shop(*children: WorkerSpec | SupervisorSpec, **words: Any) -> SupervisorSpec:
    """A root of this name."""
    return SupervisorSpec(id="shop", children=children, **words)


class Record:
    """Every event of a tree from now on."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.events: list[Event] = []
        self._more = threading.Condition()
        tree.subscribe(self._add)

    def _add(self, event: Event) -> None:
        with self._more:
            self.events.append(event)
            self._more.notify_all()

    def of(self, kind: type[EventT], path: str | None = None) -> list[EventT]:
        """Events of one kind so far, all of them or those at one path."""
        if self.tree.is_alive:
            self.tree._system.bus.flush(LONG_S)
        return self._delivered(kind, path)

    def _delivered(self, kind: type[EventT], path: str | None) -> list[EventT]:
        with self._more:
            return [event for event in self.events if isinstance(event, kind) and path in {None, event.path}]

    def wait_for(self, kind: type[EventT], path: str | None = None, count: int = 1) -> list[EventT]:
        """The same, once there are ``count`` of them."""
        with self._more:
            enough = self._more.wait_for(lambda: len(self._delivered(kind, path)) >= count, LONG_S)
        assert enough, f"{kind.__name__} of {path} came {len(self._delivered(kind, path))} times, wanted {count}"
        return self._delivered(kind, path)

    def exits(self, path: str) -> list[str]:
        """The reasons of all exits at a path."""
        return [str(event.reason) for event in self.of(ChildExited, path)]

    def restarts(self, path: str | None = None) -> int:
        """How many restart attempts were decided."""
        return len(self.of(ChildRestarting, path))


@contextmanager
def running(spec: SupervisorSpec, **options: Any) -> Iterator[Tree]:
    """The tree of a spec on a real clock that is far from any other, unless another one is given."""
    options.setdefault("clock", SystemClock(offset_s=OFFSET_S))
    with start(spec, **options) as tree:
        yield tree


@contextmanager
def doomed(spec: SupervisorSpec, **options: Any) -> Iterator[Tree]:
    """The same for a tree whose root may give up: leaving the block stops it and raises nothing."""
    options.setdefault("clock", SystemClock(offset_s=OFFSET_S))
    tree = start(spec, **options)
    try:
        yield tree
    finally:
        tree.stop()


@contextmanager
def meanwhile(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Iterator[concurrent.futures.Future[Any]]:
    """Run a call on another thread while the block runs; it must be over soon after."""
    with concurrent.futures.ThreadPoolExecutor(1) as other:
        future = other.submit(call, *args, **kwargs)
        yield future
        concurrent.futures.wait([future], LONG_S)


def until(seen: Callable[[], object], clock: ManualClock | None = None, by: float = 0.0) -> None:
    """Wait until something can be seen from outside; meanwhile move the clock, if one is given."""
    pause = threading.Event()
    for _ in range(2000):
        if seen():
            return
        if clock is not None:
            clock.advance(by)
        pause.wait(0.01)
    raise TimeoutError("it was not seen")


def states(tree: Tree, path: str = "shop") -> dict[str, str]:
    """The state of each child, in start order."""
    return {child.id: child.state for child in tree.which_children(path)}


def incarnations(tree: Tree, path: str = "shop") -> dict[str, int]:
    """The incarnation of each child, in start order."""
    return {child.id: child.incarnation for child in tree.which_children(path)}


def crash(tree: Tree, path: str) -> None:
    """Crash a worker and return when all that follows from it is done."""
    tree.ref(path).tell("raise ValueError")
    settle(tree)


def hooks(diary: list[str]) -> list[str]:
    """A diary without what its tree was called and without the building of objects."""
    return [line.replace(" shop/", " ") for line in diary if not line.startswith("__init__")]
