"""What is listed as long as somebody holds it: another thread may change the list while one looks at it."""

import gc
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from actors.concurrency import thread_state
from actors.concurrency.weak_registry import WeakRegistry
from actors.messaging.reply import Reply
from actors.runtime import living_trees


class Thing:
    """As much of a tree as is looked at."""

    root_path = "t"
    is_down = False

    def __init__(self) -> None:
        self.seen = 0

    def publish(self, event: object) -> None:
        assert event is not None

    def stop(self) -> Reply:
        self.seen += 1
        ended = Reply()
        ended.complete()
        return ended

    def forked(self) -> None:
        self.seen += 1


def at_every_call_and_line(act: Callable[[], None], do: Callable[[], None]) -> None:
    """Have ``act`` done between any two lines of whatever Python code ``do`` runs, as another thread might."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is not act.__code__:
            sys.settrace(None)
            act()
            sys.settrace(trace)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        do()
    finally:
        sys.settrace(before)


LOOKS: dict[str, Callable[[], None]] = {
    "the interpreter ends": living_trees._stop_all,
    "a process is forked": thread_state._forked,
}


@pytest.mark.parametrize("look", LOOKS)
def test_trees_that_come_and_end_meanwhile_hide_no_other(look: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine: WeakRegistry[Any] = WeakRegistry()
    monkeypatch.setattr(living_trees, "LIVING", mine)
    monkeypatch.setattr(thread_state, "_HEAR_OF_FORKS", mine)
    things, others = [Thing() for _ in range(3)], [Thing()]
    for thing in things:
        mine.add(thing)

    def come_and_end() -> None:
        mine.discard(others[-1])
        others.append(Thing())
        mine.add(others[-1])

    at_every_call_and_line(come_and_end, LOOKS[look])

    assert [thing.seen for thing in things] == [1, 1, 1]
    assert len(others) > 3


def test_it_holds_nothing_alive_and_takes_each_thing_once() -> None:
    registry: WeakRegistry[Thing] = WeakRegistry()
    kept, gone = Thing(), Thing()
    for thing in (kept, gone, kept):
        registry.add(thing)
    del gone, thing
    gc.collect()

    assert registry.snapshot() == [kept]
    registry.discard(kept)
    registry.discard(kept)
    assert registry.snapshot() == []


@pytest.mark.stress
def test_snapshots_of_one_thread_while_others_change_it() -> None:
    registry: WeakRegistry[Thing] = WeakRegistry()
    kept, over, interval = [Thing() for _ in range(20)], threading.Event(), sys.getswitchinterval()
    for thing in kept:
        registry.add(thing)

    def churn() -> None:
        while not over.is_set():
            things = [Thing() for _ in range(10)]
            for thing in things:
                registry.add(thing)
            registry.discard(things[0])

    threads = [threading.Thread(target=churn) for _ in range(2)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(2000):
            assert set(kept) <= set(registry.snapshot())
    finally:
        sys.setswitchinterval(interval)
        over.set()
        for thread in threads:
            thread.join()


def test_what_a_signal_handler_raises_is_not_lost_where_a_thing_is_let_go_of() -> None:
    """A callback would run there, and Python prints what is raised in one: Ctrl-C would have no effect."""
    registry: WeakRegistry[Thing] = WeakRegistry()
    things = [Thing() for _ in range(40)]
    for thing in things:
        registry.add(thing)
    del thing
    ran: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name) if event == "call" else None)
    try:
        things.clear()
    finally:
        sys.setprofile(before)

    assert ran == []
    assert registry.snapshot() == []


def test_what_is_left_of_those_that_are_gone_does_not_pile_up() -> None:
    registry: WeakRegistry[Thing] = WeakRegistry()
    kept = Thing()
    registry.add(kept)
    for _ in range(1000):
        registry.add(Thing())

    assert len(registry._refs) <= 16
    assert registry.snapshot() == [kept]
