"""Reading the events of a task, however a reading is cut short, closed, or gone on with."""

from __future__ import annotations

import asyncio
import gc
import itertools
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any

import pytest

from actors import Reply
from actors.tasks.orchestration.event_feed import Feed
from tests.support.asking import LONG_S
from trees import (
    Planned,
    StaticPlan,
    StoreError,
    Subtask,
    SubtaskQueued,
    SubtaskStarted,
    SubtaskStreamed,
    SubtaskSucceeded,
    SupervisorSpec,
    Task,
    TaskFinished,
    TaskHandle,
    Tasks,
    TaskSubmitted,
    WorkerSpec,
    start,
)
from trees.host.event_reading import EventReading, Turn
from trees.host.journal_follower import JournalFollower

BEFORE = [TaskSubmitted, Planned, SubtaskQueued, SubtaskStarted, SubtaskStreamed]
STRIDE = 37
STORY = [*BEFORE, SubtaskSucceeded, TaskFinished]


class Speaker:
    """Says one thing, and ends once it may."""

    def __init__(self) -> None:
        self.may_end = threading.Event()

    def __call__(self, _: Task, context: Any) -> str:
        context.stream("said")
        assert self.may_end.wait(LONG_S)
        return "ok"


@contextmanager
def spoken() -> Iterator[tuple[Speaker, TaskHandle]]:
    """A task whose worker has said something, and hangs."""
    speaker = Speaker()
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=speaker)])
    with start(spec) as tree:
        handle = tree.submit("do it")
        assert next(handle.stream()) == "said"
        try:
            yield speaker, handle
        finally:
            speaker.may_end.set()


def kinds(events: Any) -> list[type]:
    return [type(event) for event in events]


async def rest(events: Any) -> list[type]:
    return [type(event) async for event in events]


async def next_kinds(events: Any, number: int) -> list[type]:
    return [type(await anext(events)) for _ in range(number)]


class Reader:
    """Reads on a thread of its own."""

    def __init__(self, events: Any) -> None:
        self.found: list[Any] = []
        self._events = events
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        self.found += self._events

    def ended(self) -> list[Any]:
        self._thread.join(LONG_S)
        assert not self._thread.is_alive()
        return kinds(self.found)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a call that waits until so many readers on other threads have read all there is, and are about to wait."""
    signal, found, mine = EventReading.signal, queue.SimpleQueue[EventReading](), threading.get_ident()

    def seen(reading: EventReading) -> Reply:
        signalled = signal(reading)
        if threading.get_ident() != mine:
            found.put(reading)
        return signalled

    def wait(number: int) -> None:
        readings = set[EventReading]()
        while len(readings) < number:  # one may wait more than once
            readings.add(found.get(timeout=LONG_S))

    monkeypatch.setattr(EventReading, "signal", seen)
    return wait


@pytest.mark.parametrize("is_live", [True, False])
def test_next_and_anext_and_loops_of_both_kinds_go_on_with_one_another(*, is_live: bool) -> None:
    with spoken() as (speaker, handle):
        events, other = handle.events(), handle.events()
        begun = [*asyncio.run(next_kinds(events, 1)), type(next(events)), *asyncio.run(next_kinds(events, 3))]
        assert begun == BEFORE
        assert type(next(other)) is TaskSubmitted
        if is_live:
            reader = Reader(events)
            speaker.may_end.set()
            assert reader.ended() == STORY[5:]
        else:
            speaker.may_end.set()
            handle.result(LONG_S)
            assert kinds(events) == STORY[5:]
        assert asyncio.run(rest(other)) == STORY[1:]


def test_an_iterator_that_one_event_loop_has_waited_with_goes_on_in_the_next_one() -> None:
    async def all_there_is(events: Any) -> list[type]:
        found = []
        while True:
            try:
                found.append(type(await asyncio.wait_for(anext(events), 0.1)))
            except TimeoutError:
                return found

    async def two(events: Any) -> list[type]:
        both = await asyncio.gather(rest(events), rest(events))
        return sorted(itertools.chain(*both), key=STORY.index)

    with spoken() as (speaker, handle):
        events = handle.events()
        assert asyncio.run(all_there_is(events)) == BEFORE
        speaker.may_end.set()
        assert asyncio.run(two(events)) == STORY[5:]


@pytest.mark.parametrize("what", ["events", "stream"])
def test_a_ctrl_c_in_the_middle_of_a_wait_loses_nothing(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wait, speaker_may_end = Reply.wait, list[Any]()

    def interrupted(reply: Reply, timeout: float | None) -> Any:
        monkeypatch.setattr(Reply, "wait", wait)
        speaker_may_end[0].set()
        raise KeyboardInterrupt

    with spoken() as (speaker, handle):
        speaker_may_end.append(speaker.may_end)
        reading: Any = iter(handle.events() if what == "events" else handle.stream())
        before = [next(reading) for _ in range(5 if what == "events" else 1)]
        monkeypatch.setattr(Reply, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(reading)
        found = [*before, *reading]

    assert kinds(found) == STORY if what == "events" else found == ["said"]


@pytest.mark.parametrize("error", [StoreError("s", "cannot be read"), KeyboardInterrupt()])
@pytest.mark.parametrize("at", range(1, 9))
def test_what_cuts_a_look_short_loses_nothing(error: BaseException, at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """At each record that there is of a task, and of its team's part."""
    speaker = Speaker()
    team = SupervisorSpec(id="t", tasks=Tasks(), children=[WorkerSpec(id="w", execute=speaker)])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="t")])), children=[team])
    fresh, reads = JournalFollower._fresh, itertools.count(1)

    def cut(follower: JournalFollower, *of: Any) -> Iterator[Any]:
        for event in fresh(follower, *of):
            if next(reads) == at:
                raise error
            yield event

    with start(spec) as tree:
        handle = tree.submit("do it")
        assert next(handle.stream()) == "said"
        monkeypatch.setattr(JournalFollower, "_fresh", cut)
        reading = iter(handle.events())
        with pytest.raises(type(error)):
            next(reading)
        first = next(reading)
        speaker.may_end.set()
        found = [first, *reading]
        kept = list(handle.events())

    assert [event for event in found if not isinstance(event, SubtaskStreamed)] == kept
    assert [event.text for event in found if isinstance(event, SubtaskStreamed)] == ["said"]
    assert len({event.task for event in kept}) == 2


