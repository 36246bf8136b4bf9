"""A task is taken when the store has it: who submits waits for that, and hears what became of it where it does not."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors import BlockingAskError, ChildStarted
from actors.messaging.reply import Reply
from actors.testing import ScriptedExecutable, settle
from tests.support.databases import sqlite_url
from tests.tasks.late_store import LateStore
from tests.tasks.orchestrators import kill_orchestrator
from trees import (
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    TaskHandle,
    Tasks,
    TaskStatus,
    Tree,
    UnknownTaskError,
    WorkerSpec,
    start,
)
from trees.host import submission
from trees.store.batches import Batch
from trees.store.fenced_connection import FencedConnection
from trees.store.journal_index import JournalIndex

__all__ = ["sqlite_url"]
LONG_S = 60.0


@contextmanager
def up() -> Iterator[tuple[Tree, LateStore, ScriptedExecutable]]:
    """A tree of one worker, on a store that keeps nothing yet."""
    script, store = ScriptedExecutable("ok", by="call"), LateStore()
    worker = WorkerSpec(id="w", execute=script.execute)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, store=store) as tree:
        settle(tree)
        store.hold()
        try:
            yield tree, store, script
        finally:
            store.keep()


def aside(function: Callable[[], Any]) -> Reply:
    """Have it done on a thread of its own."""
    reply = Reply()

    def run() -> None:
        try:
            reply.complete(function())
        except BaseException as error:  # noqa: BLE001 - it is looked at
            reply.fail(error)

    threading.Thread(target=run, daemon=True).start()
    return reply


def refused(reply: Reply) -> StoreError:
    with pytest.raises(StoreError) as caught:
        reply.get(timeout=LONG_S)
    return caught.value


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for long."""
    monkeypatch.setattr(submission, "STORE_WAIT_S", 0.05)


def test_a_task_is_told_of_and_begun_only_when_it_is_kept() -> None:
    with up() as (tree, store, script):
        submitted = aside(lambda: tree.submit(Task("do it", id="t")))
        assert store.flushed.acquire(timeout=LONG_S)
        settle(tree)
        too_early = submitted.done, len(script.calls)
        with pytest.raises(UnknownTaskError):
            tree.task("t")
        store.keep()
        handle: TaskHandle = submitted.get(timeout=LONG_S)
        report = handle.result(timeout=LONG_S)

    assert too_early == (False, 0)
    assert report.status is TaskStatus.SUCCEEDED


@pytest.mark.usefixtures("impatient")
def test_what_is_not_being_written_in_time_is_taken_back_and_never_runs() -> None:
    with up() as (tree, store, script):
        error = refused(aside(lambda: tree.submit(Task("do it", id="t"))))
        store.keep()
        settle(tree)

        assert not error.may_be_taken
        assert str(error) == (
            "store late: task t was not written after 0.05 s. "
            "It was not taken and will not run: submit it again when the store can be written"
        )
        assert (len(script.calls), tree.tasks()) == (0, [])
        assert tree.submit(Task("do it", id="t")).result(timeout=LONG_S).status is TaskStatus.SUCCEEDED


def test_what_may_be_written_already_is_said_to_be_and_runs_once_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "STORE_WAIT_S", 2.0)  # it is written by then
    with up() as (tree, store, script):
        submitted = aside(lambda: tree.submit(Task("do it", id="t")))
        assert store.flushed.acquire(timeout=LONG_S)
        store.write()
        error = refused(submitted)
        store.keep()
        report = tree.submit(Task("do it", id="t")).result(timeout=LONG_S)
        settle(tree)

        assert error.may_be_taken
        assert "It may have been taken: submit it again as 't', which starts nothing twice" in str(error)
        assert report.status is TaskStatus.SUCCEEDED
        assert len(script.calls) == 1


