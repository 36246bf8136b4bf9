"""A task is taken out of its store: one that has ended, or is damaged; never one that goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any

import pytest
from sqlalchemy import create_engine, func, select

from actors import Reply
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.journal.task_state import TaskState
from actors.tasks.orchestration.messages import TaskArrived
from actors.tasks.orchestration.orchestrator import Orchestrator
from actors.tasks.orchestration.orchestrator_port import OrchestratorPort
from actors.tasks.scheduling.worker_registry import RegistrySnapshot
from tests.support.hardening import eventually
from tests.trees.store.stores import OWNER, PATIENCE_S, ended, kept, opened, submitted, succeeded
from tests.trees.store.test_damaged_rows import RECORDS, begun, damage, done, tree_of
from tests.trees.store.test_migrations import execute
from trees import (
    StaticPlan,
    StoreError,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Tree,
    UnknownTaskError,
    WorkerSpec,
    start,
)
from trees.command.store_client import StoreClient, StoreClientError
from trees.host.store_binding import TreeStoreListener
from trees.host.task_removal import NotRemovableError
from trees.store import Keep, SqlStore, record_reader
from trees.store.batches import Batch, Change, ChangeKind
from trees.store.database import Database
from trees.store.schema import metadata, records, streams


def rows_of(url: str, name: str) -> int:
    """How many rows there are of a task."""
    database = Database(url)
    with closing(database), database.reading() as connection:
        counts = [
            connection.execute(select(func.count()).where(column == name)).scalar_one()
            for column in (streams.c.id, records.c.stream)
        ]
        return sum(counts)


def apart(do: Callable[[str], None], id_: str) -> None:
    """Have another thread do it, while this one stands."""
    thread = threading.Thread(target=do, args=(id_,))
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


# -- by the tree ---------------------------------------------------------------------------------------------


def test_whatever_has_damaged_a_task_it_is_removed_and_its_id_may_be_used_again(store_url: str) -> None:
    names = {f"d{n}": statement for n, statement in enumerate(RECORDS.values())}
    with closing(opened(store_url)) as store:
        for name in [*names, "good"]:
            begun(store, name)
        kept(store)
    execute(store_url, "INSERT INTO regrow_large (root, hash, body, pieces) VALUES ('p', 'pieces', '', 2)")
    for name, statement in names.items():
        damage(store_url, name, statement)

    with start(tree_of(), store=store_url) as tree:
        tree.task("good").result(PATIENCE_S)
        for name in names:
            tree.remove_task(name)
            assert rows_of(store_url, name) == 0
            with pytest.raises(UnknownTaskError):
                tree.task(name)
        assert tree.run(Task("do it", id="d0"), PATIENCE_S).results == {"s": 1}
        assert [handle.id for handle in tree.tasks()] == ["good", "d0"]
    with start(tree_of(), store=store_url) as tree:
        assert {handle.id for handle in tree.tasks("succeeded")} == {"good", "d0"}


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_what_has_ended_is_removed_and_what_goes_on_is_not(durable: bool, store_url: str) -> None:
    gate = threading.Event()

    def work(_: Any, context: Any) -> str:
        if context.goal == "wait":
            gate.wait(PATIENCE_S)
        return "x" * 20_000

    with start(tree_of(work), store=store_url if durable else None) as tree:
        for name in ("a", "b"):
            tree.run(Task("go", id=name), PATIENCE_S)
        tree.submit(Task("wait", id="w"))
        with pytest.raises(NotRemovableError, match=r"task w cannot be removed: it has not ended\. Cancel it first"):
            tree.remove_task("w")
        with pytest.raises(UnknownTaskError):
            tree.remove_task("ghost")

        tree.remove_task("a")

        assert [handle.id for handle in tree.tasks()] == ["b", "w"]
        gate.set()
        tree.task("w").result(PATIENCE_S)
        report = tree.task("b").report
        assert report is not None  # what both had was kept once, and is still there
        assert len(report.results["s"]) == 20_000
        asyncio.run(tree.aremove_task("w"))
        assert [handle.id for handle in tree.tasks()] == ["b"]


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_nobody_is_told_of_an_end_before_the_task_can_be_removed(
    durable: bool, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    with start(tree_of(), store=store_url if durable else None) as tree:
        store = tree._system.services["tasks"].store
        real = store.finish

        def look(id_: str) -> None:
            handle = tree.task(id_)
            seen.append((handle.status, handle.report, handle._done.done))
            with pytest.raises(NotRemovableError):
                tree.remove_task(id_)

        def finish(id_: str) -> None:
            apart(look, id_)
            real(id_)

        monkeypatch.setattr(store, "finish", finish, raising=False)
        tree.run(Task("go", id="t"), PATIENCE_S)
        tree.remove_task("t")

    assert seen == [("running", None, False)]


WAYS: dict[str, Callable[[Tree, Task], Any]] = {
    "run": lambda tree, task: tree.run(task, PATIENCE_S).results,
    "arun": lambda tree, task: asyncio.run(tree.arun(task)).results,
    "submit": lambda tree, task: tree.submit(task).result(PATIENCE_S).results,
    "asubmit": lambda tree, task: asyncio.run(tree.asubmit(task)).result(PATIENCE_S).results,
    "submit_many": lambda tree, task: tree.submit_many([task])[0].result(PATIENCE_S).results,
    "map": lambda tree, task: next(iter(tree.map([task], "p")))[1],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_who_submits_a_task_has_its_report_though_it_is_removed_and_begun_anew_before_they_look(
    way: str, durable: bool, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    anew: list[Any] = []

    def begin_anew(id_: str) -> None:
        tree.remove_task(id_)
        anew.append(tree.submit(Task("anew", id=id_)))

    def tell(self: OrchestratorPort, *messages: Any) -> Any:
        told = real(self, *messages)
        if isinstance(messages[0], TaskArrived) and self.runtime.store.read("t")[0].spec.goal == "go":
            eventually(lambda: self.at_hand("t"))
            apart(begin_anew, "t")
        return told

    real = OrchestratorPort.tell
    monkeypatch.setattr(OrchestratorPort, "tell", tell)
    with start(tree_of(lambda _, context: context.goal), store=store_url if durable else None) as tree:
        assert WAYS[way](tree, Task("go", id="t")) == {"s": "go"}
        assert anew[0].result(PATIENCE_S).results == {"s": "anew"}


def test_the_end_of_a_task_that_the_next_orchestrator_has_taken_up_is_told_by_that_one() -> None:
    with start(tree_of()) as tree:
        report = dataclasses.replace(tree.run(Task("go"), PATIENCE_S), task_id="t")
        port = tree._system.services["tasks"].port_at(OWNER)
        late, its = TaskState("t"), TaskState("t")
        port.states["t"] = its
        waits = port.done["t"] = Reply()

        port.keep(report, late, lambda: pytest.fail("it is not this one's to finish"))

        assert not waits.done
        assert port.at_hand("t") is None
        port.keep(report, its)
        assert waits.get() is report


def test_an_end_that_was_shown_stays_so_while_the_next_orchestrator_finishes_the_task() -> None:
    with start(tree_of()) as tree:
        report = tree.run(Task("go", id="t"), PATIENCE_S)
        port = tree._system.services["tasks"].port_at(OWNER)
        port.states["t"] = its = TaskState("t")  # taken up between the end of the task and that of its stream
        seen: list[Any] = []

        assert (tree.task("t").report, str(tree.task("t").status)) == (report, "succeeded")
        with pytest.raises(NotRemovableError, match="has crashed and takes it up once more"):
            tree.remove_task("t")
        port.keep(report, its, lambda: seen.append(tree.task("t").report))

        assert seen == [report]
        tree.remove_task("t")


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_two_removals_of_one_id_leave_the_task_alone_that_is_begun_under_it_in_between(
    durable: bool, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, has_looked, begun_anew = threading.Event(), threading.Event(), threading.Event()

    def work(_: Any, context: Any) -> str:
        if context.goal == "anew":
            gate.wait(PATIENCE_S)
        return "done"

    def remove() -> None:
        with suppress(UnknownTaskError):
            tree.remove_task("t")

    def remove_and_begin_anew() -> None:
        remove()
        tree.submit(Task("anew", id="t"))
        begun_anew.set()

    with start(tree_of(work), store=store_url if durable else None) as tree:
        tree.run(Task("go", id="t"), PATIENCE_S)
        first, second = threading.Thread(target=remove), threading.Thread(target=remove_and_begin_anew)
        store = tree._system.services["tasks"].store
        real = store.standing

        def standing(id_: str) -> Any:
            found = real(id_)
            if threading.current_thread() is first and not has_looked.is_set():
                has_looked.set()
                begun_anew.wait(0.5)  # in vain, where the second has to wait for the first
            return found

        monkeypatch.setattr(store, "standing", standing, raising=False)
        first.start()
        assert has_looked.wait(PATIENCE_S)
        second.start()
        first.join(PATIENCE_S)
        assert begun_anew.wait(PATIENCE_S)
        second.join(PATIENCE_S)

        assert [handle.id for handle in tree.tasks()] == ["t"]
        gate.set()
        assert tree.task("t").result(PATIENCE_S).results == {"s": "done"}


def team_of(work: Callable[[Any, Any], Any]) -> SupervisorSpec:
    team = SupervisorSpec(
        id="team",
        tasks=Tasks(planner=StaticPlan([Subtask("x", worker="w")])),
        children=[WorkerSpec(id="w", execute=work)],
    )
    return SupervisorSpec(id=OWNER, tasks=Tasks(planner=StaticPlan([Subtask("t", worker="team")])), children=[team])


@pytest.mark.parametrize("durable", [False, True], ids=["memory", "durable"])
def test_a_part_of_the_next_task_does_not_show_the_end_of_the_one_that_was_removed(
    durable: bool, store_url: str
) -> None:
    begun, gate = threading.Event(), threading.Event()

    def work(task: Any, context: Any) -> str:
        if number:
            begun.set()
            gate.wait(PATIENCE_S)
        return f"run {number}"

    number = 0
    with start(team_of(work), store=store_url if durable else None) as tree:
        tree.run(Task("go", id="whole"), PATIENCE_S)
        (part,) = (each.id for each in tree.tasks() if each.id != "whole")
        tree.remove_task("whole")
        number = 1
        again = tree.submit(Task("go", id="whole"))
        assert begun.wait(PATIENCE_S)

        assert tree.task(part).status == "running"
        assert tree.task(part).report is None
        gate.set()
        again.result(PATIENCE_S)
        assert tree.task(part).result(PATIENCE_S).results == {"x": "run 1"}
        assert tree._system.services["tasks"].port_at(f"{OWNER}/team").finished == 2


def test_a_part_goes_with_the_whole_and_not_alone(store_url: str) -> None:
    with start(team_of(lambda *_: 1), store=store_url) as tree:
        tree.run(Task("go", id="whole"), PATIENCE_S)
        (part,) = (each.id for each in tree.tasks() if each.id != "whole")
        with pytest.raises(NotRemovableError, match="it is a part of task whole"):
            tree.remove_task(part)

        tree.remove_task("whole")

        assert tree.tasks() == []
        assert rows_of(store_url, part) == 0


def test_what_is_written_before_and_after_a_removal_in_one_go_is_in_that_order() -> None:
    engine = create_engine("sqlite://")
    changes = [
        Change(ChangeKind.CREATED, "t", number=1, owner=OWNER, record=submitted("t")),
        Change(ChangeKind.ADDED, "t", number=1, record=succeeded("t", "old")),
        Change(ChangeKind.CREATED, "other", number=2, owner=OWNER, record=submitted("other")),
        Change(ChangeKind.FINISHED, "t", at=1.0),
        Change(ChangeKind.REMOVED, "t"),
        Change(ChangeKind.CREATED, "t", number=3, owner=OWNER, record=submitted("t")),
    ]
    with engine.begin() as connection:
        metadata.create_all(connection)
        left, sizes = changes, []
        while left:
            batch = Batch("p", {"t"} if len(left) == 2 else ())  # a stream that takes no more can be removed, too
            batch.fill(left)
            batch.write(connection)
            batch.write(connection)  # whoever does not know whether it was written writes it again
            sizes.append(batch.size)
            left = left[batch.size :]
        found = {each.id: (each.seq, each.records) for each in record_reader.unfinished(connection, "p")}
    engine.dispose()

    assert sizes == [5, 1]
    assert found == {"other": (2, [submitted("other")]), "t": (3, [submitted("t")])}


# -- from outside --------------------------------------------------------------------------------------------


def test_from_outside_a_task_is_removed_by_its_tree(store_url: str) -> None:
    hold = threading.Event()
    with closing(opened(store_url)) as store:
        for name in ("lost", "gap", "ended"):
            (done if name == "ended" else begun)(store, name)
        kept(store)
    damage(store_url, "lost", RECORDS["all lost"])
    damage(store_url, "gap", RECORDS["a gap"])

    with StoreClient(store_url) as outside:
        assert outside.remove("lost", None, 0.0).startswith("task lost: no tree has taken this yet")
        with start(tree_of(lambda *_: hold.wait(PATIENCE_S)), store=store_url) as tree:
            eventually(lambda: rows_of(store_url, "lost") == 0)
            assert outside.remove("gap", None, PATIENCE_S) == "task gap: removed"
            assert outside.remove("ended", "p", PATIENCE_S) == "task ended: removed"
            tree.submit(Task("go", id="going"))
            with pytest.raises(StoreClientError, match="has not ended, and is not damaged"):
                outside.remove("going", None, PATIENCE_S)
            with pytest.raises(StoreClientError, match="is not in this store"):
                outside.remove("gap", None, PATIENCE_S)
            hold.set()
            tree.task("going").result(PATIENCE_S)


def test_an_order_to_remove_a_task_that_has_ended_waits_until_its_orchestrator_has_finished_it(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other order, that it comes when all is finished, is in the test before this one."""
    with closing(opened(store_url)) as store:
        begun(store, "ended")
        store.append("ended", ended("ended"))  # the process dies before it says that nothing more comes
        kept(store)
    is_placed = threading.Event()
    place, begin = TreeStoreListener._place, Orchestrator._on_registry_snapshot

    def placed(self: TreeStoreListener, order: RemoteCommand) -> None:
        place(self, order)
        is_placed.set()

    def begun_later(self: Orchestrator, message: RegistrySnapshot) -> None:
        assert is_placed.wait(PATIENCE_S)
        begin(self, message)

    monkeypatch.setattr(TreeStoreListener, "_place", placed)
    monkeypatch.setitem(Orchestrator._HANDLERS, RegistrySnapshot, begun_later)
    with StoreClient(store_url) as outside:
        assert outside.task("ended")[0].state.final == "succeeded"
        assert outside.remove("ended", None, 0.0).startswith("task ended: no tree has taken this yet")
        with start(tree_of(), store=store_url, loop_stall_s=None) as tree:
            eventually(lambda: rows_of(store_url, "ended") == 0)
            assert tree.submit(Task("go", id="ended")).result(PATIENCE_S).results == {"s": 1}


