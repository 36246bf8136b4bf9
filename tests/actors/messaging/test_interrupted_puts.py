"""A put that is cut short, or that comes in the middle of another piece of the library.

A signal handler may raise between any two instructions of the thread that tells; the garbage collector may run a
finalizer that tells, in the middle of anything, also under a lock. Both are forced at every step, one after the other.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import actors
from actors import DeadLetter
from actors.concurrency.disposal import Disposal
from actors.execution import pool
from actors.runtime import event_bus
from actors.testing import settle
from tests.support.hardening import LONG_S, eventually, obey, obey_async, tree_of, worker
from tests.support.steps import alarm, rounds
from trees import Mailbox, Tree

pytestmark = [
    pytest.mark.own_thread,
    pytest.mark.skipif(
        (3, 12) <= sys.version_info < (3, 12, 2), reason="CPython 3.12.1 may die of sys.settrace here (SIGSEGV)"
    ),
]

OURS = str(Path(actors.__file__).parent)
PUT = {
    f"{OURS}/{name}.py"
    for name in (
        "messaging/inbox",
        "messaging/mailbox",
        "messaging/pool_address",
        "messaging/ref",
        "execution/loop",
        "execution/loop_scheduler",
        "execution/pool",
        "execution/pinned_thread",
        "concurrency/wakeup",
    )
}

TARGETS: dict[str, dict[str, Any]] = {
    "on the pool": {"target": obey},
    "on the loop": {"target": obey_async},
    "on a thread": {"target": obey, "dispatch": "thread"},
    "a pool": {"target": obey, "pool": 3},
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("threads", ["parked", "none"])
def test_an_exception_at_any_step_of_a_tell_leaves_a_worker_that_handles_the_next_message(
    kind: str, threads: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if threads == "none":
        monkeypatch.setattr(pool, "IDLE_S", 0.001)  # so that most puts have to start a thread
    fields = dict(TARGETS[kind])
    with tree_of(worker("w", fields.pop("target"), **fields)) as tree:
        target = tree.ref("t/w")

        def again() -> None:
            assert target.ask("next", timeout=LONG_S) == "next"

        again()
        steps = rounds(alarm, PUT, again, lambda: target.tell("message"))
        settle(tree)
        assert target.depth == 0

    assert steps > 30


class Finalized:
    """Tells when it is collected; in a cycle, so that only the collector finds it."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self.me = self
        self.tell = tell


def _told(tree: Tree, seen: list[int], done: threading.Event) -> Callable[[], None]:
    targets = [tree.ref(path) for path in ("t/pooled", "t/looped", "t/pool", "t/bounded")]

    def tell() -> None:
        for target in targets:
            target.tell(lambda: seen.append(1))
        done.set()

    return tell


def test_a_tell_in_the_middle_of_a_tell_or_an_ask_waits_for_nothing_and_is_handled() -> None:
    """As a finalizer does it: at every step of the put, on the thread that puts."""
    seen: list[int] = []
    children = [
        worker("pooled"),
        worker("looped", obey_async),
        worker("pool", pool=3),
        worker("bounded", mailbox=Mailbox(capacity=1000, overflow="reject")),
    ]
    with tree_of(*children) as tree:
        done = threading.Event()
        tell = _told(tree, seen, done)
        total = 0
        for path in ("t/pooled", "t/looped", "t/pool", "t/bounded"):
            target = tree.ref(path)
            total += rounds(tell, PUT, done.clear, lambda target=target: target.ask("m", timeout=LONG_S)) - 1
        settle(tree)

        assert len(seen) == 4 * total
        assert not tree._system.dead_letters


MOST = 300
HOLDERS = {"take", "begin_run", "_next_batch", "_is_idle", "next_job", "_run_ready", "run", "complete"}
"""What runs on the tree's own threads, under a lock or between two steps of a protocol."""