def test_those_who_submit_the_same_id_at_once_all_wait_and_get_the_same_task() -> None:
    with up() as (tree, store, script):
        submitted = [aside(lambda: tree.submit(Task("do it", id="t"))) for _ in range(5)]
        assert store.flushed.acquire(timeout=LONG_S)
        too_early = [reply.done for reply in submitted]
        store.keep()
        reports = [reply.get(timeout=LONG_S).result(timeout=LONG_S) for reply in submitted]

    assert too_early == [False] * 5
    assert reports == [reports[0]] * 5
    assert len(script.calls) == 1


def test_where_the_first_gives_up_the_next_one_with_that_id_tries_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    with up() as (tree, store, script):
        monkeypatch.setattr(submission, "STORE_WAIT_S", 0.2)
        first = aside(lambda: tree.submit(Task("do it", id="t")))
        assert store.flushed.acquire(timeout=LONG_S)
        monkeypatch.setattr(submission, "STORE_WAIT_S", LONG_S)
        second = aside(lambda: tree.submit(Task("do it", id="t")))
        error = refused(first)
        assert store.flushed.acquire(timeout=LONG_S)
        store.keep()
        report = second.get(timeout=LONG_S).result(timeout=LONG_S)

    assert not error.may_be_taken
    assert report.status is TaskStatus.SUCCEEDED
    assert len(script.calls) == 1


def test_an_id_that_is_known_gives_its_handle_though_the_store_keeps_nothing_now() -> None:
    with up() as (tree, store, _):
        submitted = aside(lambda: tree.submit(Task("do it", id="t")))
        assert store.flushed.acquire(timeout=LONG_S)
        for reply in store.waiting:
            reply.complete()  # that one, and nothing after it
        first = submitted.get(timeout=LONG_S)
        again = aside(lambda: tree.submit(Task("do it", id="t"))).get(timeout=LONG_S)

    assert again.id == first.id


def test_an_orchestrator_that_comes_back_meanwhile_leaves_alone_what_may_be_taken_back() -> None:
    with up() as (tree, store, _):
        submitted = aside(lambda: tree.submit(Task("do it", id="t")))
        assert store.flushed.acquire(timeout=LONG_S)
        back = threading.Event()
        tree.subscribe(lambda event: back.set() if isinstance(event, ChildStarted) else None)
        kill_orchestrator(tree)
        assert back.wait(LONG_S)
        known = list(tree._system.services["tasks"].ports["p"].states)
        store.keep()
        report = submitted.get(timeout=LONG_S).result(timeout=LONG_S)
        incarnation = tree.child("p/orchestrator").incarnation

    assert (known, incarnation) == ([], 2)
    assert report.status is TaskStatus.SUCCEEDED


# -- on an event loop ------------------------------------------------------------------------------------------


def test_on_an_event_loop_everything_else_goes_on_while_a_task_is_written() -> None:
    with up() as (tree, store, _):

        async def host() -> Any:
            submitting = asyncio.create_task(tree.asubmit(Task("do it", id="t")))
            running = asyncio.create_task(tree.arun("do that"))
            await asyncio.to_thread(store.flushed.acquire, timeout=LONG_S)
            await asyncio.to_thread(store.flushed.acquire, timeout=LONG_S)
            too_early = submitting.done(), running.done()
            store.keep()
            return too_early, await (await submitting), await running

        too_early, *reports = asyncio.run(host())

    assert too_early == (False, False)
    assert [report.status for report in reports] == [TaskStatus.SUCCEEDED] * 2


def test_a_submission_that_is_cancelled_on_its_way_is_taken_back() -> None:
    with up() as (tree, store, script):

        async def host() -> None:
            submitting = asyncio.create_task(tree.asubmit(Task("do it", id="t")))
            await asyncio.to_thread(store.flushed.acquire, timeout=LONG_S)
            submitting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await submitting

        asyncio.run(host())
        store.keep()
        settle(tree)

        assert (len(script.calls), tree.tasks()) == (0, [])


@pytest.mark.usefixtures("impatient")
def test_on_an_event_loop_it_is_refused_in_time_as_well() -> None:
    with up() as (tree, _, __):

        async def host() -> None:
            await tree.asubmit("do it")

        with pytest.raises(StoreError, match="not written after"):
            asyncio.run(host())


