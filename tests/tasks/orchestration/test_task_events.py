"""What a host sees of a run while it goes on: its events and its dumps."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import RestartLimitError, TreeDownError
from actors.tasks.model.task_events import (
    Planned,
    SubtaskProgressed,
    SubtaskQueued,
    SubtaskStarted,
    SubtaskSucceeded,
    TaskEvent,
    TaskFinished,
    TaskSubmitted,
)
from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from tests.support.asking import LONG_S
from tests.support.hardening import eventually
from tests.tasks.orchestration.one_worker import ONE, TWO, held, incarnation_of, spec_of
from tests.tasks.orchestrators import kill_orchestrator
from trees import (
    Report,
    SupervisorSpec,
    Tasks,
    TaskStatus,
    WorkerSpec,
    start,
    start_async,
)
from trees.host.event_follower import TaskEvents
from trees.host.journal_follower import JournalFollower

# -- events ----------------------------------------------------------------------------------------------------

ATTEMPT = [SubtaskQueued, SubtaskStarted, SubtaskSucceeded]
STORY = [TaskSubmitted, Planned, *ATTEMPT, *ATTEMPT, TaskFinished]


async def collected(events: Any) -> list[TaskEvent]:
    found: AsyncIterator[TaskEvent] = events
    return [event async for event in found]


def test_events_come_in_order_up_to_the_end_while_it_runs() -> None:
    with held(TWO) as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        seen: list[TaskEvent] = []
        for event in handle.events():
            seen.append(event)
            if isinstance(event, SubtaskStarted):
                hang.release()

    assert [type(event) for event in seen] == STORY
    assert [event.at for event in seen] == sorted(event.at for event in seen)
    assert {event.task for event in seen} == {handle.id}


def test_events_of_a_task_that_has_ended_are_all_still_there_sync_and_async() -> None:
    with start(spec_of(ScriptedExecutable("ok"), TWO)) as tree:
        handle = tree.submit("do it")
        handle.result(timeout=60)
        once, twice = list(handle.events()), list(handle.events())
        asynchronous = asyncio.run(collected(handle.events()))

    assert [type(event) for event in once] == STORY
    assert once == twice == asynchronous


def test_next_reads_and_a_loop_goes_on_with_it_and_other_loops_begin_anew() -> None:
    async def awaited(events: TaskEvents) -> list[TaskEvent]:
        first = await anext(events)
        second = await asyncio.wait_for(events.__anext__(), LONG_S)
        return [first, second, *await collected(events)]

    with start(spec_of(ScriptedExecutable("ok"), TWO)) as tree:
        handle = tree.submit("do it")
        handle.result(timeout=60)
        events = handle.events()
        assert isinstance(events, Iterator)
        assert isinstance(events, AsyncIterator)
        assert list(events) == list(events)
        read = [next(events), next(events), *events]
        assert next(events, None) is None
        assert asyncio.run(awaited(handle.events())) == read

    assert [type(event) for event in read] == STORY


def test_closed_events_are_over() -> None:
    with held(ONE) as (tree, hang, _):
        events = tree.submit("do it").events()
        assert type(next(events)) is TaskSubmitted
        events.close()
        assert TaskFinished not in map(type, events)  # it ends, though the task has not
        hang.release()


@pytest.mark.parametrize("kept_in", ["memory", "a file"])
def test_who_has_read_the_last_event_finds_the_report_also_before_the_orchestrator_has_told_of_it(
    kept_in: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end is read between two steps of the orchestrator: after its record is kept, and before it has told of it."""
    keep, steps = OrchestratorPort.keep, []

    def read_before_it_is_told(self: OrchestratorPort, report: Report, *state: Any) -> None:
        follower = JournalFollower(self, report.task_id, deep=True, after=0)
        steps.append(([type(event) for event in follower.news()], follower.over, self.report(report.task_id)))
        keep(self, report, *state)
        eventually(lambda: follower._knows_all)  # what was streamed before is heard by then
        steps.append(([type(event) for event in follower.news()], follower.over, self.report(report.task_id)))

    monkeypatch.setattr(OrchestratorPort, "keep", read_before_it_is_told)
    store = None if kept_in == "memory" else f"sqlite:///{tmp_path / 'tasks.db'}"
    with start(spec_of(ScriptedExecutable("ok"), TWO), store=store) as tree:
        report = tree.run("do it", timeout=LONG_S)
    assert steps == [(STORY[:-1], False, None), ([TaskFinished], True, report)]


