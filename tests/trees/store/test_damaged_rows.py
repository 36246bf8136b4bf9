"""Damage to one row is damage to one task: it is told, all others go on, and nothing stands still."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from loguru import logger

from actors import Event, InternalError
from actors.tasks.journal.fold import fold
from actors.tasks.model import task_events
from actors.tasks.model.task_errors import DamagedJournalError
from actors.tasks.model.task_ids import BREAKER
from tests.support.hardening import eventually
from tests.trees.store.stores import OWNER, PATIENCE_S, Heard, counted, ended, kept, opened, submitted
from tests.trees.store.test_migrations import execute
from trees import (
    HA,
    JournalDamaged,
    OrderDamaged,
    Plan,
    StaticPlan,
    StoreError,
    StorePaused,
    Subtask,
    SupervisorSpec,
    Task,
    TaskFailedError,
    Tasks,
    Tree,
    WorkerSpec,
    start,
)
from trees.command.store_client import StoreClient, StoreClientError
from trees.store import Keep, SqlStore

PLAN = [Subtask("s", worker="w")]
LARGE = "x" * 9_000


def tree_of(work: Callable[[Any, Any], Any] = lambda *_: 1) -> SupervisorSpec:
    return SupervisorSpec(
        id=OWNER, tasks=Tasks(planner=StaticPlan(PLAN)), children=[WorkerSpec(id="w", execute=work, pool=2)]
    )


def begun(store: Any, name: str) -> None:
    """A task that is not finished, with two records; the second has a value that is kept apart."""
    store.create(name, OWNER, submitted(name))
    plan = Plan([*PLAN, Subtask("t", instruction=LARGE, worker="w")])
    store.append(name, task_events.Planned(OWNER, name, 2.5, plan))


def done(store: Any, name: str) -> None:
    begun(store, name)
    store.append(name, ended(name))
    store.finish(name)


RECORDS = {
    "no JSON": "UPDATE regrow_records SET body = '{{' WHERE {of} AND n = 1",
    "no object": "UPDATE regrow_records SET body = '[1]' WHERE {of} AND n = 1",
    "null": "UPDATE regrow_records SET body = 'null' WHERE {of} AND n = 0",
    "fields of a wrong type": "UPDATE regrow_records SET body = '{{\"path\":7}}' WHERE {of} AND n = 0",
    "a field too many": "UPDATE regrow_records SET body = replace(body, '{{', '{{\"odd\":1,') WHERE {of} AND n = 0",
    "another kind": "UPDATE regrow_records SET kind = 'SubtaskStarted' WHERE {of} AND n = 1",
    "a kind that reads and makes no sense": "UPDATE regrow_records SET kind = 'TaskPaused',"
    ' body = \'{{"path":"p","task":"t","at":1.0}}\' WHERE {of} AND n = 0',
    "of an unknown event": "UPDATE regrow_records SET kind = 'FromTomorrow' WHERE {of} AND n = 1",
    "no event but a name of the module": "UPDATE regrow_records SET kind = 'Standing' WHERE {of} AND n = 1",
    "the first one missing": "DELETE FROM regrow_records WHERE {of} AND n = 0",
    "a gap": "UPDATE regrow_records SET n = 7 WHERE {of} AND n = 1",
    "a subtask that is none": "INSERT INTO regrow_records (root, stream, n, kind, body) VALUES ('p', '{name}', 2,"
    ' \'SubtaskQueued\', \'{{"path":"p","task":"t","at":1.0,"subtask":"ghost"}}\')',
    "all lost": "DELETE FROM regrow_records WHERE {of}",
    "its value lost": "UPDATE regrow_records SET large = 'gone' WHERE {of} AND n = 1",
    "pieces of its value lost": "UPDATE regrow_records SET large = 'pieces' WHERE {of} AND n = 1",
}
"""What can have happened to the records of a task."""
SQLITE_ONLY = {
    "no text": "UPDATE regrow_records SET body = CAST(x'7bff00fe' AS TEXT) WHERE {of} AND n = 1",
    "a number that is none": "UPDATE regrow_records SET n = 'one' WHERE {of} AND n = 1",
}
ORDERS = {
    "no JSON": ("'d'", "'cancel'", "'not json'"),
    "no object": ("'d'", "'cancel'", "'[1, 2]'"),
    "an unknown kind": ("'good'", "'explode'", "'{}'"),
    "no reason": ("'good'", "'cancel'", "'{}'"),
    "an unknown answer": ("'good'", "'respond'", '\'{"escalation":"x","answer":"shrug","value":1}\''),
    "an unknown task": ("'ghost'", "'cancel'", '\'{"reason":""}\''),
    "deep": ("'d'", "'cancel'", "'" + "[" * 100_000 + "'"),
}
BREAKERS = {
    "no JSON": "UPDATE regrow_records SET body = '{{' WHERE {of}",
    "another kind": "UPDATE regrow_records SET kind = 'TaskFinished' WHERE {of}",
    "lost": "DELETE FROM regrow_records WHERE {of}",
}


def cases(url: str) -> dict[str, str]:
    return RECORDS | (SQLITE_ONLY if url.startswith("sqlite") else {})


def damage(url: str, name: str, statement: str) -> None:
    execute(url, statement.format(of=f"root = 'p' AND stream = '{name}'", name=name))


def told(tree: Tree) -> list[Event]:
    heard: list[Event] = []
    tree.subscribe(heard.append)
    return heard


@contextmanager
def damage_logged() -> Iterator[list[str]]:
    """Tasks whose damage the log tells of: also what is told before the tree is up, and anybody could subscribe."""
    tasks: list[str] = []
    sink = logger.add(lambda line: tasks.extend(re.findall(r"JournalDamaged task=(\S+)", line)), level="ERROR")
    try:
        yield tasks
    finally:
        logger.remove(sink)


def test_journals_that_are_damaged_when_it_starts_are_told_and_all_others_go_on(store_url: str) -> None:
    all_cases = list(cases(store_url).values())
    store = opened(store_url)
    for name in ("before", *(f"d{n}" for n in range(len(all_cases))), "after"):
        begun(store, name)
    kept(store)
    store.close()
    execute(store_url, "INSERT INTO regrow_large (root, hash, body, pieces) VALUES ('p', 'pieces', '', 2)")
    for n, statement in enumerate(all_cases):
        damage(store_url, f"d{n}", statement)

    with damage_logged() as logged, closing(opened(store_url)) as store, start(tree_of(), store=store) as tree:
        heard = told(tree)
        for name in ("before", "after"):
            assert tree.task(name).result(PATIENCE_S).results == {"s": 1, "t": 1}
        assert tree.run("new", PATIENCE_S).results == {"s": 1}
        wanted = {f"d{n}" for n in range(len(all_cases))}
        eventually(lambda: set(logged) >= wanted)
        assert not [event for event in heard if isinstance(event, StorePaused)]
        for name in sorted(wanted):
            with pytest.raises(StoreError):
                _ = tree.task(name).status


@pytest.mark.slow
@pytest.mark.parametrize("name", [*RECORDS, *SQLITE_ONLY])
def test_the_journal_of_a_finished_task_that_is_damaged_while_it_runs_is_refused_by_its_own_name(
    name: str, store_url: str
) -> None:
    statement = cases(store_url).get(name)
    if statement is None:
        pytest.skip("only a file of SQLite takes that")
    with closing(opened(store_url)) as store:
        done(store, "d")
        done(store, "other")
        kept(store)
        execute(store_url, "INSERT INTO regrow_large (root, hash, body, pieces) VALUES ('p', 'pieces', '', 2)")
        damage(store_url, "d", statement.replace("'{name}', 2", "'{name}', 3"))

        with pytest.raises(StoreError, match="'d'"):
            fold("d", store.read("d"))
        assert fold("other", store.read("other")).final == "succeeded"
        store.create("new", OWNER, submitted("new"))
        kept(store)


def test_orders_that_are_none_are_told_and_taken_away_and_those_after_them_are_done(store_url: str) -> None:
    gate = threading.Event()
    with start(tree_of(lambda *_: gate.wait(PATIENCE_S)), store=store_url) as tree:
        heard = told(tree)
        good = tree.submit(Task("go", id="good"))
        for task, kind, body in ORDERS.values():
            values = f"'p', {task}, {kind}, {body}, 0"
            execute(store_url, f"INSERT INTO regrow_orders (root, task, kind, body, at) VALUES ({values})")  # noqa: S608
        look = SqlStore.look(store_url)
        last = look.post_command(OWNER, "good", "cancel", {"reason": "enough"})
        eventually(lambda: good.report is not None)
        eventually(lambda: not any(look.is_waiting(OWNER, order) for order in range(last + 1)))
        look.close()
        gate.set()

        assert tree.run("again", PATIENCE_S).results == {"s": True}
    unread = [event for event in heard if isinstance(event, OrderDamaged)]
    assert [event.task for event in unread] == ["d", "d", "d"]


def test_orders_that_lie_there_when_it_starts_do_no_harm_either(store_url: str) -> None:
    opened(store_url).close()
    for task, kind, body in ORDERS.values():
        values = f"'p', {task}, {kind}, {body}, 0"
        execute(store_url, f"INSERT INTO regrow_orders (root, task, kind, body, at) VALUES ({values})")  # noqa: S608
    with start(tree_of(), store=store_url) as tree:
        assert tree.run("go", PATIENCE_S).results == {"s": 1}
        look = SqlStore.look(store_url)
        eventually(lambda: not any(look.is_waiting(OWNER, order) for order in range(10)))
        look.close()


@pytest.mark.parametrize("name", BREAKERS)
def test_what_is_kept_of_a_breaker_may_be_damaged_and_it_begins_anew(name: str, store_url: str) -> None:
    store = opened(store_url)
    store.replace(f"{BREAKER}p/w", OWNER, counted(3))
    begun(store, "t")
    kept(store)
    store.close()
    damage(store_url, f"{BREAKER}p/w", BREAKERS[name])

    store = opened(store_url)
    store.listener = heard = Heard()
    assert heard.wait_for(JournalDamaged).task == f"{BREAKER}p/w"
    store.close()
    with start(tree_of(), store=store_url) as tree:
        assert tree.task("t").result(PATIENCE_S).results == {"s": 1, "t": 1}


def test_a_row_under_the_number_of_the_next_record_is_replaced_by_that(store_url: str) -> None:
    store = opened(store_url)
    begun(store, "t")
    kept(store)
    execute(store_url, "INSERT INTO regrow_records (root, stream, n, kind, body) VALUES ('p', 't', 2, 'Odd', 'odd')")
    store.append("t", ended("t"))
    kept(store)
    store.close()

    store = opened(store_url)
    assert store.read("t")[-1] == ended("t")
    store.close()


LOST = {"token": "DELETE FROM regrow_tokens", "another": "UPDATE regrow_tokens SET token = token + 5"}


@pytest.mark.parametrize("name", LOST)
def test_a_token_that_is_gone_or_another_is_the_end_of_the_tree_and_everybody_hears_it(
    name: str, store_url: str
) -> None:
    gate = threading.Event()
    tree = start(tree_of(lambda *_: gate.wait(PATIENCE_S)), store=store_url)
    waiting = tree.submit("go")
    execute(store_url, LOST[name])

    with pytest.raises(StoreError):
        tree.wait(PATIENCE_S)
    gate.set()
    assert waiting._done.wait(PATIENCE_S)
    assert not waiting._done.succeeded
    with start(tree_of(), store=store_url) as again:  # the next one takes a token that is larger than either
        assert again.run("go", PATIENCE_S).results == {"s": 1}


def test_the_row_of_the_lease_may_be_missing_when_it_starts(store_url: str) -> None:
    opened(store_url).close()
    first = opened(store_url)
    token = first.token
    first.close()
    execute(store_url, "DELETE FROM regrow_leases")

    second = opened(store_url)
    assert second.token > token  # whoever remembers an older one is still refused
    second.close()


NO_NUMBERS = {
    "the end of the lease": "UPDATE regrow_leases SET expires_at = 'soon'",
    "the token of the lease": "UPDATE regrow_leases SET token = x'00'",
    "the token": "UPDATE regrow_tokens SET token = 'seven'",
    "all of them": "UPDATE regrow_leases SET token = 'seven', expires_at = 'soon'; UPDATE regrow_tokens SET token = ''",
}


@pytest.mark.parametrize("ha", [None, HA(lease_s=10.0, name="new")], ids=["alone", "ha"])
@pytest.mark.parametrize("statements", NO_NUMBERS.values(), ids=NO_NUMBERS.keys())
def test_a_lease_or_token_that_is_no_number_is_taken_anew(statements: str, ha: HA | None, sqlite_url: str) -> None:
    with closing(opened(sqlite_url)) as store:
        begun(store, "t")
        kept(store)
    for statement in statements.split("; "):
        execute(sqlite_url, statement)

    with StoreClient(sqlite_url) as outside:
        assert [root.root for root in outside.roots()] == ["p"]
    with start(tree_of(), store=sqlite_url, ha=ha) as tree:
        assert tree.wait_for_role("leader", PATIENCE_S)
        assert tree.task("t").result(PATIENCE_S).results == {"s": 1, "t": 1}


def test_rows_whose_names_are_none_hide_no_task_from_those_who_look_from_outside(sqlite_url: str) -> None:
    with closing(opened(sqlite_url)) as store:
        done(store, "t")
        begun(store, "u")
        kept(store)
    copied = (
        "INSERT INTO regrow_streams SELECT {}, owner, seq, finished_at, whole, last FROM regrow_streams"
        " WHERE id = 't' AND root = 'p'"
    )
    for names in ("x'ff', id", "root, x'fe'", "'a/b', id"):
        execute(sqlite_url, copied.format(names))
    execute(sqlite_url, "INSERT INTO regrow_leases SELECT root || '/p', token, holder, expires_at FROM regrow_leases")
    execute(sqlite_url, "UPDATE regrow_streams SET finished_at = 'late' WHERE id = 't' AND root = 'p'")

    with StoreClient(sqlite_url) as outside:
        assert {task.id for task in outside.tasks(None, root="p").tasks} == {"t", "u"}
        assert outside.task("t", "p")[0].id == "t"
        assert "p" in [root.root for root in outside.roots()]


def test_large_values_that_are_damaged_cost_the_tasks_that_need_them_and_no_restart_of_their_orchestrator(
    sqlite_url: str,
) -> None:
    """So many that as many crashes would end the tree; each shows when it is needed."""
    names, waits = [f"t{number}" for number in range(5)], threading.Semaphore(0)
    plan = [Subtask("large", worker="w"), Subtask("after", worker="v", depends_on=["large"])]
    needed = threading.Event()

    def work(_: Any, context: Any) -> str:
        return f"{context.task_id} {LARGE}"

    async def after(_: Any, context: Any) -> int:
        waits.release()
        if not needed.is_set():
            await asyncio.Event().wait()
        return len(context.results["large"])

    workers = [WorkerSpec(id="w", execute=work), WorkerSpec(id="v", execute=after, pool=len(names) + 1)]
    spec = SupervisorSpec(id=OWNER, tasks=Tasks(planner=StaticPlan(plan)), children=workers)
    with start(spec, store=sqlite_url) as tree:
        for name in [*names, "good"]:
            tree.submit(Task("do it", id=name))
        assert all(waits.acquire(timeout=PATIENCE_S) for _ in [*names, "good"])
    execute(sqlite_url, "UPDATE regrow_large SET body = substr(body, 1, 100) WHERE body NOT LIKE '%good%'")
    needed.set()

    with start(spec, store=sqlite_url) as tree:
        heard = told(tree)
        for name in names:
            with pytest.raises((TaskFailedError, DamagedJournalError), match="damaged"):
                tree.task(name).result(PATIENCE_S)
        assert tree.task("good").result(PATIENCE_S).results["after"] == len(LARGE) + 5
        assert tree.run("new", PATIENCE_S).results["after"] > len(LARGE)
        top: Any = tree.snapshot().top
        assert top.limit.restarts == 0
        for name in names:
            tree.remove_task(name)
        assert not [event for event in heard if isinstance(event, InternalError)]


OF_T = "SELECT root, {id}, owner, 7, {end}, whole, last FROM regrow_streams WHERE id = 't'"
NO_NAMES = {
    "a finished task": [OF_T.format(id="x'fe'", end="finished_at")],
    "an unfinished task": [OF_T.format(id="x'fe'", end="NULL")],
    "one with records": [
        OF_T.format(id="x'fe'", end="NULL"),
        "SELECT root, x'fe', n, kind, body, large FROM regrow_records WHERE stream = 't'",
    ],
}


@pytest.mark.parametrize("rows", NO_NAMES.values(), ids=NO_NAMES.keys())
def test_a_task_whose_id_is_no_text_is_told_and_keeps_no_tree_from_starting(rows: list[str], sqlite_url: str) -> None:
    with closing(opened(sqlite_url)) as store:
        done(store, "t")
        begun(store, "u")
        kept(store)
    for table, row in zip(("regrow_streams", "regrow_records"), rows, strict=False):
        execute(sqlite_url, f"INSERT INTO {table} {row}")

    with damage_logged() as logged, start(tree_of(), store=sqlite_url) as tree:
        assert tree.task("u").result(PATIENCE_S).results == {"s": 1, "t": 1}
        eventually(lambda: bool(logged) == ("NULL" in rows[0]))


def test_the_name_of_a_value_that_is_no_text_keeps_no_task_from_being_deleted(sqlite_url: str) -> None:
    with closing(opened(sqlite_url)) as store:
        done(store, "t")
        done(store, "u")
        kept(store)
    execute(sqlite_url, "UPDATE regrow_records SET large = x'ff' WHERE stream = 't' AND large IS NOT NULL")

    with closing(opened(sqlite_url, keep=Keep(count=0))) as store:
        eventually(lambda: store.standing("t") is None and store.standing("u") is None)


def test_a_journal_that_reads_and_makes_no_sense_hides_no_other_task_from_those_who_look_from_outside(
    sqlite_url: str,
) -> None:
    with closing(opened(sqlite_url)) as store:
        begun(store, "t")
        begun(store, "u")
        kept(store)
    damage(sqlite_url, "t", RECORDS["a subtask that is none"])
    with closing(StoreClient(sqlite_url)) as outside:
        listed = outside.tasks(None)
        assert [task.id for task in listed.tasks] == ["u"]
        assert [line.partition(":")[0] for line in listed.damaged] == ["task t of p"]
        with pytest.raises(StoreClientError, match="cannot be found"):
            outside.question("t:s:1")
