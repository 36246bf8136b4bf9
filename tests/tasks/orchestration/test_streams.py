"""What attempts stream: ``context.stream``, its events, and ``handle.stream()``."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from actors.testing import ManualClock, settle
from tests.support.attempts import AT_ONCE, LONG_S
from tests.tasks.orchestration.one_worker import spec_of
from tests.tasks.resuming import NotingStore
from trees import (
    StaticPlan,
    Subtask,
    SubtaskProgressed,
    SubtaskRetrying,
    SubtaskStarted,
    SubtaskStreamed,
    SubtaskSucceeded,
    SupervisorSpec,
    Task,
    TaskFinished,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
)


def pieces(events: Any) -> list[tuple[str, str]]:
    return [(event.kind, event.text) for event in events if isinstance(event, SubtaskStreamed)]


class Speaker:
    """Worker that says what it is told, one call after the other, as long as a test has it go on."""

    def __init__(self, *said: Any) -> None:
        self.said = said
        self.context: Any = None
        self.calls = 0
        self.has_spoken = threading.Event()
        self.may_end = threading.Event()

    def execute(self, task: Any, context: Any) -> str:
        self.context = context
        self.calls += 1
        for each in self.said:
            if callable(each):
                each(context)
            else:
                context.stream(each)
        self.has_spoken.set()
        assert self.may_end.wait(LONG_S)
        return "ok"


@contextmanager
def speaking(speaker: Speaker, planner: Any = None, **more: Any) -> Iterator[tuple[Any, Any]]:
    """A tree in which a worker has spoken, and is not done."""
    spec = spec_of(speaker) if planner is None else spec_of(speaker, planner)
    with start(spec, **more) as tree:
        try:
            handle = tree.submit(Task("go", id="t"))
            assert speaker.has_spoken.wait(LONG_S)
            yield tree, handle
        finally:
            speaker.may_end.set()


# -- events ----------------------------------------------------------------------------------------------------


def test_what_an_attempt_streams_comes_in_order_with_the_other_events_and_is_not_kept() -> None:
    store, speaker = NotingStore(), Speaker("Hel", "lo ", lambda context: context.stream("search()", "tool_call"))
    speaker.said += (lambda context: context.stream("3 hits", kind="tool_result"), "world")
    with speaking(speaker, store=store, clock=ManualClock()) as (_, handle):
        events = iter(handle.events())
        live = [next(events) for _ in range(4)]
        speaker.may_end.set()
        live += events

    kinds = [type(event) for event in live]
    assert kinds[3:] == [SubtaskStarted, *[SubtaskStreamed] * 4, SubtaskSucceeded, TaskFinished]
    told = [("text", "Hello "), ("tool_call", "search()"), ("tool_result", "3 hits"), ("text", "world")]
    assert pieces(live) == told
    assert {(event.task, event.subtask, event.worker, event.attempt) for event in live[4:8]} == {("t", "a", "w", 1)}
    assert [event.seq for event in live] == sorted(event.seq for event in live)
    assert not any(isinstance(event, SubtaskStreamed) for event in store.journals["t"])
    assert not pieces(handle.events())


def test_each_piece_is_a_sign_of_life_also_an_empty_one() -> None:
    clock, speaker = ManualClock(), Speaker("a")
    worker = WorkerSpec(id="w", execute=speaker.execute, idle_timeout_s=10.0, on_failure=[])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, clock=clock) as tree:
        handle = tree.submit("go")
        assert speaker.has_spoken.wait(LONG_S)
        for text in ("b", "", "c"):
            clock.advance(8.0)
            speaker.context.stream(text)
        clock.advance(8.0)
        speaker.may_end.set()
        assert handle.result(LONG_S).status is TaskStatus.SUCCEEDED


def test_the_text_of_a_second_attempt_is_told_apart_by_its_number() -> None:
    followed = threading.Event()

    def work(_: Any, context: Any) -> str:
        assert followed.wait(LONG_S)
        context.stream(f"try {context.attempt}")
        if context.attempt == 1:
            raise ValueError("no")
        return "ok"

    with start(spec_of(work, on_failure=[AT_ONCE])) as tree:
        handle = tree.submit("go")
        events = iter(handle.events())
        live = [next(events)]
        followed.set()
        live += events
        recalled = list(handle.stream())

    told = [event for event in live if isinstance(event, (SubtaskStreamed, SubtaskRetrying))]
    assert [(type(event), event.attempt) for event in told] == [
        (SubtaskStreamed, 1),
        (SubtaskRetrying, 1),
        (SubtaskStreamed, 2),
    ]
    assert recalled == ["try 1", "try 2"]


@pytest.mark.parametrize("how", ["cancel", "timeout", "stop"])
def test_the_stream_of_an_attempt_ends_with_it_whoever_ends_it(how: str) -> None:
    clock, speaker = ManualClock(), Speaker("begun")
    worker = WorkerSpec(id="w", execute=speaker.execute, timeout_s=10.0, on_failure=[])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, clock=clock) as tree:
        handle = tree.submit("go")
        assert speaker.has_spoken.wait(LONG_S)
        stream = handle.stream()
        first = threading.Event()
        texts: list[str] = []

        def read() -> None:
            for text in stream:
                texts.append(text)
                first.set()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        clock.advance(0.05)
        assert first.wait(LONG_S)
        if how == "cancel":
            handle.cancel()
        elif how == "timeout":
            clock.advance(10.0)
        else:
            threading.Thread(target=tree.stop, args=(0.1,), daemon=True).start()
        while reader.is_alive() and how != "stop":
            clock.advance(1.0)
            reader.join(0.01)
        if how == "stop":
            speaker.may_end.set()
        reader.join(LONG_S)
        speaker.context.stream("nobody hears this")
        clock.advance(1.0)
        speaker.may_end.set()

        assert not reader.is_alive()
        assert texts == ["begun"]
        if how != "stop":
            settle(tree)
            assert list(handle.stream()) == ["begun"]


@pytest.mark.parametrize("interval", [1e-6, 0.005])
def test_many_threads_of_one_attempt_may_stream_and_each_is_told_in_its_own_order(interval: float) -> None:
    def work(_: Any, context: Any) -> None:
        def say(name: str) -> None:
            for number in range(200):
                context.stream(f"{name}{number} ")

        threads = [threading.Thread(target=say, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    before = sys.getswitchinterval()
    sys.setswitchinterval(interval)
    try:
        with start(spec_of(work)) as tree:
            handle = tree.submit("go")
            words = "".join(handle.stream()).split()
    finally:
        sys.setswitchinterval(before)

    for name in "abcd":
        assert [word for word in words if word[0] == name] == [f"{name}{number}" for number in range(200)]


# -- handle.stream() -------------------------------------------------------------------------------------------


def test_a_stream_is_read_on_an_event_loop_and_a_keep_alive_loses_nothing() -> None:
    speaker = Speaker("a")

    async def read(handle: Any) -> tuple[list[str], int]:
        stream, texts, keep_alives = handle.stream(), list[str](), 0
        while True:
            try:
                texts.append(await asyncio.wait_for(anext(stream), 0.02))
            except TimeoutError:
                keep_alives += 1
                speaker.context.stream(f"{keep_alives}")
                if keep_alives == 5:
                    speaker.may_end.set()
            except StopAsyncIteration:
                return texts, keep_alives

    with speaking(speaker) as (_, handle):
        texts, keep_alives = asyncio.run(read(handle))

    assert keep_alives >= 5
    assert "".join(texts).startswith("a1234")


def test_what_members_of_a_team_stream_is_that_of_the_task_and_of_the_teams_subtask() -> None:
    followed = threading.Event()

    def says(text: str) -> Any:
        def work(task: Any, context: Any) -> None:
            assert followed.wait(LONG_S)
            context.stream(text)

        return work

    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("x", worker="inner")])),
        children=[WorkerSpec(id="inner", execute=says("inner"))],
    )
    plan = StaticPlan([Subtask("left", worker="team"), Subtask("right", worker="w", depends_on=["left"])])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[team, WorkerSpec(id="w", execute=says("outer"))])
    with start(spec) as tree:
        handle = tree.submit(Task("go", id="t"))
        live = list[Any]()
        for event in handle.events():
            followed.set()
            live += [event] if isinstance(event, SubtaskStreamed) else []
        streams = {name: list(handle.stream(name)) for name in ("left", "right", None)}
        shallow = pieces(handle.events(deep=False))

    assert [(event.path, event.text) for event in live] == [("p/team", "inner"), ("p", "outer")]
    assert streams == {"left": ["inner"], "right": ["outer"], None: ["inner", "outer"]}
    assert not shallow


def test_who_begins_late_has_all_progress_that_is_held_in_its_place_and_then_what_comes() -> None:
    speaker = Speaker(lambda context: context.progress(0.1, "old"), lambda context: context.progress(0.2, "last"))
    with speaking(speaker) as (_, handle):
        events = iter(handle.events())
        live = [next(events) for _ in range(5)]
        speaker.context.progress(0.9, "later")
        speaker.may_end.set()
        live += events

    assert [type(event) for event in live[3:]] == [
        SubtaskStarted,
        SubtaskProgressed,
        SubtaskProgressed,
        SubtaskProgressed,
        SubtaskSucceeded,
        TaskFinished,
    ]
    assert [(event.fraction, event.text) for event in live[4:7]] == [(0.1, "old"), (0.2, "last"), (0.9, "later")]


# -- what is held ----------------------------------------------------------------------------------------------
