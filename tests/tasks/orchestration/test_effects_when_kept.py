"""What others see of an orchestrator's decisions, with a store that keeps records later than they are given to it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from actors import InternalError, TreeDownError
from actors.messaging.reply import Reply
from actors.model.events import ChildStarted
from actors.tasks.model import task_events
from actors.tasks.model.task_errors import StoreError
from actors.tasks.orchestration.messages import TimerFired
from actors.testing import settle
from tests.faults.cut_points import LONG_S
from tests.support.hardening import eventually
from tests.tasks.orchestrators import kill_orchestrator
from trees import Report, StaticPlan, Subtask, SupervisorSpec, Task, TaskHandle, Tasks, Tree, WorkerSpec, start
from trees.store import MemoryStore


class StepStore(MemoryStore):
    """While it is held, what is appended is kept when the test says so, one flush after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.held = False
        self.waiting: queue.SimpleQueue[Reply] = queue.SimpleQueue()
        self.seen: list[str] = []

    def append(self, stream: str, record: Any) -> None:
        super().append(stream, record)
        self.seen.append(type(record).__name__)

    def flush(self) -> Reply | None:  # type: ignore[override]
        if not self.held:
            return None
        reply = Reply()
        self.waiting.put(reply)
        return reply

    def step(self) -> None:
        """Wait for a flush, and keep all that was flushed; as a writer does, on a thread of its own."""
        replies = [self.waiting.get(timeout=LONG_S)]
        while not self.waiting.empty():
            replies.append(self.waiting.get())
        for reply in replies:
            writer = threading.Thread(target=reply.complete)
            writer.start()
            writer.join()

    def keep_all(self) -> None:
        """Keep what waits and what comes."""
        self.held = False
        while not self.waiting.empty():
            self.step()


class Books:
    def __init__(self) -> None:
        self.calls: list[str] = []
        self.called = threading.Semaphore(0)

    def work(self, task: Any, context: Any) -> str:
        self.calls.append(f"{task.id} {context.attempt}")
        self.called.release()
        return f"did {task.id}"


def line(books: Books, *ids: str) -> SupervisorSpec:
    """One subtask after the other, one worker."""
    plan = [Subtask(id_, worker="w", depends_on=list(ids[at - 1 : at]) if at else []) for at, id_ in enumerate(ids)]
    children = [WorkerSpec(id="w", execute=books.work)]
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan), on_failure=[]), children=children)


def heard(tree: Tree) -> None:
    """Return when the workers are done with what they have begun, and the orchestrator has handled all it was told."""
    children = sorted(tree._system.children.values(), key=lambda child: child.path == "p/orchestrator")
    for _ in range(3):
        assert all(child.mailbox.when_quiet().wait(LONG_S) for child in children)


def submit(tree: Tree, store: StepStore) -> TaskHandle:
    """A task whose submission is kept, and nothing else of it."""
    settle(tree)
    ready = threading.Event()
    incarnation = tree._system.children["p/orchestrator"].incarnation
    assert incarnation is not None
    tree._system.services["tasks"].ports["p"].post(TimerFired(incarnation, lambda: ready.wait(LONG_S)))  # type: ignore[arg-type, return-value]
    handle = tree.submit(Task("the goal", id="t"))
    store.held = True
    ready.set()
    heard(tree)
    return handle


def crash(tree: Tree) -> None:
    """Have the orchestrator die of a bug, and its successor be up and know its workers."""
    up = threading.Event()
    stop = tree.subscribe(
        lambda event: up.set() if isinstance(event, ChildStarted) and event.path == "p/orchestrator" else None
    )
    kill_orchestrator(tree)
    assert up.wait(LONG_S)
    stop()
    heard(tree)


@pytest.fixture
def store() -> StepStore:
    return StepStore()


@pytest.fixture
def books() -> Books:
    return Books()


@pytest.fixture
def tree(store: StepStore, books: Books) -> Iterator[Tree]:
    with start(line(books, "a", "b"), store=store) as tree:
        yield tree
        store.keep_all()


