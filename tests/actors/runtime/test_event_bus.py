"""Subscribers that raise, are slow or leave, and the log, which must not be lost (``actors.runtime.event_bus``)."""

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from loguru import logger

from actors import (
    ChildExited,
    DeadLetter,
    Event,
    EventsLost,
    RestartLimitError,
    SubscriberDropped,
    Worker,
)
from actors.model.events import InternalError, RequestFailed
from actors.runtime.event_bus import BACKLOG_WEIGHT, Bus, weight_of
from actors.runtime.event_log import describe
from actors.testing import settle
from tests.support.hardening import LONG_S, Gate, eventually
from trees import SupervisorSpec, WorkerSpec, start


class Later:
    """A pool that runs its jobs when it is told to."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def submit(self, job: Any) -> None:
        self.jobs.append(job)

    def run(self) -> None:
        while self.jobs:
            self.jobs.pop(0).run()


DIVIDES = WorkerSpec(id="w", handle=lambda _: 1 / 0, restart="permanent")


def letter(number: int) -> DeadLetter:
    return DeadLetter(f"r/{number}", "full", "int", None)


def test_who_has_unsubscribed_gets_nothing_of_what_waits() -> None:
    pool, got = Later(), []
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]
    end = bus.subscribe(got.append)
    for number in range(100):
        bus.publish(letter(number))
    end()
    pool.run()
    bus.publish(letter(1))
    pool.run()

    assert got == []


def test_a_round_has_what_was_published_before_it_and_what_comes_in_the_middle_of_it_is_another() -> None:
    pool, told = Later(), list[object]()
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]

    def hear(event: Event) -> None:
        told.append(event.path)
        if event.path == "r/1":
            bus.publish(letter(3))

    bus.subscribe(hear, begins=lambda: told.append("round"))
    bus.publish(letter(1))
    bus.publish(letter(2))
    pool.run()

    assert told == ["round", "r/1", "r/2", "round", "r/3"]


@pytest.mark.parametrize("change", ["joins", "leaves"])
def test_who_joins_or_leaves_while_the_takers_of_a_kind_are_looked_for_counts_from_the_next_event_on(
    change: str,
) -> None:
    pool, seen, got = Later(), list[Event](), list[Event]()
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]
    later = [lambda: bus.subscribe(got.append)]

    def wants(_: type[Event]) -> bool:  # asked once there is a copy of those that there are
        if later:
            later.pop()()
        return True

    if change == "leaves":
        later = [bus.subscribe(got.append)]
    bus.subscribe(seen.append, wants=wants)
    for number in range(3):
        bus.publish(letter(number))
    pool.run()

    assert seen == [letter(number) for number in range(3)]
    assert got == ([letter(1), letter(2)] if change == "joins" else [])


def test_who_wants_some_kinds_only_is_asked_once_for_each_and_gets_no_others() -> None:
    pool, got, asked = Later(), list[Event](), list[type[Event]]()

    def wants(kind: type[Event]) -> bool:
        asked.append(kind)
        return kind is DeadLetter

    bus = Bus(pool, "r", float)  # type: ignore[arg-type]
    bus.subscribe(got.append, wants=wants)
    told = [letter(1), InternalError("r", ValueError()), letter(2), InternalError("r", ValueError())]
    for event in told:
        bus.publish(event)
    pool.run()

    assert got == [told[0], told[2]]
    assert asked == [DeadLetter, InternalError]


def test_who_unsubscribes_while_an_event_is_delivered_gets_no_other() -> None:
    pool, got = Later(), []
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]

    def once(event: Event) -> None:
        got.append(event)
        end()

    end = bus.subscribe(once)
    for number in range(3):
        bus.publish(letter(number))
    pool.run()

    assert got == [letter(0)]


def test_who_waits_for_the_delivery_is_told_also_after_the_subscriber_has_left() -> None:
    with start(SupervisorSpec(id="r", children=[WorkerSpec(id="w", actor=Worker)])) as tree:
        gate = Gate()
        end = tree.subscribe(lambda _: gate())
        tree.ref("r/w").tell("nobody handles this")
        gate.wait_reached()
        waits = threading.Thread(target=settle, args=(tree,))
        waits.start()
        end()
        gate.open.set()
        waits.join(60)

        assert not waits.is_alive()


class Unprintable(Exception):  # noqa: N818 - the name says what is wrong with it
    """Raises wherever its text is asked for."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class BadNotes(Exception):  # noqa: N818
    """Python itself cannot format it."""

    @property
    def __notes__(self) -> list[str]:
        raise SystemExit("notes")


