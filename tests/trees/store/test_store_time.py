"""Times that cross a process: they are the store's, never go back, and an answer that was given in time counts."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from actors import Escalated, SystemClock
from tests.support.hardening import eventually
from tests.trees.store.stores import OWNER, PATIENCE_S, ended, kept, submitted
from tests.trees.store.test_migrations import execute
from trees import (
    Escalate,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SubtaskRetrying,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)
from trees.store import SqlStore, sql
from trees.store import database as module
from trees.store.loading import load

HOUR_S = 3600.0


def shifted(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """From now on this machine's clock is so far off."""

    class Off(SystemClock):
        def wall(self) -> float:
            return super().wall() + seconds

    monkeypatch.setattr(module, "SystemClock", Off)


def test_time_is_that_of_the_store_and_never_before_what_is_written_there(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(SqlStore(store_url, root=OWNER)) as store:
        store.open()
        store.create("t", OWNER, submitted("t"))
        store.append("t", ended("t"))
        store.finish("t")
        kept(store)
        before = store.time()
    shifted(monkeypatch, -HOUR_S)
    with closing(SqlStore(store_url, root=OWNER)) as store:
        store.open()
        assert before - 1 < store.time() < before + 60


def test_time_is_not_late_by_how_long_it_took_to_read_what_is_there(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SystemClock()

    def slowly(connection: Any, root: str) -> Any:
        now = clock.now
        clock.now = lambda: now() + HOUR_S
        return load(connection, root)

    monkeypatch.setattr(sql, "load", slowly)
    with closing(SqlStore(sqlite_url, root=OWNER, clock=clock)) as store:
        before = SystemClock().wall()
        store.open()
        assert store.time() >= before + HOUR_S


def test_a_time_that_is_days_ahead_is_damage_and_no_clock(sqlite_url: str) -> None:
    with closing(SqlStore(sqlite_url, root=OWNER)) as store:
        store.open()
        store.create("t", OWNER, submitted("t"))
        store.finish("t")
        kept(store)
        now = store.time()
    execute(sqlite_url, f"UPDATE regrow_streams SET finished_at = {now + 900 * 86400}")  # noqa: S608
    with closing(SqlStore(sqlite_url, root=OWNER)) as store:
        store.open()
        assert store.time() < now + 60


def tree_of(work: Any, *on_failure: Any) -> SupervisorSpec:
    worker = WorkerSpec(id="w", execute=work, on_failure=list(on_failure))
    return SupervisorSpec(id=OWNER, tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])), children=[worker])


@pytest.mark.parametrize("off_s", [-HOUR_S, 0.0, HOUR_S])
def test_a_retry_does_not_wait_for_the_difference_of_two_clocks(
    off_s: float, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = [True]

    def flaky(task: Any, context: Any) -> int:
        if gate[0]:
            raise OSError("flaky")
        return 1

    spec = tree_of(flaky, Retry(max_attempts=5, initial_s=2.0, max_s=2.0, jitter=0))
    with start(spec, store=store_url) as tree:
        store = tree.submit(Task("go", id="t"))._port.runtime.store
        eventually(lambda: any(isinstance(event, SubtaskRetrying) for event in store.read("t")))
    gate[0] = False
    shifted(monkeypatch, off_s)
    with start(spec, store=store_url) as tree:
        assert tree.task("t").result(PATIENCE_S).results == {"a": 1}


def ask(_: Any, context: Any) -> Any:
    if context.feedback:
        return context.feedback
    raise Escalated("which?")


def answered(url: str, after_s: float, *ids: str) -> SupervisorSpec:
    """Questions whose time is up, and answers in the store that were given so long after that."""
    spec = tree_of(ask, Escalate(timeout_s=10.0))  # the last is asked before the first is over
    with start(spec, store=url) as tree:
        tree.submit_many([Task("go", id=id_) for id_ in ids])
        eventually(lambda: len(tree.escalations()) == len(ids))
        due = min(each.due for each in tree.escalations())
    look = SqlStore.look(url)
    for id_ in ids:
        body = {"escalation": f"{id_}:a:1", "answer": "respond", "value": "this"}
        look.post_command(OWNER, id_, "respond", body)
    execute(url, f"UPDATE regrow_orders SET at = {due + after_s}")  # noqa: S608
    with look._database.reading() as connection:
        eventually(lambda: look._database.now(connection) > due)
    look.close()
    return spec


@pytest.mark.slow
def test_an_answer_that_was_given_in_time_counts_although_the_tree_was_down_until_later(store_url: str) -> None:
    ids = [f"t{number}" for number in range(100)]  # more than an orchestrator carries out at a time
    spec = answered(store_url, -0.1, *ids)
    with start(spec, store=store_url) as tree:
        assert [tree.task(id_).result(PATIENCE_S).results for id_ in ids] == [{"a": "this"}] * 100


@pytest.mark.slow
def test_an_answer_that_was_given_too_late_is_none(store_url: str) -> None:
    spec = answered(store_url, 0.0, "t")
    with start(spec, store=store_url) as tree, pytest.raises(TaskFailedError, match="nobody answered in time"):
        tree.task("t").result(PATIENCE_S)


def test_a_question_that_nobody_answers_is_over_when_its_time_is_up(store_url: str) -> None:
    with start(tree_of(ask, Escalate(timeout_s=0.2)), store=store_url) as tree:
        with pytest.raises(TaskFailedError, match="nobody answered in time"):
            tree.run("go", PATIENCE_S)
        with pytest.raises(Exception, match="no such open question"):
            tree.respond("t:a:1", Respond("late"))