def test_nothing_is_given_out_and_nobody_hears_of_an_end_before_it_is_kept(
    tree: Tree, store: StepStore, books: Books
) -> None:
    handle = submit(tree, store)
    assert store.seen[-1] == "SubtaskStarted"
    assert books.calls == []

    store.step()
    assert books.called.acquire(timeout=LONG_S)
    heard(tree)
    assert books.calls == ["a 1"]
    store.step()
    assert books.called.acquire(timeout=LONG_S)
    heard(tree)
    assert store.seen[-1] == "TaskFinished"
    assert (handle.report, handle.status) == (None, "running")
    assert handle.id in store.streams("p")

    store.step()

    assert handle.result(LONG_S).results == {"a": "did a", "b": "did b"}
    settle(tree)
    assert store.streams("p") == []


def test_effects_are_done_on_the_loop_and_those_of_a_task_in_their_order(tree: Tree, store: StepStore) -> None:
    effects, done = tree._system.services["tasks"].ports["p"].effects, list[tuple[int, bool]]()
    first, second, over = Reply(), Reply(), Reply()

    def note(number: int) -> None:
        done.append((number, tree._system.loop.is_here))

    effects.after(first, [(note, (1,)), (note, (2,))], "t")
    effects.after(second, [(note, (3,))], "t")
    effects.after(None, [(note, (4,)), (over.complete, ())], "t")
    threading.Thread(target=second.complete).start()
    assert not over.wait(0.05)
    assert done == []
    threading.Thread(target=first.complete).start()

    assert over.wait(LONG_S)
    assert done == [(1, True), (2, True), (3, True), (4, True)]
    eventually(lambda: len(effects) == 0)  # the last of them has told so before it was over


def test_a_task_waits_for_no_other_one_and_what_concerns_all_waits_for_all_before_it(tree: Tree) -> None:
    effects, done = tree._system.services["tasks"].ports["p"].effects, list[str]()
    replies = {name: Reply() for name in ("a", "b", "all", "c")}
    heard = {name: Reply() for name in (*replies, "none", "at once")}

    def note(name: str) -> None:
        done.append(name)
        heard[name].complete()

    for name, reply in replies.items():
        effects.after(reply, [(note, (name,))], None if name == "all" else name)
    effects.after(None, [(note, ("none",))])
    for name in ("all", "b", "c"):
        threading.Thread(target=replies[name].complete).start()
    assert heard["b"].wait(LONG_S)
    assert heard["c"].wait(LONG_S)
    assert not heard["all"].wait(0.05)
    effects.after(None, [(note, ("at once",))], "b")
    assert heard["at once"].wait(LONG_S)
    threading.Thread(target=replies["a"].complete).start()

    assert heard["none"].wait(LONG_S)
    assert sorted(done[:2]) == ["b", "c"]
    assert done[2:] == ["at once", "a", "all", "none"]
    eventually(lambda: len(effects) == 0)


def test_one_task_that_never_will_be_kept_has_no_effect_and_hinders_no_other(tree: Tree) -> None:
    effects, done, over = tree._system.services["tasks"].ports["p"].effects, list[str](), Reply()
    lost, kept, later = Reply(), Reply(), Reply()
    effects.after(lost, [(done.append, ("lost",))], "a")
    effects.after(later, [(done.append, ("of a, kept",))], "a")
    effects.after(kept, [(done.append, ("all",)), (over.complete, ())])
    lost.fail(StoreError("here", "cannot take this"))
    later.complete()
    kept.complete()

    assert over.wait(LONG_S)
    assert done == ["of a, kept", "all"]


def test_an_orchestrator_that_dies_before_what_it_recorded_is_kept_leaves_no_attempt_out_and_none_twice(
    tree: Tree, store: StepStore, books: Books
) -> None:
    handle = submit(tree, store)
    crash(tree)
    crash(tree)
    assert books.calls == []

    store.keep_all()

    assert handle.result(LONG_S).results == {"a": "did a", "b": "did b"}
    assert books.calls == ["a 1", "b 1"]
    assert [name for name in store.seen if name == "SubtaskStarted"] == ["SubtaskStarted"] * 2


def test_one_that_dies_before_an_end_is_kept_tells_it_once(tree: Tree, store: StepStore, books: Books) -> None:
    handle = submit(tree, store)
    for _ in range(2):
        store.step()
        assert books.called.acquire(timeout=LONG_S)
        heard(tree)
    assert store.seen[-1] == "TaskFinished"
    crash(tree)
    assert handle.report is None

    store.keep_all()

    assert handle.result(LONG_S).status == "succeeded"
    settle(tree)
    desk = tree._system.services["tasks"].ports["p"]
    assert (desk.finished, desk.states, store.streams("p")) == (1, {}, [])
    assert store.seen.count("TaskFinished") == 1


