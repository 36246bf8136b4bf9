"""Times that cross a process: they are the store's, never go back, and an answer that was given in time counts."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from actors import Escalated, SystemClock
from tests.trees.store.stores import OWNER, PATIENCE_S, ended, execute, kept, submitted
from trees import (
    Escalate,
    Respond,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)
from trees.store import SqlStore
from trees.store import database as module

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


def ask(_: Any, context: Any) -> Any:
    if context.feedback:
        return context.feedback
    raise Escalated("which?")


def test_a_question_that_nobody_answers_is_over_when_its_time_is_up(store_url: str) -> None:
    with start(tree_of(ask, Escalate(timeout_s=0.2)), store=store_url) as tree:
        with pytest.raises(TaskFailedError, match="nobody answered in time"):
            tree.run("go", PATIENCE_S)
        with pytest.raises(Exception, match="no such open question"):
            tree.respond("t:a:1", Respond("late"))
