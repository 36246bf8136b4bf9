"""What another process wants of a task reaches its tree through the store, once, also when the tree was down."""

from __future__ import annotations

import threading
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from actors.tasks.journal.task_state import TaskState
from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable, settle
from tests.support.crew import LONG_S
from tests.support.databases import postgres, postgres_url, sqlite_url, store_url
from tests.support.hardening import eventually
from tests.trees.store.stores import asked, kept, opened
from tests.trees.store.test_damaged_rows import begun, damage, done
from trees import (
    Escalate,
    EscalationError,
    EscalationRaised,
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskFailedError,
    Tasks,
    TaskStatus,
    Tree,
    WorkerSpec,
    start,
)
from trees.command.store_client import StoreClient, StoreClientError
from trees.store import Keep, SqlStore
from trees.views.task_views import TaskView

__all__ = ["postgres", "postgres_url", "sqlite_url", "store_url"]
ONE = StaticPlan([Subtask("a")])
WAIT_S = 60.0


def spec_of(a: Any, **words: Any) -> SupervisorSpec:
    return SupervisorSpec(id="p", tasks=Tasks(planner=ONE), children=[WorkerSpec(id="a", execute=a.execute, **words)])


def asking(answers: Any = "ok") -> tuple[SupervisorSpec, ScriptedExecutable]:
    """A tree whose worker fails at first, and then a person is asked."""
    script = ScriptedExecutable(OSError("disk"), answers, by="call")
    return spec_of(script, on_failure=[Escalate()]), script


def question(tree: Tree) -> str:
    """The id of the first question that is asked."""
    handle = tree.submit(Task("do it", id="t"))
    return asked(handle, tree)


def left(outside: StoreClient) -> int:
    """How many orders lie in the store."""
    with outside._store._database.reading() as connection:
        return len(connection.exec_driver_sql("SELECT id FROM regrow_orders").all())


def ordered(outside: StoreClient, task: str, kind: str, body: dict[str, Any]) -> bool:
    """Put any order down; whether it is taken."""
    return outside._carried_out(TaskView("p", [], TaskState(task)), kind, body, WAIT_S)


def answered(outside: StoreClient, id_: str, word: str, value: Any = None, wait_s: float = WAIT_S) -> str:
    return outside.respond(*outside.question(id_), word, value, wait_s)


def test_a_task_is_cancelled_from_outside_and_the_order_is_gone_then(store_url: str) -> None:
    hang = Hang()
    a = AsyncScriptedExecutable(hang, by="call")
    with start(spec_of(a), store=store_url) as tree, StoreClient(store_url) as outside:
        handle = tree.submit(Task("do it", id="t"))
        a.wait_for_calls(1)
        said = outside.cancel(outside.task("t")[0], "no need", WAIT_S)
        with pytest.raises(TaskCancelledError, match="no need"):
            handle.result(timeout=LONG_S)
        settle(tree)
        orders = left(outside)
        with pytest.raises(StoreClientError, match="has ended: cancelled"):
            outside.cancel(outside.task("t")[0], "again", WAIT_S)

    assert said in {"task t: is being cancelled", "task t: cancelled"}
    assert orders == 0
    assert a.calls[0].ended == "CancelledError"


@pytest.mark.parametrize(
    ("word", "value", "feedback", "results"),
    [
        ("approve", None, "", {"a": "ok"}),
        ("respond", "try the other one", "try the other one", {"a": "ok"}),
        ("edit", {"by": "hand", "x": [1, None]}, None, {"a": {"by": "hand", "x": [1, None]}}),
    ],
)
def test_a_question_is_answered_from_outside(
    sqlite_url: str, word: str, value: Any, feedback: str | None, results: dict[str, Any]
) -> None:
    spec, script = asking()
    with start(spec, store=sqlite_url) as tree, StoreClient(sqlite_url) as outside:
        id_ = question(tree)
        said = answered(outside, id_, word, value)
        report = tree.task("t").result(timeout=LONG_S)
        with pytest.raises(StoreClientError, match=f"is not open any more: it was answered: {word}"):
            outside.question(id_)

    assert said == f"escalation {id_}: answered: {word}"
    assert report.results == results
    assert [call.feedback for call in script.calls[1:]] == ([] if feedback is None else [feedback])


def test_a_question_is_rejected_from_outside(store_url: str) -> None:
    spec, _ = asking()
    with start(spec, store=store_url) as tree, StoreClient(store_url) as outside:
        id_ = question(tree)
        said = answered(outside, id_, "reject", "too dear")
        with pytest.raises(TaskFailedError, match="a person said no: too dear"):
            tree.task("t").result(timeout=LONG_S)

    assert said == f"escalation {id_}: answered: reject"


