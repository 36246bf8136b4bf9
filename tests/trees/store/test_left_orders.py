"""What a user has ordered, and nobody has carried out when the tree ends, is done by the process that goes on.

Two orders of things: the orchestrator comes to it before it is stopped, or is stopped (or down) before it comes to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from actors import TreeDownError
from actors.tasks.journal.store import DurableStore
from actors.tasks.orchestration.left_orders import order_of
from actors.tasks.orchestration.messages import Cancel, EscalationResponse, Pause, SetPriority, TaskArrived
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
from actors.testing import AsyncScriptedExecutable, Hang, ScriptedExecutable
from tests.support.crew import LONG_S
from tests.support.databases import postgres, postgres_url, sqlite_url, store_url
from tests.tasks.dispatching import heard, until
from tests.trees.store.stores import asked
from trees import (
    Approve,
    Escalate,
    OrderDamaged,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskHandle,
    Tasks,
    TaskStatus,
    Tree,
    WorkerSpec,
    start,
)
from trees.command.store_client import StoreClient
from trees.store import SqlStore
from trees.store.writer import Writer

__all__ = ["postgres", "postgres_url", "sqlite_url", "store_url"]
PATH: Final = "p/orchestrator"


def spec_of(work: Any, **fields: Any) -> SupervisorSpec:
    worker = WorkerSpec(id="a", execute=work.execute, **fields)
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan([Subtask("a")]), on_failure=[]), children=[worker])


def hangs() -> tuple[SupervisorSpec, AsyncScriptedExecutable]:
    work = AsyncScriptedExecutable(Hang(), by="call")
    return spec_of(work), work


def left(url: str) -> int:
    """How many orders lie in the store."""
    with StoreClient(url) as outside, outside._store._database.reading() as connection:
        return len(connection.exec_driver_sql("SELECT id FROM regrow_orders").all())


def is_down(tree: Tree, _: pytest.MonkeyPatch) -> None:
    tree.terminate_child(PATH)


def is_overtaken(_: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits at the port is not come to before the stop."""
    monkeypatch.setitem(Orchestrator._HANDLERS, _Waiting, lambda *_: None)


_Waiting: Final[Any] = next(kind for kind in Orchestrator._HANDLERS if kind.__name__ == "CommandsWaiting")
BEFORE = pytest.mark.parametrize("before", [is_down, is_overtaken])


def ended_with(
    url: str, before: Callable[[Tree, pytest.MonkeyPatch], None], order: Callable[[TaskHandle], object]
) -> list[str]:
    """A tree with a task that runs, which ends after this was ordered; what it said of orders that are lost."""
    (spec, work), said = hangs(), list[str]()
    with pytest.MonkeyPatch.context() as monkeypatch, start(spec, store=url) as tree:
        tree.subscribe(lambda event: said.append(str(event.error)) if isinstance(event, OrderDamaged) else None)
        handle = tree.submit(Task("do it", id="t"))
        work.wait_for_calls(1)
        before(tree, monkeypatch)
        order(handle)
        tree.stop()
    return said


@pytest.mark.slow
@BEFORE
def test_a_cancel_that_nobody_has_come_to_is_carried_out_by_the_next_process(
    store_url: str, before: Callable[[Tree, pytest.MonkeyPatch], None]
) -> None:
    said = ended_with(store_url, before, lambda handle: handle.cancel("enough"))
    kept = left(store_url)
    with start(hangs()[0], store=store_url) as tree:
        with pytest.raises(TaskCancelledError, match="enough"):
            tree.task("t").result(timeout=LONG_S)
        heard(tree, "p")

    assert (said, kept, left(store_url)) == ([], 1, 0)


@BEFORE
def test_a_cancel_that_is_kept_at_the_end_of_the_tree_is_recorded_and_one_that_cannot_be_is_not(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, before: Callable[[Tree, pytest.MonkeyPatch], None]
) -> None:
    kept, lost = list[Any](), list[Any]()
    ended_with(sqlite_url, before, lambda handle: kept.append(handle.cancel("enough")))
    assert kept[0].get(timeout=LONG_S) is None

    monkeypatch.setattr(SqlStore, "leave_order", DurableStore.leave_order)
    ended_with(f"{sqlite_url}2", before, lambda handle: lost.append(handle.cancel("enough")))
    with pytest.raises(TreeDownError):
        lost[0].get(timeout=LONG_S)


@BEFORE
def test_of_two_priorities_the_later_one_counts_in_the_next_process(
    sqlite_url: str, before: Callable[[Tree, pytest.MonkeyPatch], None]
) -> None:
    def order(handle: TaskHandle) -> None:
        handle.set_priority(3)
        handle.set_priority(-7)

    ended_with(sqlite_url, before, order)
    with start(hangs()[0], store=sqlite_url) as tree:
        until(lambda: tree.task("t").task.priority == -7)


@BEFORE
def test_an_answer_that_nobody_has_come_to_is_given_by_the_next_process(
    store_url: str, monkeypatch: pytest.MonkeyPatch, before: Callable[[Tree, pytest.MonkeyPatch], None]
) -> None:
    script = ScriptedExecutable(OSError("disk"), "ok", by="call")
    spec = spec_of(script, on_failure=[Escalate()])
    with monkeypatch.context() as held, start(spec, store=store_url) as tree:
        id_ = asked(tree.submit(Task("do it", id="t")), tree)
        before(tree, held)
        tree.respond(id_, Approve())
        tree.stop()
    with start(spec, store=store_url) as tree:
        report = tree.task("t").result(timeout=LONG_S)
        heard(tree, "p")

    assert (report.status, report.results) == (TaskStatus.SUCCEEDED, {"a": "ok"})
    assert left(store_url) == 0


