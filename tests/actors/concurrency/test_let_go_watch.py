"""What is to be done when a thing is gone is done on another thread, and no code runs where it goes."""

from __future__ import annotations

import gc
import itertools
import queue
import sys
import threading
import weakref
from typing import Any

import pytest

from actors.concurrency import let_go_watch, wakeup
from actors.concurrency.let_go_watch import LetGoThread, LetGoWatch
from actors.model.weak_tables import WeakKeys, WeakValues
from tests.support.hardening import LONG_S, eventually
from tests.support.steps import alarm, rounds


class Thing:
    pass


def waiting(name: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if isinstance(each, LetGoThread) and each.name == name]


def code_that_runs_in(act: Any) -> list[str]:
    ran: list[str] = []
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: ran.append(frame.f_code.co_name) if event == "call" else None)
    try:
        act()
    finally:
        sys.setprofile(before)
    return ran


def test_what_a_signal_handler_raises_is_not_lost_where_a_watched_thing_goes() -> None:
    watch, done = LetGoWatch("one"), queue.SimpleQueue[str]()
    things = [Thing()]
    watch.watch(things[0], lambda: done.put(threading.current_thread().name))

    assert code_that_runs_in(things.clear) == []
    assert done.get(timeout=LONG_S) == "one"


def test_its_thread_ends_with_the_last_thing_and_another_begins_with_the_next() -> None:
    watch, done = LetGoWatch("two"), queue.SimpleQueue[int]()
    for number in range(3):
        thing, forgotten = Thing(), Thing()
        watch.watch(thing, lambda number=number: done.put(number))
        found = watch.watch(forgotten, lambda: done.put(-1))
        assert len(waiting("two")) == 1
        del thing
        assert done.get(timeout=LONG_S) == number
        watch.forget(found)
        watch.forget(found)
        eventually(lambda: not waiting("two"))

    assert done.empty()


@pytest.mark.parametrize("look", [1, 2], ids=["before the thread says so", "before it looks once more"])
def test_a_thing_that_comes_as_the_thread_finds_nothing_to_watch_is_watched(look: int) -> None:
    """The two orders: who comes finds the thread, which looks once more, or finds that it leaves."""
    watch, done, came = LetGoWatch("three"), queue.SimpleQueue[str](), threading.Event()
    late, looks = [Thing()], itertools.count(1)

    class Acts(dict[int, Any]):
        """A table into which a thing comes as the thread looks whether there is any."""

        def __len__(self) -> int:
            found = super().__len__()
            if isinstance(threading.current_thread(), LetGoThread) and not found and next(looks) == look:
                watch.watch(late[0], lambda: done.put(threading.current_thread().name))
                came.set()
                found = found if look == 1 else super().__len__()
            return found

    watch._acts = Acts()
    things = [Thing()]
    watch.watch(things[0], lambda: None)
    things.clear()
    assert came.wait(LONG_S)
    late.clear()

    assert done.get(timeout=LONG_S) == "three"
    eventually(lambda: not waiting("three"))


@pytest.mark.own_thread
def test_after_an_interrupt_in_any_step_of_a_watch_the_next_thing_is_watched() -> None:
    watch, things = LetGoWatch("six"), [Thing()]

    def go_on() -> None:
        nonlocal watch
        done = threading.Event()
        things.append(Thing())
        watch.watch(things[1], done.set)
        things.clear()
        assert done.wait(LONG_S)
        watch = LetGoWatch("six")
        things.append(Thing())

    files = {let_go_watch.__file__, wakeup.__file__}
    assert rounds(alarm, files, go_on, lambda: watch.watch(things[0], lambda: None)) > 40


def test_a_thing_that_comes_as_one_is_looked_up_that_was_forgotten_is_not_taken_for_it() -> None:
    """A reference that nobody holds any more gives its identity to the next one that is made."""
    watch, done, looked_up = LetGoWatch("five"), queue.SimpleQueue[str](), threading.Event()
    kept, forgotten, late = Thing(), Thing(), [Thing() for _ in range(1_000)]

    class Acts(dict[int, Any]):
        """A table in which things come just before a reference is looked up."""

        def pop(self, key: int, *otherwise: Any) -> Any:
            if isinstance(threading.current_thread(), LetGoThread) and not looked_up.is_set():
                self.update({id(each): (each, lambda: done.put("late")) for each in map(weakref.ref, late)})
                looked_up.set()
            return super().pop(key, *otherwise)

    watch._acts = Acts()
    watch.watch(kept, lambda: done.put("kept"))
    watch.forget(watch.watch(forgotten, lambda: done.put("forgotten")))
    assert looked_up.wait(LONG_S)
    del kept

    assert done.get(timeout=LONG_S) == "kept"
    assert done.empty()
    watch._acts.clear()
    watch._gone.put(weakref.ref(watch))
    eventually(lambda: not waiting("five"))


def test_what_raises_is_told_and_those_behind_it_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", told.append)
    watch, done = LetGoWatch("four"), queue.SimpleQueue[str]()
    things = [Thing(), Thing()]

    def fails() -> None:
        raise SystemExit("no")

    watch.watch(things[0], fails)
    watch.watch(things[1], lambda: done.put("done"))
    things.clear()

    assert done.get(timeout=LONG_S) == "done"
    eventually(lambda: told)
    assert told[0].exc_type is SystemExit


def test_no_code_runs_where_a_thing_of_a_table_goes_and_what_is_left_of_it_does_not_pile_up() -> None:
    values, keys = WeakValues[int, Thing](), WeakKeys[Thing, int]()
    things = [Thing() for _ in range(40)]
    for number, thing in enumerate(things):
        values.put(number, thing)
        keys.put(thing, number)
    assert [values.get(7), keys.get(things[7])] == [things[7], 7]
    del thing
    assert code_that_runs_in(things.clear) == []

    for number in range(1000):
        values.put(number, Thing())
        keys.put(Thing(), number)
    gc.collect()
    assert values.get(7) is None
    assert len(values._refs) + len(keys._values) <= 64


def test_what_belongs_to_a_thing_first_is_kept_and_nothing_of_one_that_is_gone_is_found() -> None:
    keys = WeakKeys[Thing, str]()
    things = [Thing()]
    assert [keys.first(things[0], "its"), keys.first(things[0], "other")] == ["its", "its"]
    things.clear()

    assert [keys.get(Thing()) for _ in range(100)] == [None] * 100