# -- what is found without the database ----------------------------------------------------------------------


def test_a_task_is_found_without_a_query_and_awaited_without_one_on_the_loop(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start(tree_of(), store=store_url) as tree:
        tree.run(Task("go", id="old"), PATIENCE_S)
    readers: list[threading.Thread] = []
    reading = Database.reading

    def noted(self: Database) -> Any:
        readers.append(threading.current_thread())
        return reading(self)

    with start(tree_of(), store=store_url) as tree:
        monkeypatch.setattr(Database, "reading", noted)
        session = [each for each in readers if each is threading.current_thread()]

        async def look() -> Any:
            handle = tree.task("old")
            with pytest.raises(UnknownTaskError):
                tree.task("ghost")
            report = await handle
            assert handle.report is report
            return report

        report = asyncio.run(look())
        here = [each for each in readers if each is threading.current_thread()]

    assert report.results == {"s": 1}
    assert here == session == []


def test_tasks_lists_what_the_store_has_and_a_name_like_another_makes_no_part(store_url: str) -> None:
    with start(tree_of(), store=store_url, keep=Keep(age_s=None, count=3)) as tree:
        names = ["acme", *(f"acme:{n}" for n in range(6))]
        for name in names:
            tree.run(Task("go", id=name), PATIENCE_S)

        eventually(lambda: [handle.id for handle in tree.tasks()] == names[-3:])
        with pytest.raises(UnknownTaskError):
            tree.task("acme")
        assert tree.submit(Task("go", id="acme")).result(PATIENCE_S).results == {"s": 1}


# -- while somebody reads it -----------------------------------------------------------------------------------


def finished(store: Any, *more: Any) -> None:
    """Keep a task that has ended, with these records as well."""
    store.create("t", OWNER, submitted("t"))
    for record in (*more, ended("t")):
        store.append("t", record)
    store.finish("t")
    kept(store)


@pytest.mark.parametrize("way", ["read", "outline"])
@pytest.mark.parametrize("between", ["removed", "begun anew", "pruned"])
def test_what_is_removed_between_the_look_for_it_and_the_query_is_no_damage(
    store_url: str, way: str, between: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SqlStore, "_prune", lambda _: None)  # which would say what is leaving
    with closing(opened(store_url)) as store:
        finished(store)
        query = store._database.read

        def late(look: Any) -> Any:
            monkeypatch.setattr(store._database, "read", query)
            if between == "pruned":  # as long as its rows are gone, and it is not forgotten yet
                store._leaving = ["t"]
                execute(store_url, "DELETE FROM regrow_records")
            else:
                store.remove("t")
                kept(store)
            if between == "begun anew":
                store.create("t", OWNER, submitted("t"))
            return query(look)

        monkeypatch.setattr(store._database, "read", late)
        found = getattr(store, way)("t")
        store._leaving = []

        assert [type(each).__name__ for each in found] == ["TaskSubmitted"] * (between == "begun anew")


def test_one_that_was_begun_anew_is_not_damaged_because_values_of_the_former_one_are_gone(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(opened(store_url)) as store:
        finished(store, succeeded("t", "x" * 1_000_000))
        query = store._database.read

        def late(look: Any) -> Any:
            monkeypatch.undo()
            store.remove("t")
            kept(store)
            store.create("t", OWNER, submitted("t"))
            return query(look)

        monkeypatch.setattr(store._database, "read", late)
        with pytest.raises(StoreError, match="lacks record 1"):
            store._some("t", [1])

        assert store.standing("t").is_ == "unfinished"
        assert len(store.read("t")) == 1
