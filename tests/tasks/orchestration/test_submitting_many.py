"""Many tasks at once: one commit for all of them, or none is submitted (S24)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors import ConfigError
from actors.model.errors import Problem
from actors.tasks.model.task_errors import StoreError
from actors.tasks.model.task_events import TaskSubmitted
from actors.tasks.orchestration.messages import TaskArrived
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from actors.testing import ScriptedExecutable
from tests.trees.store.stores import kept
from trees import StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, WorkerSpec, start
from trees.host import submission
from trees.host.submission import Submission
from trees.store.batches import Batch
from trees.store.fenced_connection import FencedConnection

LONG_S = 60.0


def spec_of(execute: Any = None) -> SupervisorSpec:
    worker = WorkerSpec(id="w", execute=execute or ScriptedExecutable("done").execute, pool=4)
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'tasks.db'}"


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The streams that each transaction has created."""
    written: list[list[str]] = []
    write = FencedConnection.write

    def noted(self: FencedConnection, batch: Batch) -> None:
        write(self, batch)
        if batch._streams:
            written.append(list(batch._streams))

    monkeypatch.setattr(FencedConnection, "write", noted)
    return written


def submit_many(tree: Tree, tasks: Any, *, is_async: bool) -> list[Any]:
    return asyncio.run(tree.asubmit_many(tasks)) if is_async else tree.submit_many(tasks)


BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("count", [3, 700])
def test_submit_many_keeps_its_tasks_in_one_commit(
    url: str, commits: list[list[str]], count: int, *, is_async: bool
) -> None:
    with start(spec_of(), store=url) as tree:
        given = (Task(f"goal {n}", id=f"t{n:03}") if n % 2 else Task(f"goal {n}") for n in range(count))
        handles = submit_many(tree, given, is_async=is_async)
        reports = [handle.result(timeout=LONG_S) for handle in handles]

    assert [report.goal for report in reports] == [f"goal {n}" for n in range(count)]
    assert [handle.id for handle in handles[1::2]] == [f"t{n:03}" for n in range(1, count, 2)]
    assert len({handle.id for handle in handles}) == count
    assert commits == [[handle.id for handle in handles]]