# -- on a real one ---------------------------------------------------------------------------------------------


def test_what_is_said_of_a_task_that_a_locked_store_did_not_keep_is_true(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "STORE_WAIT_S", 0.3)
    script = ScriptedExecutable("ok", by="call")
    worker = WorkerSpec(id="w", execute=script.execute)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, store=sqlite_url) as tree:
        settle(tree)
        with closing(sqlite3.connect(tmp_path / "tasks.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            errors = {id_: refused(aside(partial(tree.submit, Task("do it", id=id_)))) for id_ in "abc"}
            other.execute("ROLLBACK")
        monkeypatch.setattr(submission, "STORE_WAIT_S", LONG_S)
        kept = tree._system.services["tasks"].store.flush()
        assert kept is None or kept.wait(LONG_S)
        settle(tree)
        listed = {handle.id for handle in tree.tasks()}
        for id_ in "abc":
            tree.submit(Task("do it", id=id_)).result(timeout=LONG_S)

    assert listed == {id_ for id_, error in errors.items() if error.may_be_taken}
    assert len(script.calls) == 3


def test_a_finalizer_on_the_thread_that_writes_does_not_wait_for_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would wait for its own thread until it gave up, and the store would stand still as long."""
    raised: list[tuple[int, BaseException]] = []
    script = ScriptedExecutable("ok", by="call")
    worker = WorkerSpec(id="w", execute=script.execute)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, store=sqlite_url) as tree:
        settle(tree)
        tree.submit(Task("do it", id="ended")).result(timeout=LONG_S)
        write = FencedConnection.write

        def meets_garbage(session: FencedConnection, batch: Batch) -> None:
            for act in (partial(tree.submit, Task("do it", id="new")), partial(tree.remove_task, "ended")):
                if len(raised) < 2:
                    try:
                        act()
                    except BaseException as error:  # noqa: BLE001 - it is looked at
                        raised.append((threading.get_ident(), error))
            write(session, batch)

        monkeypatch.setattr(FencedConnection, "write", meets_garbage)
        tree.submit(Task("do it", id="a")).result(timeout=LONG_S)

        assert [type(error) for _, error in raised] == [BlockingAskError, BlockingAskError]
        assert {ident for ident, _ in raised} == {tree._system.services["tasks"].store._writer._thread.ident}
        assert {handle.id for handle in tree.tasks()} == {"a", "ended"}
        tree.submit(Task("do it", id="new")).result(timeout=LONG_S)
    assert len(script.calls) == 3


def test_a_finalizer_on_a_thread_that_changes_the_store_waits_for_nothing_that_needs_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the store's lock: the thread that writes would wait for it, and it for that."""
    raised: list[BaseException] = []
    script = ScriptedExecutable("ok", by="call")
    worker = WorkerSpec(id="w", execute=script.execute)
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])
    with start(spec, store=sqlite_url) as tree:
        settle(tree)
        tree.submit(Task("do it", id="ended")).result(timeout=LONG_S)
        create = JournalIndex.create

        def meets_garbage(index: JournalIndex, stream: str, *rest: Any) -> None:
            for act in (
                partial(tree.submit, Task("do it", id="new")),
                partial(tree.remove_task, "ended"),
                partial(tree.ref("p/w").ask, "anything"),
            ):
                with pytest.raises(BlockingAskError) as caught:
                    act()
                raised.append(caught.value)
            create(index, stream, *rest)

        monkeypatch.setattr(JournalIndex, "create", meets_garbage)
        handle = tree.submit(Task("do it", id="a"))
        monkeypatch.undo()
        handle.result(timeout=LONG_S)

        assert len(raised) == 3
        assert {each.id for each in tree.tasks()} == {"a", "ended"}
        tree.submit(Task("do it", id="new")).result(timeout=LONG_S)
        tree.remove_task("ended")
    assert len(script.calls) == 3