def test_an_answer_in_time_that_nobody_has_come_to_counts_in_the_next_process_though_its_time_is_up(
    sqlite_url: str,
) -> None:
    script = ScriptedExecutable(OSError("disk"), "ok", by="call")
    spec = spec_of(script, on_failure=[Escalate(timeout_s=8.0)])
    with start(spec, store=sqlite_url) as tree:
        handle = tree.submit(Task("do it", id="t"))
        id_ = asked(handle, tree)
        tree.terminate_child(PATH)
        tree.respond(id_, Approve())
        due = handle.escalations[0].due if handle.escalations else tree._system.services["tasks"].time() + 8.0
        until(lambda: tree._system.services["tasks"].time() > due)
        tree.stop()
    with start(spec, store=sqlite_url) as tree:
        assert tree.task("t").result(timeout=LONG_S).results == {"a": "ok"}


def test_an_order_that_was_carried_out_is_not_left(sqlite_url: str) -> None:
    spec, work = hangs()
    with start(spec, store=sqlite_url) as tree:
        handle = tree.submit(Task("do it", id="t"))
        work.wait_for_calls(1)
        handle.set_priority(3)
        handle.cancel("enough")
        with pytest.raises(TaskCancelledError):
            handle.result(timeout=LONG_S)

    assert left(sqlite_url) == 0


@BEFORE
def test_a_store_that_can_keep_no_order_says_which_one_is_lost(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, before: Callable[[Tree, pytest.MonkeyPatch], None]
) -> None:
    monkeypatch.setattr(SqlStore, "leave_order", DurableStore.leave_order)
    (said,) = ended_with(sqlite_url, before, lambda handle: handle.cancel("enough"))

    assert "cannot keep 'cancel' of task t, which nobody had carried out" in said
    assert left(sqlite_url) == 0


def test_a_store_that_cannot_be_written_at_its_end_says_which_orders_are_lost(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = Writer.paused_s
    monkeypatch.setattr(SqlStore, "close", closing_paused(SqlStore.close, monkeypatch))
    (said,) = ended_with(sqlite_url, is_down, lambda handle: handle.cancel("enough"))

    assert "could not keep 'cancel' of task t when the tree ended: cannot be written to" in said
    assert Writer.paused_s is paused
    assert left(sqlite_url) == 0


def closing_paused(close: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``close`` of a store whose database is away then."""

    def closing(store: SqlStore, *args: Any) -> None:
        with monkeypatch.context() as away:
            away.setattr(Writer, "paused_s", property(lambda _: 3.0))
            close(store, *args)

    return closing


def test_what_an_orchestrator_wants_of_another_one_is_no_order_of_a_user() -> None:
    assert order_of(Cancel("t", "enough")) == ("t", "cancel", {"reason": "enough"})
    assert order_of(SetPriority("t", 3)) == ("t", "priority", {"priority": 3})
    said = {"escalation": "t:a:1", "answer": "edit", "value": 7}
    assert order_of(EscalationResponse("t", "t:a:1", "edit", 7)) == ("t", "respond", said)
    for own in (Cancel("t", "withdrawn", 2), Pause("t"), TaskArrived("t")):
        assert order_of(own) is None


def down(handle: TaskHandle) -> bool:
    with pytest.raises(TreeDownError):
        handle.cancel("too late")
    return True


def test_an_order_of_a_tree_that_is_down_is_refused(sqlite_url: str) -> None:
    script = ScriptedExecutable(OSError("disk"), "ok", by="call")
    with start(spec_of(script, on_failure=[Escalate()]), store=sqlite_url) as tree:
        handle = tree.submit(Task("do it", id="t"))
        id_ = asked(handle, tree)
        tree.stop()
        assert down(handle)
        with pytest.raises(TreeDownError):
            handle.set_priority(3)
        for _ in range(2):
            with pytest.raises(TreeDownError):
                tree.respond(id_, Approve())

    assert left(sqlite_url) == 0


@pytest.mark.parametrize("when", ["before", "meanwhile", "after"])
def test_an_order_that_comes_as_its_tree_ends_is_kept_or_refused_and_never_both(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Put there and taken back before the rest is left; left before it is looked for; and put there after that."""
    (spec, work), close, tell = hangs(), OrchestratorPort.close, OrchestratorPort.tell
    said = list[str]()

    def order() -> None:
        try:
            handle.cancel("enough")
        except TreeDownError:
            said.append("refused")

    def closing(port: OrchestratorPort) -> None:
        if when == "before":
            order()
        elif when == "meanwhile":
            monkeypatch.setattr(OrchestratorPort, "tell", lambda at, command: (tell(at, command), close(at)) and True)
            order()
        close(port)
        if when == "after":
            order()

    with start(spec, store=sqlite_url) as tree:
        handle = tree.submit(Task("do it", id="t"))
        work.wait_for_calls(1)
        monkeypatch.setattr(OrchestratorPort, "close", closing)
        tree.stop()

    assert (said, left(sqlite_url)) == (([], 1) if when == "meanwhile" else (["refused"], 0))


def test_of_a_tree_whose_tasks_go_with_it_nothing_is_left_to_be_ordered() -> None:
    spec, work = hangs()
    with start(spec) as tree:
        handle = tree.submit("do it")
        work.wait_for_calls(1)
    handle.cancel("too late")
