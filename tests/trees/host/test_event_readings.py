"""Reading the events of a task, however a reading is cut short, closed, or gone on with."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors import Reply
from tests.support.asking import LONG_S
from trees import (
    Planned,
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

BEFORE = [TaskSubmitted, Planned, SubtaskQueued, SubtaskStarted, SubtaskStreamed]
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

    with spoken() as (speaker, handle):
        events = handle.events()
        assert asyncio.run(all_there_is(events)) == BEFORE
        speaker.may_end.set()
        assert asyncio.run(rest(events)) == STORY[5:]


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
