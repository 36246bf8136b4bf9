"""What the hardening tests share: victims that do what a message says, and a witness of all that happens."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pykka
import pytest

from actors import Event, Worker
from actors.model.clock import monotonic
from tests.support import programs
from trees import SupervisorSpec, Tree, WorkerSpec, start

LONG_S = 60.0
"""Far longer than anything here takes: a wait that lasts so long has failed."""
ROOT = Path(__file__).parents[2]


class Victim:
    """Calls the message, if that is possible, with itself."""

    def on_receive(self, message: Any) -> Any:
        return message(self) if callable(message) else message

    def total(self) -> int:
        return 42


class Ours(Victim, Worker):
    """A victim of this library."""


class Stock(Victim, pykka.ThreadingActor):
    """A victim that knows only Pykka."""


BOTH = pytest.mark.parametrize("kind", [Ours, Stock])


def kind_with(kind: type[Any], **members: Any) -> type[Any]:
    """The same kind of victim, with these methods and attributes."""
    return type(f"{kind.__name__}Victim", (kind,), members)


def obey(message: Any) -> Any:
    """A ``handle=`` that calls the message."""
    return message() if callable(message) else message


async def obey_async(message: Any) -> Any:
    """The same on the event loop: calls the message, and awaits what that gives."""
    result = message() if callable(message) else message
    return await result if hasattr(result, "__await__") else result


def crash(*_: object) -> None:
    """A handler, or a message, that crashes."""
    raise ValueError("boom")


def worker(id_: str, target: Any = obey, **fields: Any) -> WorkerSpec:
    """A worker of any target."""
    kind = "actor" if isinstance(target, type) else "handle"
    return WorkerSpec(id=id_, **{kind: target}, **fields)


def root(*children: WorkerSpec | SupervisorSpec, **fields: Any) -> SupervisorSpec:
    """The root ``t``, which bears many restarts."""
    return SupervisorSpec(id="t", children=list(children), **{"max_restarts": 100_000, **fields})


@contextmanager
def tree_of(*children: WorkerSpec | SupervisorSpec, **fields: Any) -> Iterator[Tree]:
    """A running tree of these children under the root ``t``."""
    with start(root(*children, **fields)) as tree:
        yield tree


DELIVERY_S = LONG_S
"""How long a test waits for events that have happened to be delivered; only one that is held up takes it all."""


class Witness:
    """Keeps every event of a tree, and waits for those to come."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.events: list[Event] = []
        self._news = threading.Condition()
        self.leave = tree.subscribe(self._see)

    def _see(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def of(self, kind: type[Any], **facts: Any) -> list[Any]:
        """The events of this kind, with these facts, so far."""
        if self.tree.is_alive:
            self.tree._system.bus.flush(DELIVERY_S)
        return self._delivered(kind, facts)

    def _delivered(self, kind: type[Any], facts: dict[str, Any]) -> list[Any]:
        return [event for event in list(self.events) if _fits(event, kind, facts)]

    def wait(self, kind: type[Any], count: int = 1, **facts: Any) -> Any:
        """The ``count``-th event of this kind, with these facts, as soon as there is one."""
        with self._news:
            found = self._news.wait_for(lambda: len(self._delivered(kind, facts)) >= count, LONG_S)
        assert found, f"{kind.__name__} {facts} did not happen {count} times: {self.events}"
        return self._delivered(kind, facts)[count - 1]


def _fits(event: Event, kind: type[Any], facts: dict[str, Any]) -> bool:
    return isinstance(event, kind) and all(getattr(event, name) == value for name, value in facts.items())


class Gate:
    """A place that a handler reaches, and leaves when it is let go."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, *_: Any) -> str:
        self.reached.set()
        assert self.open.wait(LONG_S)
        return "through"

    def wait_reached(self) -> None:
        """Wait until somebody stands in it."""
        assert self.reached.wait(LONG_S)


def in_thread(function: Callable[[], Any]) -> Callable[[], Any]:
    """Begin to run it in a thread; the result waits for its end, and returns or raises what it did."""
    outcome: list[Any] = []

    def main() -> None:
        try:
            outcome.append((function(), None))
        except BaseException as error:  # noqa: BLE001 - handed over
            outcome.append((None, error))

    thread = threading.Thread(target=main, name="helper of a test")
    thread.start()

    def result() -> Any:
        thread.join(LONG_S)
        assert not thread.is_alive(), "still running"
        value, error = outcome[0]
        if error is not None:
            raise error
        return value

    return result


def eventually(condition: Callable[[], Any], what: str = "it", *, within_s: float = LONG_S) -> Any:
    """Wait for something that announces itself nowhere: the end of a thread, a count."""
    pause, end = threading.Event(), monotonic() + within_s
    while not (result := condition()):
        assert monotonic() < end, f"{what} did not come true"
        pause.wait(0.002)
    return result


def counted(count: Callable[[], int], wanted: int, what: str) -> None:
    """Wait until so many are done: as long as it takes, on a slow machine too, but never where nothing gets on."""
    pause, end, before = threading.Event(), monotonic() + LONG_S, -1
    while (now := count()) < wanted:
        if now != before:
            end, before = monotonic() + LONG_S, now
        assert monotonic() < end, f"{what}: {now} of {wanted}, and no more came for {LONG_S:g} s"
        pause.wait(0.05)


def life_of(tree: Tree, path: str) -> Any:
    """The present life at a path."""
    return tree._system.children[path].incarnation


def threads_named(prefix: str) -> list[threading.Thread]:
    """The living threads whose names begin like that."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(prefix)]


@contextmanager
def switching_fast() -> Iterator[None]:
    """Threads take turns every microsecond, so that rare orders of events are common."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def python(code: str, timeout_s: float = 40.0) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    head = """
        import sys, os, threading, time
        from loguru import logger
        logger.remove()
        import pykka, actors
        from actors import Worker
        from trees import SupervisorSpec, WorkerSpec, start
    """
    program = textwrap.dedent(head) + textwrap.dedent(code)
    return programs.ran("-c", program, cwd=ROOT, timeout=timeout_s)


class Stop:
    """Holds the first thread that calls a method under a condition, before or after the call itself."""

    def __init__(self, original: Callable[..., Any], when: Callable[..., bool], *, after: bool) -> None:
        self._original = original
        self._when = when
        self._after = after
        self._armed = threading.Lock()
        self.gate = Gate()

    def method(self) -> Callable[..., Any]:
        """What stands in for the original."""

        def call(*args: Any, **kwargs: Any) -> Any:
            held = self._when(*args) and self._armed.acquire(blocking=False)
            if held and not self._after:
                self.gate()
            result = self._original(*args, **kwargs)
            if held and self._after:
                self.gate()
            return result

        return call


def gone(*references: Callable[[], object]) -> bool:
    """True when none of these weak references leads anywhere any more."""
    gc.collect()
    return all(reference() is None for reference in references)
