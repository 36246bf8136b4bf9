"""Who reads the events or the text of a task, against its removal, and another task of the same id."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import Reply
from actors.runtime.handle import system_of
from tests.support.hardening import LONG_S, eventually
from trees import (
    Plan,
    Subtask,
    SubtaskSucceeded,
    SupervisorSpec,
    Task,
    TaskFinished,
    TaskHandle,
    Tasks,
    TaskStatus,
    TaskSubmitted,
    Tree,
    WorkerSpec,
    start,
)
from trees.host import journal_follower
from trees.host.journal_follower import JournalFollower
from trees.host.tree_source import TreeSource

SPEC = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda task, _: task.id)])


def task(number: int, worker: str = "w", name: str = "s") -> Task:
    return Task("go", id="t", plan=Plan([Subtask(f"{name}{at}", worker=worker) for at in range(number)]))


def feed_of(tree: Tree) -> Any:
    return system_of(tree).services["tasks"].feed


def told(tree: Tree) -> None:
    """Return when all events so far were told."""
    system_of(tree).bus.flush(LONG_S)


@contextmanager
def gated() -> Iterator[tuple[Tree, threading.Event, TaskHandle]]:
    """A tree whose worker waits for a gate, which is open; and the first task of the id."""
    gate = threading.Event()
    gate.set()
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda *_: gate.wait(LONG_S))])
    with start(spec) as tree:
        yield tree, gate, tree.submit(task(1))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "memory" else f"sqlite:///{tmp_path / 's.db'}"


@pytest.mark.parametrize("watched", [False, True])
def test_a_reader_of_the_next_task_of_an_id_has_all_of_it_whatever_is_still_to_be_told_of_the_former(
    store: str | None, *, watched: bool
) -> None:
    with start(SPEC, store=store) as tree:
        for _ in range(10):
            former = tree.submit(task(1))
            stream = former.stream() if watched else iter(())  # it follows, so the feed knows the id
            former.result(LONG_S)
            eventually(lambda: not tree._system.services["tasks"].ports["p"].states, "it is kept")
            tree.remove_task("t")  # its end is in the queue of the bus
            handle = tree.submit(task(20))
            found = list(handle.events())

            assert type(found[-1]) is TaskFinished
            assert sum(type(event) is SubtaskSucceeded for event in found) == 20
            assert list(stream) == []
            tree.remove_task("t")
        told(tree)
        eventually(lambda: not (feed_of(tree)._topics or feed_of(tree)._ends), "all topics have ended")


def test_a_reader_whose_task_ends_before_it_has_joined_those_who_follow_it_is_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with gated() as (tree, gate, former):
        reader = former.events().__aiter__()
        former.result(LONG_S)
        told(tree)
        tree.remove_task("t")
        gate.clear()
        handle = tree.submit(task(2))
        feed, found = feed_of(tree), list[Any]()
        joining, may_join, join = threading.Event(), threading.Event(), feed._join

        def late(following: Any) -> None:
            joining.set()
            may_join.wait(LONG_S)
            join(following)

        monkeypatch.setattr(feed, "_join", late)
        thread = threading.Thread(target=lambda: found.extend(handle.events()), daemon=True)
        thread.start()
        assert joining.wait(LONG_S)
        gate.set()
        handle.result(LONG_S)  # the task has ended before the one who follows it has joined
        may_join.set()
        thread.join(LONG_S)

        assert not thread.is_alive()
        assert type(found[-1]) is TaskFinished
        assert reader is not None
        eventually(lambda: not feed._topics, "the topic has ended")


def test_one_who_follows_and_joins_late_hears_nothing_of_the_next_task_of_the_id() -> None:
    """Both orders of the end of a topic and of one who joins it; the events of the next task are in line by then."""
    heard, ended = list[Any](), threading.Event()

    class Listener:
        scope = "p/"

        def hear(self, event: Any) -> None:
            heard.append(event)

        def wake(self) -> None:
            """Look at nothing."""

        catch_up = wake

        def has_heard_all(self) -> None:
            ended.set()

    with start(SPEC) as tree:
        feed, may_go_on, held = feed_of(tree), threading.Event(), threading.Event()
        early, late = Listener(), Listener()
        over = Reply()
        feed.follow("x", early, Reply())  # so that it is called
        told(tree)
        feed._line.then(lambda: (held.set(), may_go_on.wait(LONG_S)))
        assert held.wait(LONG_S)
        events = [TaskFinished("p", "t", float(at), TaskStatus.CANCELLED, best_effort=False) for at in range(3)]
        feed.follow("t", early, over)
        tree._system.publish(events[0])
        over.complete()
        feed.follow("t", late, over)
        for event in events[1:]:
            tree._system.publish(event)  # of the next one
        may_go_on.set()
        assert ended.wait(LONG_S)
        told(tree)

        assert heard == events[:1]
        eventually(lambda: list(feed._topics) == ["x"], "all others have ended")


def test_readers_of_tasks_that_have_ended_leave_nothing_behind() -> None:
    with start(SPEC) as tree:
        for _ in range(50):
            tree.submit(task(1)).result(LONG_S)
            assert type(list(tree.task("t").events())[-1]) is TaskFinished
            eventually(lambda: not tree._system.services["tasks"].ports["p"].states, "it is kept")
            tree.remove_task("t")
        told(tree)
        assert not feed_of(tree)._topics


def _streamed(handle: Any) -> Callable[[], list[Any]]:
    stream = handle.stream()
    return lambda: list(stream)


def _awaited(handle: Any) -> Callable[[], list[Any]]:
    events = handle.events().__aiter__()

    async def read() -> list[Any]:
        return [event async for event in events]

    return lambda: asyncio.run(read())


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize("begin", [_streamed, _awaited])
def test_a_reader_that_has_begun_and_read_nothing_reads_nothing_of_the_next_task(
    store: str | None, begin: Callable[[Any], Callable[[], list[Any]]], *, is_over: bool
) -> None:
    gate = threading.Event()

    def say(task: Any, context: Any) -> None:
        context.stream(f"{task.id} ")
        gate.wait(LONG_S)

    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=say, pool=3)])
    with start(spec, store=store) as tree:
        former = tree.submit(task(1, name="old"))
        read = begin(former)
        gate.set()
        former.result(LONG_S)
        told(tree)
        tree.remove_task("t")
        if not is_over:
            gate.clear()
        other = tree.submit(task(3, name="new"))
        if is_over:
            other.result(LONG_S)
        else:
            eventually(lambda: len(tree._system.services["tasks"].store.read("t")) > 6, "its beginning")
        found = str(read())
        gate.set()

        assert "new" not in found


# -- large values, which are in the store only -------------------------------------------------------------------


def _by_for(handle: Any, then: Callable[[Any], None]) -> None:
    for event in handle.events():
        then(event)


def _by_async_for(handle: Any, then: Callable[[Any], None]) -> None:
    async def read() -> None:
        async for event in handle.events():
            await asyncio.to_thread(then, event)

    asyncio.run(read())


@pytest.mark.parametrize("again", [0, 1, 5])
@pytest.mark.parametrize("read", [_by_for, _by_async_for])
def test_events_end_where_their_values_are_gone_or_are_those_of_another_task(
    read: Callable[..., None], again: int, tmp_path: Path
) -> None:
    who = ["old"]
    worker = WorkerSpec(id="w", execute=lambda *_: who[0] + "x" * 1_000_000)
    spec = SupervisorSpec(id="p", tasks=Tasks(), children=[worker])
    with start(spec, store=f"sqlite:///{tmp_path / 's.db'}") as tree:
        handle, found = tree.submit(task(1)), list[Any]()
        handle.result(LONG_S)
        told(tree)

        def then(event: Any) -> None:
            found.append(event)
            if len(found) == 3:
                tree.remove_task("t")
                who[0] = "new"
                if again:
                    tree.submit(task(again)).result(LONG_S)

        read(handle, then)

        values = [event.value[:3] for event in found if type(event) is SubtaskSucceeded]
        assert values in ([], ["old"])
        assert sum(type(event) is TaskSubmitted for event in found) == 1


def test_a_task_that_nobody_goes_on_with_is_removed_and_its_reader_gets_nothing_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: Any) -> None:
        await asyncio.sleep(LONG_S)

    url = f"sqlite:///{tmp_path / 's.db'}"
    quick = SupervisorSpec(id="r", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda *_: 1)])
    gone = SupervisorSpec(id="q", tasks=Tasks(), children=[WorkerSpec(id="w", execute=hang)])
    with start(SupervisorSpec(id="p", children=[gone, quick]), store=url) as tree:
        tree.submit(task(1, name="old"), "p/q")
        eventually(lambda: len(tree._system.services["tasks"].store.read("t")) >= 4, "it runs")
    with start(SupervisorSpec(id="p", children=[quick]), store=url) as tree:
        found, hold, news = list[Any](), threading.Event(), JournalFollower.news
        reading = threading.Event()

        def held(self: JournalFollower) -> Iterator[Any]:
            if reading.is_set():
                hold.wait(LONG_S)
            yield from news(self)
            reading.set()

        monkeypatch.setattr(journal_follower.JournalFollower, "news", held)
        reader = threading.Thread(target=lambda: found.extend(tree.task("t").events()), daemon=True)
        reader.start()
        assert reading.wait(LONG_S)
        tree.remove_task("t")
        tree.submit(task(3, name="new"), "p/r").result(LONG_S)
        hold.set()
        reader.join(LONG_S)

        assert not reader.is_alive()
        assert {getattr(event, "subtask", "old0") for event in found} == {"old0"}


def test_the_texts_of_errors_that_a_page_shows_may_ask_workers() -> None:
    trees = list[Tree]()

    class AskingError(Exception):
        def __str__(self) -> str:
            return f"asked {trees[0].ref('p/names').ask(7, timeout=LONG_S)}"

    def fail(_: Any) -> None:
        raise AskingError

    children = [WorkerSpec(id="w", handle=fail), WorkerSpec(id="names", handle=int)]
    with start(SupervisorSpec(id="p", children=children)) as tree:
        trees.append(tree)
        source = TreeSource(system_of(tree), tree._leadership, ())
        tree.ref("p/w").tell("fail")
        eventually(lambda: "p/w" in source._history._paths)

        (crash,) = source._history._paths["p/w"].exits
        assert crash["text"] == "AskingError: asked 7"


@pytest.mark.parametrize("is_first", [True, False])
def test_who_waits_for_the_next_task_hears_of_it_though_somebody_was_looking_for_the_former(
    monkeypatch: pytest.MonkeyPatch, *, is_first: bool
) -> None:
    """One finds the report of a task that is removed then: what is to be completed by the next one is not his."""
    with gated() as (tree, gate, former):
        former.result(LONG_S)
        told(tree)
        port, others, looks = former._port, list[Any](), list[Any]()
        report = port.report

        def late(id_: str) -> Any:
            looks.append(id_)
            if len(looks) == 1 and not is_first:
                return None  # it has not ended yet
            found = report(id_)
            if not others:
                gate.clear()
                tree.remove_task("t")
                others.append(tree.submit(task(1)))
            return found

        monkeypatch.setattr(port, "report", late)
        waiting = port.waiting("t")
        monkeypatch.setattr(port, "report", report)
        gate.set()

        assert others[0].result(LONG_S).status is TaskStatus.SUCCEEDED
        assert waiting.wait(LONG_S)