def test_what_was_decided_by_one_that_is_down_for_good_is_done_all_the_same(
    tree: Tree, store: StepStore, books: Books
) -> None:
    handle = submit(tree, store)
    for _ in range(2):
        store.step()
        assert books.called.acquire(timeout=LONG_S)
        heard(tree)
    tree.terminate_child("p/orchestrator")

    store.keep_all()

    assert handle.result(LONG_S).results == {"a": "did a", "b": "did b"}


def test_nothing_follows_from_what_will_never_be_kept(tree: Tree, store: StepStore, books: Books) -> None:
    submit(tree, store)
    lost = [store.waiting.get(timeout=LONG_S) for _ in range(store.waiting.qsize())]

    for reply in lost:
        reply.fail(StoreError("here", "belongs to somebody else now"))
    settle(tree)

    assert books.calls == []
    assert len(tree._system.services["tasks"].ports["p"].effects) == 0


def test_an_effect_that_cannot_be_had_is_a_bug_of_ours_and_holds_up_no_other(tree: Tree, books: Books) -> None:
    bugs, ended = list[str](), Reply()
    tree.subscribe(lambda event: bugs.append(str(event.error)) if isinstance(event, InternalError) else None)
    kept = Reply()

    def breaks() -> None:
        raise RuntimeError("it cannot be had")

    tree._system.services["tasks"].ports["p"].effects.after(kept, [(breaks, ()), (ended.complete, ())])
    kept.complete()

    assert ended.wait(LONG_S)
    settle(tree)
    assert "it cannot be had" in bugs
    assert tree.child("p/orchestrator").incarnation == 2
    assert tree.run("the goal", timeout=LONG_S).results == {"a": "did a", "b": "did b"}


# -- the end of the tree -------------------------------------------------------------------------------------


def almost_ended(store: StepStore, books: Books) -> tuple[Tree, TaskHandle]:
    """A tree whose task has ended, which is yet to be kept."""
    tree = start(line(books, "a"), store=store)
    handle = submit(tree, store)
    store.step()
    assert books.called.acquire(timeout=LONG_S)
    heard(tree)
    assert store.seen[-1] == "TaskFinished"
    return tree, handle


def test_a_tree_that_ends_waits_for_no_store_and_says_so_to_who_waits(store: StepStore, books: Books) -> None:
    tree, handle = almost_ended(store, books)

    assert tree.stop(LONG_S)

    with pytest.raises(TreeDownError):
        handle.result(LONG_S)


def test_an_end_that_is_kept_while_the_tree_ends_is_told(store: StepStore, books: Books) -> None:
    tree, handle = almost_ended(store, books)
    tree._system.before_end(store.keep_all)

    assert tree.stop(LONG_S)

    report: Report = handle.result(LONG_S)
    assert report.results == {"a": "did a"}


def test_what_was_not_kept_when_the_tree_ended_is_done_by_the_next_one(store: StepStore, books: Books) -> None:
    tree = start(line(books, "a"), store=store)
    submit(tree, store)
    assert tree.stop(LONG_S)
    assert books.calls == []
    store.keep_all()
    settle(tree)

    with start(line(books, "a"), store=store) as after:
        assert after.task("t").result(LONG_S).results == {"a": "did a"}
    assert books.calls == ["a 1"]


def test_that_all_is_taken_up_again_is_said_when_the_records_of_it_are_kept(store: StepStore, books: Books) -> None:
    first = start(line(books, "a"), store=store)
    submit(first, store)
    first.stop()
    store.keep_all()
    store.held = True

    with start(line(books, "a"), store=store) as tree:
        resumed = tree._system.services["tasks"].resumed()
        heard(tree)
        assert not resumed.done
        assert books.calls == []
        store.keep_all()

        assert resumed.wait(LONG_S)
        assert tree.task("t").result(LONG_S).status == "succeeded"
        assert [type(record) for record in store.read("t")][-3:] == [
            task_events.SubtaskStarted,
            task_events.SubtaskSucceeded,
            task_events.TaskFinished,
        ]