@pytest.mark.parametrize("name", sorted(HOLDERS))
def test_a_tell_in_the_middle_of_what_the_trees_own_threads_do_is_handled(name: str) -> None:
    """The collector may run there, also while a lock is held: nothing that a tell needs is behind that lock."""
    seen: list[int] = []
    inside, armed = threading.local(), threading.Event()
    steps = 0

    def trace_in(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal steps
        if event == "opcode" and not getattr(inside, "tells", False) and armed.is_set() and steps < MOST:
            inside.tells = True
            steps += 1
            try:
                tell()
            finally:
                inside.tells = False
        return trace_in

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code.co_name != name or not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return trace_in

    threading.settrace(trace)
    try:
        with tree_of(worker("w"), worker("v"), worker("looped", obey_async), worker("pool", pool=3)) as tree:
            targets = [tree.ref(path) for path in ("t/v", "t/looped", "t/pool")]

            def tell() -> None:
                for target in targets:
                    target.tell(lambda: seen.append(1))

            armed.set()
            for _ in range(5):
                for path in ("t/w", "t/v", "t/looped", "t/pool"):
                    assert tree.ref(path).ask("m", timeout=LONG_S) == "m"
            armed.clear()
            settle(tree)

            # A thread that was in the middle of a step tells after that.
            eventually(lambda: len(seen) == 3 * steps, f"{len(seen)} of {3 * steps} messages")
            assert steps > 10
    finally:
        threading.settrace(None)  # type: ignore[arg-type]


class Jobs:
    """A pool that runs its jobs when it is told to, on this thread."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []

    def submit(self, job: Any) -> None:
        self.waiting.append(job)

    def run(self) -> None:
        while self.waiting:
            self.waiting.pop().run()


BESIDE = {f"{OURS}/{name}.py" for name in ("runtime/event_bus", "concurrency/disposal", "concurrency/wakeup")}


def test_an_exception_at_any_step_of_a_publish_leaves_a_bus_that_delivers_the_next_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_bus, "GATHER_S", 0.0)
    jobs, got = Jobs(), list[Any]()
    events = event_bus.Bus(jobs, "r", float)  # type: ignore[arg-type]
    events.subscribe(got.append)
    letter = DeadLetter("r/w", "full", "int", None)

    def again() -> None:
        got.clear()
        events.publish(letter)
        jobs.run()
        assert letter in got

    steps = rounds(alarm, BESIDE, again, lambda: events.publish(letter))

    assert steps > 30


def test_an_exception_at_any_step_of_what_is_handed_to_a_disposal_leaves_one_that_lets_go_of_the_next_thing() -> None:
    jobs = Jobs()
    disposal = Disposal(jobs.submit)

    def again() -> None:
        thing = threading.Event()
        gone = weakref.ref(thing)
        disposal.put([thing])
        del thing
        jobs.run()
        assert gone() is None

    steps = rounds(alarm, BESIDE, again, lambda: disposal.put([object()]))

    assert steps > 10


def test_a_put_in_the_middle_of_a_disposal_or_of_a_delivery_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_bus, "GATHER_S", 0.0)
    jobs, got = Jobs(), list[Any]()
    events = event_bus.Bus(jobs, "r", float)  # type: ignore[arg-type]
    events.subscribe(got.append)
    letter = DeadLetter("r/w", "full", "int", None)
    disposal = Disposal(jobs.submit)
    left: list[weakref.ref[threading.Event]] = []

    def both() -> None:
        thing = threading.Event()
        left.append(weakref.ref(thing))
        disposal.put([thing])
        events.publish(letter)

    def middle() -> None:
        tracer = sys.gettrace()
        sys.settrace(None)
        both()
        sys.settrace(tracer)

    def do() -> None:
        both()
        jobs.run()

    def again() -> None:
        jobs.run()
        assert [one for one in left if one() is not None] == []
        assert len(got) == len(left)

    steps = rounds(middle, BESIDE, again, do)

    assert steps > 100