def test_an_order_to_a_tree_that_is_down_waits_for_it(store_url: str) -> None:
    spec, script = asking()
    with start(spec, store=store_url) as tree:
        id_ = question(tree)
    with StoreClient(store_url) as outside:
        said = answered(outside, id_, "approve", wait_s=0.0)
        waiting = left(outside)
        with start(spec, store=store_url) as tree:
            report = tree.task("t").result(timeout=LONG_S)
            settle(tree)
    with StoreClient(store_url) as outside:
        gone = left(outside)

    assert said == f"escalation {id_}: no tree has taken this yet. It waits in the store, and is done when 'p' runs"
    assert (waiting, gone) == (1, 0)
    assert report.status is TaskStatus.SUCCEEDED
    assert len(script.calls) == 2


def test_who_answers_too_late_hears_it_and_changes_nothing(sqlite_url: str) -> None:
    spec, script = asking()
    with start(spec, store=sqlite_url) as tree:
        id_ = question(tree)
    with StoreClient(sqlite_url) as outside:
        found = outside.question(id_)
        first = outside.respond(*found, "approve", None, 0.0)
        with start(spec, store=sqlite_url) as tree:
            with pytest.raises(StoreClientError, match=r"it was answered: approve. This answer changed nothing"):
                outside.respond(*found, "reject", "no", WAIT_S)
            report = tree.task("t").result(timeout=LONG_S)
            settle(tree)
        orders = left(outside)

    assert "waits in the store" in first
    assert report.status is TaskStatus.SUCCEEDED
    assert orders == 0
    assert len(script.calls) == 2


def test_an_order_that_comes_twice_is_done_once(sqlite_url: str) -> None:
    spec, script = asking()
    with start(spec, store=sqlite_url) as tree, StoreClient(sqlite_url) as outside:
        id_ = question(tree)
        body = {"escalation": id_, "answer": "approve", "value": None}
        for _ in range(3):
            outside._store.post_command("p", "t", "respond", body)
        report = tree.task("t").result(timeout=LONG_S)
        for _ in range(2):
            outside._store.post_command("p", "t", "cancel", {"reason": "late"})
        taken = ordered(outside, "t", "cancel", {"reason": "later still"})
        status, orders = tree.task("t").status, left(outside)

    assert report.status is status is TaskStatus.SUCCEEDED
    assert (taken, orders) == (True, 0)
    assert len(script.calls) == 2


@pytest.mark.parametrize(
    ("task", "kind", "body"),
    [
        ("nobody's", "cancel", {"reason": ""}),
        ("t", "respond", {"escalation": "t:a:9", "answer": "approve", "value": None}),
        ("t", "respond", {"escalation": "t:a:1", "answer": "perhaps", "value": None}),
        ("t", "respond", {"escalation": "t:a:1", "answer": "respond", "value": 7}),
        ("t", "respond", {}),
        ("t", "of a newer version", {"x": 1}),
    ],
)
def test_an_order_that_makes_no_sense_is_put_away_and_harms_nobody(
    sqlite_url: str, task: str, kind: str, body: dict[str, Any]
) -> None:
    spec, script = asking()
    with start(spec, store=sqlite_url) as tree, StoreClient(sqlite_url) as outside:
        id_ = question(tree)
        taken = ordered(outside, task, kind, body)
        incarnation = tree.child("p/orchestrator").incarnation
        open_ = [each.id for each in tree.escalations()]
        answered(outside, id_, "approve")
        report = tree.task("t").result(timeout=LONG_S)

    assert (taken, incarnation, open_) == (True, 1, [id_])
    assert report.status is TaskStatus.SUCCEEDED
    assert len(script.calls) == 2


def test_a_teams_question_is_found_and_answered_by_its_own_id(store_url: str) -> None:
    script = ScriptedExecutable(OSError("disk"), "ok", by="call")
    worker = WorkerSpec(id="a", execute=script.execute, on_failure=[Escalate()])
    team = SupervisorSpec(id="team", tasks=Tasks(planner=ONE), children=[worker])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("team")])), children=[team])
    with start(spec, store=store_url) as tree, StoreClient(store_url) as outside:
        raised = threading.Event()
        tree.subscribe(lambda event: raised.set() if isinstance(event, EscalationRaised) else None)
        handle = tree.submit(Task("do it", id="t"))
        assert raised.wait(LONG_S)
        kept(tree._system.services["tasks"].store)
        id_ = handle.escalations[0].id
        listed = outside.tasks(0)
        said = answered(outside, id_, "approve")
        report = handle.result(timeout=LONG_S)

    assert id_.startswith("t@team:")
    assert sorted(task.id for task in listed.tasks) == ["t", id_.rpartition(":a:")[0]]
    assert said == f"escalation {id_}: answered: approve"
    assert report.status is TaskStatus.SUCCEEDED