def test_closed_events_wake_whoever_waits_for_the_next_one_on_any_thread(waits: Callable[[int], None]) -> None:
    with spoken() as (_, handle):
        events = handle.events()
        readers = [Reader(events), Reader(events), Reader(iter(events))]
        on_loop = list[type]()
        thread = threading.Thread(target=lambda: on_loop.extend(asyncio.run(rest(events))), daemon=True)
        thread.start()
        waits(4)
        events.close()
        thread.join(LONG_S)

        assert [*(reader.ended() for reader in readers), on_loop] == [BEFORE] * 4
        assert kinds(events) == []
        assert asyncio.run(rest(events)) == []
        assert next(events, None) is None


def test_a_closed_stream_wakes_whoever_waits_for_the_next_text(waits: Callable[[int], None]) -> None:
    with spoken() as (_, handle):
        stream = handle.stream()
        reader = Reader(stream)
        waits(1)
        stream.close()

        assert reader.ended() == [str]


def test_one_that_reads_in_the_middle_of_another_one_is_refused_and_takes_nothing(
    waits: Callable[[int], None],
) -> None:
    with spoken() as (speaker, handle):
        events = handle.events()
        assert type(next(events)) is TaskSubmitted
        reader = Reader(events)
        waits(1)
        with pytest.raises(RuntimeError, match=r"another thread, or another event loop, waits .* iter\(handle.events"):
            next(events)
        with pytest.raises(RuntimeError, match="another thread"):
            asyncio.run(next_kinds(events, 1))
        speaker.may_end.set()

        assert reader.ended() == STORY[1:]


def test_a_turn_ends_with_its_call_however_that_ends_and_also_while_the_refusal_of_another_is_kept() -> None:
    with spoken() as (speaker, handle):
        reading = EventReading(JournalFollower(handle._port, handle.id, deep=True, after=0))
        turn, refused = Turn(), Turn()
        reading.begin(turn)
        with pytest.raises(RuntimeError, match="another thread") as kept:
            reading.begin(refused)
        del turn  # as at any step of a call that a Ctrl-C ends
        following = Turn()
        reading.begin(following)
        assert kept.value is not None
        with pytest.raises(RuntimeError, match="another thread"):
            reading.begin(refused)
        speaker.may_end.set()


