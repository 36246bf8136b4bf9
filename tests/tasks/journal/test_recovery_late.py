"""The same as in test_recovery, with a store that keeps records a little later than they are given to it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actors.messaging.reply import Reply
from tests.faults.cut_points import CuttingStore, World, twice
from tests.tasks.journal.test_recovery import FAILS, reference
from tests.tasks.journal.test_recovery_of_escalations import Asked
from trees import Tree

pytestmark = pytest.mark.slow
GROUP_S = 0.0005


class Writer:
    """Keeps what stores are given in groups, each a moment later, on a thread of its own."""

    def __init__(self) -> None:
        self.replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        pause = threading.Event()
        while (first := self.replies.get()) is not None:
            pause.wait(GROUP_S)
            group = [first]
            while not self.replies.empty():
                reply = self.replies.get()
                if reply is None:  # the end, which the outer loop is to see too
                    self.replies.put(None)
                    break
                group.append(reply)
            for reply in group:
                reply.complete()

    def close(self) -> None:
        self.replies.put(None)
        self._thread.join()


@pytest.fixture
def writer() -> Iterator[Writer]:
    writer = Writer()
    yield writer
    writer.close()


class LateStore(CuttingStore):
    def __init__(self, writer: Writer, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        self._writer = writer

    def flush(self) -> Reply | None:
        reply = Reply()
        self._writer.replies.put(reply)
        return reply


def crash(writer: Writer, world: World, at: int) -> tuple[CuttingStore, dict[str, Any]]:
    store = LateStore(writer, at, before=bool(at % 2))
    return store, world.run(store)


def kill(writer: Writer, world: World, at: int) -> tuple[CuttingStore, dict[str, Any]]:
    trees: list[Tree] = []
    ready, plan = threading.Event(), world.plan

    def end(owner: str) -> None:
        incarnation = trees[0]._system.children[f"{owner}/orchestrator"].incarnation
        assert incarnation is not None
        incarnation.kill()

    def hold(task: Any, catalogue: Any, feedback: str) -> Any:
        ready.wait(60)
        return plan(task, catalogue, feedback)

    def begin(tree: Tree) -> None:
        trees.append(tree)
        ready.set()

    world.plan = hold  # type: ignore[method-assign]
    store = LateStore(writer, at, then=end)
    return store, world.run(store, begin)


def terminate(writer: Writer, world: World, at: int) -> tuple[CuttingStore, dict[str, Any]]:
    owners: queue.SimpleQueue[str] = queue.SimpleQueue()

    def end(tree: Tree) -> None:
        path = f"{owners.get(timeout=60)}/orchestrator"
        tree.terminate_child(path)
        tree.restart_child(path)

    store = LateStore(writer, at, then=owners.put)
    return store, world.run(store, end)


@FAILS
@pytest.mark.parametrize(("ends", "every"), [(crash, 1), (kill, 3), (terminate, 3)])
def test_an_orchestrator_that_ends_at_any_record_leaves_the_same_report_and_does_nothing_twice(
    writer: Writer, ends: Any, every: int, *, fails: bool
) -> None:
    """A sample is one in sixteen records."""
    wanted, report, records = reference(fails=fails)
    for at in range(1, records + 1, 16):
        world = World(fails=fails)

        store, found = ends(writer, world, at)

        where = f"record {at} of {records}"
        assert found == report, where
        assert world.books == wanted.books, where
        assert twice(store) == [], where


def test_questions_and_their_answers_survive_an_orchestrator_that_crashes_at_any_record(writer: Writer) -> None:
    wanted, store = Asked(), CuttingStore()
    report = wanted.run(store)
    for at in range(1, store.written + 1, 6):
        asked, cutting = Asked(), LateStore(writer, at, before=True)

        found = asked.run(cutting)

        where = f"record {at} of {store.written}"
        assert found == report, where
        assert asked.books == wanted.books, where
        assert twice(cutting) == [], where