class BadTruth(Exception):  # noqa: N818
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class BadKind(type):
    @property
    def __name__(cls) -> str:
        raise RuntimeError("no name")

    @property
    def __module__(cls) -> str:
        raise RuntimeError("no module")


class BadEqual(Exception):  # noqa: N818
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = Exception.__hash__


BadName = BadKind("BadName", (Exception,), {})

HOSTILE = [Unprintable, BadNotes, BadTruth, BadEqual, BadName]


@pytest.mark.parametrize("kind", HOSTILE, ids=["str", "notes", "bool", "eq", "name"])
def test_an_event_with_an_error_that_cannot_be_formatted_is_a_line_all_the_same(kind: Callable[[], Exception]) -> None:
    line = describe(InternalError("r", kind()))

    assert line.startswith("r: InternalError")
    assert vars(type)["__name__"].__get__(kind) in line


@pytest.mark.parametrize("kind", HOSTILE, ids=["str", "notes", "bool", "eq", "name"])
def test_a_worker_that_dies_of_an_error_that_cannot_be_formatted_is_restarted(kind: Callable[[], Exception]) -> None:
    def handle(message: str) -> str:
        if message == "die":
            raise kind()
        return message

    with start(SupervisorSpec(id="r", children=[WorkerSpec(id="w", handle=handle)])) as tree:
        heard: list[Event] = []
        tree.subscribe(heard.append)
        tree.ref("r/w").tell("die")

        assert tree.ref("r/w").ask("again") == "again"
        assert tree.child("r/w").incarnation == 2
        settle(tree)
        assert [type(event) for event in heard if isinstance(event, (ChildExited, SubscriberDropped))] == [ChildExited]
        assert "last exit: crashed" in tree.dump()


@pytest.fixture
def sink() -> Iterator[list[Any]]:
    """Takes what the sink is to do with each line: raise what stands there first, else keep it."""
    script: list[Any] = []
    kept: list[Any] = []

    def write(message: Any) -> None:
        if script:
            raise script.pop()
        kept.append((message.record["level"].name, str(message)))

    number = logger.add(write, catch=False, level="TRACE")
    yield [script, kept]
    logger.remove(number)


def test_a_sink_that_raises_loses_its_line_and_no_other(sink: list[Any]) -> None:
    script, kept = sink
    with start(
        SupervisorSpec(id="r", children=[WorkerSpec(id="w", handle=lambda _: 1 / 0, restart="permanent")])
    ) as tree:
        settle(tree)
        kept.clear()
        script[:] = [OSError("disk full"), SystemExit("a sink")]
        with pytest.raises(ZeroDivisionError):
            tree.ref("r/w").ask(1)
        settle(tree)
        with pytest.raises(ZeroDivisionError):
            tree.ref("r/w").ask(1)
        settle(tree)

    assert not script
    assert any("EventsLost count=2" in line for _, line in kept), kept
    assert any("ChildRestarting" in line for _, line in kept), kept


def test_a_root_that_gives_up_is_critical_in_the_log_also_after_a_line_that_failed(sink: list[Any]) -> None:
    script, kept = sink
    spec = SupervisorSpec(
        id="r", max_restarts=1, children=[WorkerSpec(id="w", handle=lambda _: 1 / 0, restart="permanent")]
    )
    tree = start(spec)
    settle(tree)
    script[:] = [OSError("disk full")]
    for _ in range(3):
        with pytest.raises(Exception, match=r".*"):
            tree.ref("r/w").ask(1, timeout=5)
    with pytest.raises(RestartLimitError):
        tree.wait(60)

    assert "CRITICAL" in [level for level, _ in kept]