def test_event_loops_that_have_waited_with_an_iterator_are_let_go_of_while_nothing_happens() -> None:
    loops: list[weakref.ref[Any]] = []

    async def waits(events: Any) -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        with suppress(TimeoutError):
            await asyncio.wait_for(anext(events), 0.002)

    with spoken() as (speaker, handle):
        events = handle.events()
        assert asyncio.run(next_kinds(events, 5)) == BEFORE
        for _ in range(20):
            asyncio.run(waits(events))
        gc.collect()
        assert sum(loop() is not None for loop in loops) <= 1
        speaker.may_end.set()
        assert kinds(events) == STORY[5:]


def test_who_stands_in_line_on_a_loop_hears_the_next_event_though_another_loop_has_waited_in_between() -> None:
    here, there = asyncio.new_event_loop(), asyncio.new_event_loop()

    async def one(events: Any, *, stops: bool = False) -> type:
        try:
            return type(await anext(events))
        finally:
            if stops:
                here.stop()

    async def two(events: Any) -> None:
        lined.append(asyncio.ensure_future(one(events, stops=True)))
        await asyncio.sleep(0)
        lined.append(asyncio.ensure_future(one(events)))
        await asyncio.sleep(0)
        lined[0].cancel()
        await asyncio.Event().wait()

    async def in_between(events: Any) -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.01)

    lined: list[asyncio.Task[type]] = []
    with closing(here), closing(there), spoken() as (speaker, handle):
        events = handle.events()
        assert here.run_until_complete(next_kinds(events, 5)) == BEFORE
        waits = here.create_task(two(events))
        here.run_forever()
        there.run_until_complete(in_between(events))
        speaker.may_end.set()
        assert here.run_until_complete(asyncio.wait_for(lined[1], LONG_S)) is SubtaskSucceeded
        waits.cancel()
        here.run_until_complete(asyncio.wait([waits]))
        assert kinds(events) == STORY[6:]


def test_a_loop_that_was_closed_in_the_middle_of_a_wait_holds_up_nobody() -> None:
    async def leaves(events: Any) -> None:
        left.append(asyncio.ensure_future(anext(events)))
        await asyncio.sleep(0.01)

    left: list[Any] = []
    with spoken() as (speaker, handle):
        events, loop = handle.events(), asyncio.new_event_loop()
        assert loop.run_until_complete(next_kinds(events, 5)) == BEFORE
        loop.run_until_complete(leaves(events))
        loop.close()
        speaker.may_end.set()
        assert type(next(events)) is SubtaskSucceeded
        assert asyncio.run(rest(events)) == STORY[6:]
        left[0]._log_destroy_pending = False


def test_an_error_of_the_store_at_the_last_look_loses_nothing_of_what_was_streamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_of_another = JournalFollower._is_of_another

    def fails(_: JournalFollower) -> bool:
        monkeypatch.setattr(JournalFollower, "_is_of_another", is_of_another)
        raise StoreError("s", "cannot be read")

    with spoken() as (speaker, handle):
        stream = handle.stream()
        speaker.may_end.set()
        handle.result(LONG_S)
        monkeypatch.setattr(JournalFollower, "_is_of_another", fails)
        with pytest.raises(StoreError):
            list(stream)
        assert list(stream) == ["said"]


@pytest.mark.parametrize("subtask", [None, "a"])
def test_the_end_waits_for_what_was_streamed_until_then(
    subtask: str | None, waits: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the end is read before what was told earlier comes through the bus."""
    hear, gate, speak, hold = Feed._hear, threading.Event(), threading.Event(), threading.Event()
    ended = threading.Event()

    def late(feed: Feed, event: Any) -> None:
        if isinstance(event, SubtaskStreamed):
            assert gate.wait(LONG_S)
        hear(feed, event)

    def work(task: Any, context: Any) -> None:
        if task.id == "a":
            assert speak.wait(LONG_S)
            context.stream("said")
        else:
            ended.set()
            assert hold.wait(LONG_S)

    monkeypatch.setattr(Feed, "_hear", late)
    plan = StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w", depends_on=["a"])])
    with start(SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[WorkerSpec(id="w", execute=work)])) as tree:
        handle = tree.submit("do it")
        stream = handle.stream(subtask)
        speak.set()
        assert ended.wait(LONG_S)
        if subtask is None:
            hold.set()
            handle.result(LONG_S)
        reader = Reader(stream)
        waits(1)
        gate.set()
        assert reader.ended() == [str]
        assert reader.found == ["said"]
        hold.set()