def test_what_is_not_there_is_said_to_be_so(sqlite_url: str) -> None:
    with pytest.raises(StoreError, match="does not exist"):
        StoreClient(sqlite_url)
    with start(spec_of(ScriptedExecutable("ok")), store=sqlite_url) as tree, StoreClient(sqlite_url) as outside:
        tree.submit(Task("do it", id="t-1")).result(timeout=LONG_S)
        with pytest.raises(StoreClientError, match=r"task t1: is not in this store. Did you mean 't-1'\?"):
            outside.task("t1")
        with pytest.raises(
            StoreClientError, match="escalation t-1:a:1: is not open any more: task t-1 has ended: succeeded"
        ):
            outside.question("t-1:a:1")
        with pytest.raises(StoreClientError, match="is not in this store"):
            outside.question("elsewhere:a:1")
        with pytest.raises(EscalationError):
            tree.respond("t-1:a:1", None)  # type: ignore[arg-type]


def test_a_task_that_is_forgotten_after_it_was_found_is_not_called_damaged(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(spec_of(ScriptedExecutable("ok")), store=sqlite_url) as tree, StoreClient(sqlite_url) as outside:
        tree.submit(Task("do it", id="t")).result(timeout=LONG_S)
        rows = outside._store.all_tasks()
        rows += [replace(row, id="gone", whole=None) for row in rows]
        monkeypatch.setattr(outside._store, "all_tasks", lambda _root=None: rows)
        listed = outside.tasks(None)
        with pytest.raises(StoreClientError, match="task gone: is not in this store any more"):
            outside.task("gone")
        with pytest.raises(StoreClientError, match="task gone: is not in this store any more"):
            outside.question("gone:a:1")
        gone = TaskView("p", [], TaskState("gone"))
        with pytest.raises(StoreClientError, match="task gone: is not in this store any more"):
            outside.cancel(gone, "late", WAIT_S)

    assert ([task.id for task in listed.tasks], listed.damaged) == (["t"], [])


def test_of_two_trees_with_a_task_of_one_id_one_must_be_named(sqlite_url: str) -> None:
    hang = Hang()
    one = spec_of(AsyncScriptedExecutable(hang))
    two = SupervisorSpec(id="q", tasks=one.tasks, children=one.children)
    with (
        start(one, store=sqlite_url) as first,
        start(two, store=sqlite_url) as second,
        StoreClient(sqlite_url) as outside,
    ):
        for tree in (first, second):
            tree.submit(Task("do it", id="t"))
        with pytest.raises(StoreClientError, match=r"task t: is in each of p, q. Say which with --root"):
            outside.task("t")
        found, _ = outside.task("t", "q")
        outside.cancel(found, "", WAIT_S)
        with pytest.raises(TaskCancelledError):
            second.task("t").result(timeout=LONG_S)
        goes_on = first.task("t").status.is_final

    assert found.root == "q"
    assert not goes_on


@pytest.mark.parametrize("goes", ["removed", "too old"])
def test_what_was_ordered_about_a_task_that_is_gone_is_not_about_the_next_one_of_its_id(
    goes: str, store_url: str
) -> None:
    with closing(opened(store_url, keep=Keep(count=0))) as store:
        done(store, "t")
        kept(store)
        with closing(SqlStore.look(store_url)) as outside:
            assert outside.post_command("p", "t", "cancel", {"reason": "no tea left"}) is not None
            if goes == "removed":
                store.remove("t")
                kept(store)
            else:
                eventually(lambda: store.standing("t") is None)
            assert outside.post_command("p", "t", "cancel", {"reason": "too late"}) is None
        begun(store, "t")
        kept(store)
        with StoreClient(store_url) as outside_:
            assert left(outside_) == 0


def test_a_command_about_a_task_that_goes_meanwhile_says_so(sqlite_url: str) -> None:
    with closing(opened(sqlite_url)) as store:
        begun(store, "t")
        kept(store)
        with StoreClient(sqlite_url) as outside:
            found, _ = outside.task("t")
            store.remove("t")
            kept(store)
            with pytest.raises(StoreClientError, match="is not in this store any more"):
                outside.cancel(found, "", WAIT_S)


def test_a_task_that_is_damaged_hides_no_question_of_another_one_whose_id_goes_on_from_its_id(sqlite_url: str) -> None:
    spec, _ = asking()
    with closing(opened(sqlite_url)) as store:
        begun(store, "t")
        kept(store)
    damage(sqlite_url, "t", "DELETE FROM regrow_records WHERE {of}")
    with start(spec, store=sqlite_url) as tree, StoreClient(sqlite_url) as outside:
        handle = tree.submit(Task("do it", id="t:1"))
        id_ = asked(handle, tree)
        assert answered(outside, id_, "approve") == f"escalation {id_}: answered: approve"
        with pytest.raises(StoreClientError, match=r"cannot be found: .* has lost all its records"):
            outside.question("t:a:7")