@pytest.mark.parametrize("ends_first", [True, False])
def test_the_last_event_comes_whether_its_reader_or_the_orchestrator_is_first(
    ends_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, waits, told = OrchestratorPort.keep, threading.Event(), threading.Event()
    news = JournalFollower.news

    def seen(self: JournalFollower) -> Iterator[TaskEvent]:
        yield from news(self)
        if self._end:
            waits.set()

    def late(self: OrchestratorPort, *ended: Any) -> None:
        assert ends_first or waits.wait(LONG_S)
        keep(self, *ended)
        told.set()

    monkeypatch.setattr(JournalFollower, "news", seen)
    monkeypatch.setattr(OrchestratorPort, "keep", late)
    with start(spec_of(ScriptedExecutable("ok"), TWO)) as tree:
        handle = tree.submit("do it")
        assert not ends_first or told.wait(LONG_S)
        assert [type(event) for event in handle.events()] == STORY
        assert handle.report is not None


def test_events_come_on_an_event_loop_without_holding_it_up() -> None:
    async def follow() -> tuple[list[type], int]:
        hang = Hang()
        ticks = 0
        over = asyncio.Event()

        async def tick() -> None:
            nonlocal ticks
            while not over.is_set():
                ticks += 1
                if ticks == 5:
                    hang.release()
                await asyncio.sleep(0.001)

        ticking = asyncio.create_task(tick())
        async with await start_async(spec_of(AsyncScriptedExecutable(hang), TWO)) as tree:
            seen = [type(event) async for event in tree.submit("do it").events()]
        over.set()
        await ticking
        return seen, ticks

    seen, ticks = asyncio.run(follow())

    assert seen == STORY
    assert ticks >= 5


def test_events_are_complete_and_each_comes_once_while_the_orchestrator_is_replaced() -> None:
    with held(TWO) as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        seen: list[TaskEvent] = []
        for event in handle.events():
            seen.append(event)
            if isinstance(event, SubtaskStarted) and event.subtask == "a":
                kill_orchestrator(tree)
                hang.release()
        report = handle.result(timeout=60)
        incarnation = incarnation_of(tree)

    assert [type(event) for event in seen] == STORY
    assert incarnation == 2
    assert len(script.calls) == 2
    assert report.status is TaskStatus.SUCCEEDED


def test_progress_comes_with_the_events_and_is_not_kept() -> None:
    gate = threading.Event()

    def execute(task: Any, context: Any) -> str:
        assert gate.wait(60)
        context.progress(0.5, "half")
        return "ok"

    with start(spec_of(execute)) as tree:
        handle = tree.submit("do it")
        live: list[TaskEvent] = []
        for event in handle.events():
            live.append(event)
            if isinstance(event, SubtaskStarted):
                gate.set()
        kept = list(handle.events())

    assert [(event.fraction, event.text) for event in live if isinstance(event, SubtaskProgressed)] == [(0.5, "half")]
    assert not any(isinstance(event, SubtaskProgressed) for event in kept)


def followers(tree: Any) -> int:
    gc.collect()
    tree._system.bus.flush(LONG_S)  # who follows joins in line with the events
    found = tree._system.services["tasks"].feed._topics.values()
    return sum(len(topic.snapshot()) for topics in found for topic in topics.values())


def test_who_leaves_the_events_early_leaves_nothing_behind() -> None:
    with held() as (tree, _, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        events = iter(handle.events())
        first = next(events)
        during = followers(tree)
        events.close()  # type: ignore[attr-defined]

        assert isinstance(first, TaskSubmitted)
        assert (during, followers(tree)) == (1, 0)


async def left(tree: Any, handle: Any, how: str) -> tuple[int, int]:
    """Follow in a task, leave in this way; how many followers there were and are."""
    reading = asyncio.Event()

    async def read() -> None:
        async for _ in handle.events():
            reading.set()
            if how == "break":
                break

    task = asyncio.create_task(read())
    await reading.wait()
    await asyncio.sleep(0)
    during = followers(tree)
    if how == "cancel":
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    del task
    await asyncio.sleep(0)
    return during, followers(tree)


@pytest.mark.parametrize("how", ["break", "cancel"])
def test_an_async_reader_that_leaves_is_forgotten_however_it_leaves(how: str) -> None:
    with held() as (tree, _, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        during, after = asyncio.run(left(tree, handle, how))

        assert during <= 1
        assert after == 0


def test_an_async_reader_may_be_cancelled_while_it_waits_and_goes_on_without_a_gap() -> None:
    async def main(handle: Any, hang: Hang) -> tuple[list[TaskEvent], int]:
        events, got, keep_alives = aiter(handle.events()), [], 0
        while True:
            try:
                got.append(await asyncio.wait_for(anext(events), 0.02))
            except TimeoutError:
                keep_alives += 1
                if keep_alives == 5:
                    hang.release()
            except StopAsyncIteration:
                return got, keep_alives

    with held(TWO) as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        got, keep_alives = asyncio.run(main(handle, hang))

    assert keep_alives >= 5
    assert [type(event) for event in got] == STORY


def test_several_that_read_one_iterator_each_get_others_of_the_events_and_all_hear_the_end() -> None:
    async def main(handle: Any, hang: Hang) -> list[TaskEvent]:
        events = aiter(handle.events())
        readers = [asyncio.create_task(collected(events)) for _ in range(3)]
        await asyncio.sleep(0.1)  # all have read what there is, and wait
        hang.release()
        found = await asyncio.wait_for(asyncio.gather(*readers), LONG_S)
        return sorted(itertools.chain(*found), key=lambda event: event.seq)

    with held(TWO) as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        got = asyncio.run(main(handle, hang))

    assert [type(event) for event in got] == STORY


def test_three_hundred_readers_cost_no_thread_and_no_subscriber_each() -> None:
    async def main(tree: Any, handle: Any, hang: Hang) -> tuple[int, int, list[int]]:
        subscribers, threads = len(tree._system.bus._subscriptions), threading.active_count()
        readers = [asyncio.create_task(collected(handle.events())) for _ in range(300)]
        await asyncio.sleep(0.1)
        grown = len(tree._system.bus._subscriptions) - subscribers, threading.active_count() - threads
        hang.release()
        return (*grown, [len(found) for found in await asyncio.gather(*readers)])

    with held(TWO) as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        subscribers, threads, found = asyncio.run(main(tree, handle, hang))

    assert subscribers == 1
    assert threads <= 4
    assert found == [len(STORY)] * 300


def test_progress_just_before_the_end_is_told_before_the_end() -> None:
    gate = threading.Semaphore(0)

    def work(_: object, context: Any) -> None:
        assert gate.acquire(timeout=60)
        for step in range(10):
            context.progress(step / 10)

    with start(spec_of(work, TWO)) as tree:
        for _ in range(5):
            handle, seen = tree.submit("do it"), []
            for event in handle.events():
                seen.append(type(event))
                if isinstance(event, SubtaskStarted):
                    gate.release()

            assert seen.count(SubtaskProgressed) == 20
            assert seen[-1] is TaskFinished


# -- dumps -----------------------------------------------------------------------------------------------------


def test_a_run_is_dumped_as_text_mermaid_and_json_while_it_runs_and_afterwards() -> None:
    with held(TWO) as (tree, hang, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        during = [handle.dump(format) for format in ("text", "mermaid", "json")]
        hang.release()
        handle.result(timeout=60)
        after = [handle.dump(format) for format in ("text", "mermaid", "json")]

        for text, graph, data in (during, after):
            assert "a" in text
            assert "b" in text
            assert graph.startswith(("graph", "flowchart"))
            assert json.loads(data)
        assert "running" in during[0]
        assert "running" not in after[0]
        assert "succeeded" in after[0]
        with pytest.raises(ValueError, match="xml"):
            handle.dump("xml")  # type: ignore[arg-type]


# -- the end of the tree ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["for", "async for"])
def test_the_events_end_when_the_tree_is_stopped_and_the_report_says_that_the_task_has_not(how: str) -> None:
    seen: list[TaskEvent] = []

    def read(handle: Any) -> None:
        seen.extend(handle.events() if how == "for" else asyncio.run(collected(handle.events())))

    with held() as (tree, _, script):
        handle = tree.submit("do it")
        script.wait_for_calls(1)
        reader = threading.Thread(target=read, args=(handle,), daemon=True)
        reader.start()
        tree.stop()
        reader.join(60)

        assert not reader.is_alive()
        assert isinstance(seen[0], TaskSubmitted)
        assert not any(isinstance(event, TaskFinished) for event in seen)
        assert handle.report is None


def test_the_end_of_a_tree_that_nobody_had_asked_for_is_raised_by_its_events() -> None:
    hang = AsyncScriptedExecutable(Hang(), by="call")
    work = [WorkerSpec(id="w", execute=hang.execute), WorkerSpec(id="h", handle=int)]
    tree = start(SupervisorSpec(id="p", tasks=Tasks(planner=ONE), children=work, max_restarts=0))
    handle = tree.submit("do it")
    hang.wait_for_calls(1)
    events = iter(handle.events())
    next(events)
    tree.ref("p/h").tell("no number")
    with pytest.raises(TreeDownError):
        list(events)
    with pytest.raises(RestartLimitError):
        tree.wait(60)