def test_more_tasks_than_one_transaction_takes_otherwise_are_in_one_commit_all_the_same(
    url: str, commits: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trees.store.writer.MOST_CHANGES", 5)
    monkeypatch.setattr("trees.store.batches.BATCH_CHARACTERS", 2_000)
    with start(spec_of(), store=url) as tree:
        handles = tree.submit_many([Task("goal", inputs={"x": "y" * 500}) for _ in range(40)])
        for handle in handles:
            handle.result(timeout=LONG_S)

    assert commits == [[handle.id for handle in handles]]


@BOTH
def test_a_bad_one_among_them_is_named_by_its_place_and_nothing_is_submitted(*, is_async: bool) -> None:
    large = Task("x", inputs={"x": "y" * 1_100_000})
    odd: list[Any] = [Task("good", id="good"), "", Task("fine"), 7, Task("x", id="a@b"), large]
    with start(spec_of()) as tree:
        with pytest.raises(ConfigError) as caught:
            submit_many(tree, odd, is_async=is_async)
        submitted = tree.tasks()

    assert [problem.path.partition(":")[0] for problem in caught.value.problems] == [
        "tasks[1]",
        "tasks[3]",
        "tasks[4]",
        "tasks[5]",
    ]
    assert "tasks[1]: Task.goal" in str(caught.value)
    assert "Submit it by itself" in str(caught.value)
    assert submitted == []


@pytest.mark.parametrize("odd", ["goal", Task("goal"), b"goal", 5, None], ids=lambda odd: type(odd).__name__)
def test_what_is_no_list_of_tasks_is_refused(odd: Any) -> None:
    with start(spec_of()) as tree, pytest.raises(ConfigError, match="is not a list of tasks"):
        tree.submit_many(odd)


def test_no_tasks_are_no_handles() -> None:
    with start(spec_of()) as tree:
        assert tree.submit_many([]) == []
        assert asyncio.run(tree.asubmit_many(iter(()))) == []


@BOTH
def test_an_id_that_is_known_gives_its_handle_and_starts_nothing(url: str, *, is_async: bool) -> None:
    script = ScriptedExecutable("done")
    with start(spec_of(script.execute), store=url) as tree:
        tree.run(Task("first", id="known"), timeout=LONG_S)
        handles = submit_many(tree, [Task("other", id="known"), Task("new", id="n")], is_async=is_async)
        goals = [handle.result(timeout=LONG_S).goal for handle in handles]
        again = submit_many(tree, [Task("other", id="known"), Task("new", id="n")], is_async=is_async)

    assert goals == ["first", "new"]
    assert [handle.id for handle in again] == ["known", "n"]
    assert len(script.calls) == 2


def test_one_task_that_stands_there_twice_is_one_and_two_tasks_of_one_id_are_refused() -> None:
    script = ScriptedExecutable("done")
    with start(spec_of(script.execute)) as tree:
        handles = tree.submit_many([Task("go", id="a"), Task("other", id="b"), Task("go", id="a")])
        for handle in handles:
            handle.result(timeout=LONG_S)
        with pytest.raises(ConfigError) as caught:
            tree.submit_many([Task("go", id="c"), Task("other", id="d"), Task("another", id="c")])
        left = {handle.id for handle in tree.tasks()}

    assert [handle.id for handle in handles] == ["a", "b", "a"]
    assert len(script.calls) == 2
    assert caught.value.problems == (
        Problem("tasks[2].id", "is that of tasks[0] as well, which is another task", "Give each its own id, or none."),
    )
    assert left == {"a", "b"}


def test_two_who_submit_the_same_ids_in_other_orders_both_get_them_and_each_runs_once(url: str) -> None:
    script = ScriptedExecutable("done")
    ids = [f"t{n}" for n in range(50)]
    found: list[list[str]] = []
    with start(spec_of(script.execute), store=url) as tree:

        def submit(order: Any) -> None:
            found.append([handle.id for handle in tree.submit_many([Task("go", id=id_) for id_ in order])])

        threads = [threading.Thread(target=submit, args=(order,)) for order in (ids, ids[::-1]) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        for id_ in ids:
            tree.task(id_).result(timeout=LONG_S)

    assert sorted(found) == sorted([ids, ids[::-1]] * 2)
    assert len(script.calls) == 50


class Again:
    """Somebody who submits a known id, and has it as long as the test wants."""

    def __init__(self) -> None:
        self._has_it, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread()

    def begin(self, tree: Tree, id_: str) -> None:
        self._thread = threading.Thread(target=lambda: tree.submit(Task("go", id=id_)))
        self._thread.start()
        assert self._has_it.wait(LONG_S)

    def end(self) -> None:
        self._go_on.set()
        self._thread.join(LONG_S)

    def hold(self) -> None:
        """Wait, if this is the one."""
        if threading.current_thread() is self._thread:
            self._has_it.set()
            assert self._go_on.wait(LONG_S)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Again:
    made, real = Again(), Submission._create

    def create(self: Submission, ids: list[str]) -> list[str]:
        made.hold()
        return real(self, ids)

    monkeypatch.setattr(Submission, "_create", create)
    return made


def test_a_task_is_known_while_somebody_submits_it_again(url: str, again: Again) -> None:
    with start(spec_of(ScriptedExecutable("done").execute), store=url) as tree:
        tree.submit(Task("go", id="t")).result(timeout=LONG_S)
        again.begin(tree, "t")
        try:
            assert tree.task("t").result(timeout=LONG_S).status == "succeeded"
        finally:
            again.end()


def test_a_task_that_is_kept_begins_while_somebody_submits_it_again(
    url: str, again: Again, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = OrchestratorPort.tell

    def tell(self: OrchestratorPort, *messages: Any) -> None:
        if any(isinstance(each, TaskArrived) for each in messages):
            again.begin(tree, "t")  # it is kept, and the orchestrator has not heard of it yet
        real(self, *messages)

    with start(spec_of(ScriptedExecutable("done").execute), store=url) as tree:
        monkeypatch.setattr(OrchestratorPort, "tell", tell)
        try:
            assert tree.submit(Task("go", id="t")).result(timeout=LONG_S).status == "succeeded"
        finally:
            again.end()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Writes of tasks wait until this is set; whoever waits for them does so at least until the first one has begun."""
    go, write, left = threading.Event(), FencedConnection.write, Submission._left
    begun = threading.Event()

    def late(self: FencedConnection, batch: Batch) -> None:
        if any(id_.startswith("held") for id_ in batch._streams):
            begun.set()
            go.wait(LONG_S)
        write(self, batch)

    def once_begun(self: Submission) -> float:
        assert begun.wait(LONG_S)
        return left(self)

    monkeypatch.setattr(FencedConnection, "write", late)
    monkeypatch.setattr(Submission, "_left", once_begun)
    monkeypatch.setattr(submission, "STORE_WAIT_S", 0.2)
    yield go
    go.set()


@BOTH
def test_what_the_store_does_not_keep_in_time_is_taken_back_as_a_whole(
    url: str, stuck: threading.Event, *, is_async: bool
) -> None:
    script = ScriptedExecutable("done")
    with start(spec_of(script.execute), store=url) as tree:
        with pytest.raises(StoreError, match=r"3 tasks were not written .* may have been taken") as written:
            submit_many(tree, [Task("go", id=f"held{n}") for n in range(3)], is_async=is_async)
        with pytest.raises(StoreError, match=r"2 tasks were not written .* were not taken") as behind:
            submit_many(tree, [Task("go", id=f"behind{n}") for n in range(2)], is_async=is_async)
        known = {handle.id for handle in tree.tasks()}
        stuck.set()
        store = tree._system.services["tasks"].store
        kept(store)
        for n in range(3):
            tree.task(f"held{n}").result(timeout=LONG_S)
        records = store.read("held1")

    assert (written.value.may_be_taken, behind.value.may_be_taken) == (True, False)
    assert not {"behind0", "behind1"} & known
    assert len(script.calls) == 3
    assert isinstance(records[0], TaskSubmitted)