# -- what waits is bounded ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "weight"),
    [
        (letter(1), 0),
        (InternalError("r", ValueError()), 1),
        (RequestFailed("r", ValueError("x" * 4095), asked=True), 1),
        (RequestFailed("r", ValueError("x" * 4096, 5, b"y" * 4096), asked=True), 3),
        (InternalError("r", ValueError("x" * 4096 * BACKLOG_WEIGHT * 2)), BACKLOG_WEIGHT),
    ],
    ids=["no error", "an error", "a short text", "two texts", "more than there is room for"],
)
def test_an_event_weighs_what_it_keeps(event: Event, weight: int) -> None:
    assert weight_of(event) == weight


def test_what_waits_for_a_slow_subscriber_is_bounded_by_what_it_keeps() -> None:
    class Kept(Exception):  # noqa: N818
        """Told apart from others by its life."""

    pool, got, alive = Later(), [], []
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]
    bus.subscribe(got.append)
    for number in range(3 * BACKLOG_WEIGHT):
        error = Kept(number)
        alive.append(weakref.ref(error))
        for event in (RequestFailed("r", error, asked=True), letter(number)):
            bus.publish(event)
    del error
    gc.collect()

    assert sum(ref() is not None for ref in alive) == BACKLOG_WEIGHT
    pool.run()
    lost = got[0]
    assert isinstance(lost, EventsLost)
    assert lost.count + len(got) - 1 == 6 * BACKLOG_WEIGHT
    (subscription,) = bus._subscriptions
    assert not subscription._load
    assert [each.error.args[0] for each in got if isinstance(each, RequestFailed)] == list(
        range(2 * BACKLOG_WEIGHT, 3 * BACKLOG_WEIGHT)
    )


@dataclass(frozen=True)
class WithoutSlots(Event):
    """A kind of a user's, whose error stands in the dict of each record."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Inherits(RequestFailed):
    """A kind that has its error from another one."""


@pytest.mark.parametrize("kind", [InternalError, WithoutSlots, Inherits])
def test_whatever_kind_keeps_an_error_is_weighed_when_it_is_published(kind: Callable[..., Event]) -> None:
    pool, got = Later(), []
    bus = Bus(pool, "r", float)  # type: ignore[arg-type]
    bus.subscribe(got.append)
    more = {"asked": True} if kind is Inherits else {}
    for number in range(BACKLOG_WEIGHT + 10):
        bus.publish(letter(number))
        bus.publish(kind("r", error=ValueError(), **more))
    pool.run()

    assert sum(type(each) is kind for each in got) == BACKLOG_WEIGHT
    assert isinstance(got[0], EventsLost)


def test_no_weight_is_left_over_when_many_put_at_once() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    got: list[Event] = []
    try:
        with start(SupervisorSpec(id="r", children=[])) as tree:
            tree.subscribe(got.append)
            bus = tree._system.bus
            mine = list(bus._subscriptions)[-1]

            def many() -> None:
                for _ in range(500):
                    bus.publish(RequestFailed("r", ValueError("x" * 5000), asked=True))

            threads = [threading.Thread(target=many) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            settle(tree)
            eventually(lambda: not mine.queue)

            assert not mine._load
            lost = sum(event.count for event in got if isinstance(event, EventsLost))
            assert lost + sum(isinstance(event, RequestFailed) for event in got) == 2000
    finally:
        sys.setswitchinterval(interval)


async def awaits(_: Event) -> None:
    """Nothing that anybody would await."""


def test_a_subscriber_that_is_async_is_refused_and_one_that_returns_a_coroutine_is_dropped() -> None:
    dropped, heard = threading.Event(), list[Event]()

    def leaves_it(event: Event) -> object:
        return awaits(event)

    def hear(event: Event) -> None:
        heard.append(event)
        if isinstance(event, SubscriberDropped):
            dropped.set()

    with start(SupervisorSpec(id="t", children=[WorkerSpec(id="w", handle=str)])) as tree:
        with pytest.raises(TypeError, match="subscribe: a function is async, and nobody awaits it there"):
            tree.subscribe(awaits)
        tree.subscribe(hear)
        tree.subscribe(leaves_it)
        tree.terminate_child("t/w")
        assert dropped.wait(LONG_S)
    assert sum(isinstance(event, SubscriberDropped) for event in heard) == 1
