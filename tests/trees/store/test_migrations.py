"""Tables of other versions, and of others."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from actors.tasks.journal.codec import encode
from actors.tasks.model import task_events
from actors.tasks.model.task_ids import BREAKER
from tests.support.databases import Cluster
from tests.support.hardening import eventually
from tests.trees.store.stores import (
    OWNER,
    PATIENCE_S,
    ended,
    kept,
    opened,
    opened_and_closed,
    queued,
    refusal,
    submitted,
)
from trees import Respond, StaticPlan, StoreError, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start
from trees.store import Keep, SqlStore
from trees.store.schema import leases, tokens

# -- versions ----------------------------------------------------------------------------------------------------

VERSION_1 = """
CREATE TABLE regrow_meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE regrow_streams (root TEXT NOT NULL, id TEXT NOT NULL, owner TEXT NOT NULL, seq BIGINT NOT NULL,
    finished_at FLOAT, PRIMARY KEY (root, id)) WITHOUT ROWID;
CREATE TABLE regrow_records (root TEXT NOT NULL, stream TEXT NOT NULL, n INTEGER NOT NULL, kind TEXT NOT NULL,
    body TEXT NOT NULL, large TEXT, PRIMARY KEY (root, stream, n)) WITHOUT ROWID;
CREATE TABLE regrow_large (root TEXT NOT NULL, hash TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (root, hash));
CREATE TABLE regrow_leases (root TEXT NOT NULL PRIMARY KEY, token BIGINT NOT NULL, holder TEXT NOT NULL,
    expires_at FLOAT);
INSERT INTO regrow_meta VALUES ('schema', '1');
INSERT INTO regrow_leases VALUES ('p', 41, 'the process of then', NULL);
"""
"""What the first version made: there were no orders from other processes."""


def write_version_1(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(VERSION_1)
        connection.execute("INSERT INTO regrow_streams VALUES ('p', 't', 'p', 1, NULL)")
        for number, record in enumerate([submitted("t"), queued("t")]):
            kind, body = encode(record)
            row = ("p", "t", number, kind, body, None)
            connection.execute("INSERT INTO regrow_records VALUES (?, ?, ?, ?, ?, ?)", row)
        connection.commit()


def test_a_file_of_the_first_version_is_brought_up_to_date_with_all_that_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    write_version_1(file)

    store = opened(f"sqlite:///{file}")
    store.append("t", queued("t", 1))
    kept(store)
    looking = SqlStore.look(f"sqlite:///{file}")
    looking.post_command(OWNER, "t", "cancel", {})
    looking.close()

    assert list(store.read("t")) == [submitted("t"), queued("t"), queued("t", 1)]
    assert store.token == 42
    store.close()
    assert [task.id for task in opened_and_closed(f"sqlite:///{file}")] == ["t"]


def test_who_only_looks_brings_nothing_up_to_date(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    with pytest.raises(StoreError, match="does not exist"):
        SqlStore.look(f"sqlite:///{file}")
    assert not file.exists()
    sqlite3.connect(file).close()
    with pytest.raises(StoreError, match="is not a store yet"):
        SqlStore.look(f"sqlite:///{file}")
    write_version_1(file)
    with pytest.raises(StoreError, match="schema version 1"):
        SqlStore.look(f"sqlite:///{file}")


def execute(url: str, statement: str) -> None:
    """Run a statement on either kind of database."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.execute(statement)
            connection.commit()
        return
    with psycopg.connect(url, autocommit=True) as session:
        session.execute(statement.encode())


def test_a_newer_one_is_refused_and_left_as_it_is(store_url: str) -> None:
    store = opened(store_url)
    store.create("t", OWNER, submitted("t"))
    store.close()
    execute(store_url, "UPDATE regrow_meta SET value = '4'")

    assert "was written by a newer version (schema 4, this one knows 3). Upgrade regrow" in refusal(store_url)
    execute(store_url, "UPDATE regrow_meta SET value = '3'")
    assert [task.id for task in opened_and_closed(store_url)] == ["t"]


def test_tables_that_are_not_ours_are_left_alone(store_url: str) -> None:
    execute(store_url, "CREATE TABLE orders (number INTEGER)")
    opened_and_closed(store_url)
    execute(store_url, "INSERT INTO orders VALUES (7)")
    execute(store_url, "DELETE FROM regrow_meta")

    assert "a table regrow_meta without a schema version" in refusal(store_url)


def test_a_database_that_is_not_there_and_a_user_who_may_nothing_are_told_apart(postgres: Cluster) -> None:
    assert "refuses the connection. Check database, user and password" in refusal(postgres.url("ghost"))
    url = postgres.create()
    postgres.execute("CREATE ROLE nobody_much LOGIN")
    postgres.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", url)  # as it is from version 15 on
    stranger = url.replace(f"{postgres.user}@", "nobody_much@")

    assert "does not let this user do that. Grant it" in refusal(stranger)
    postgres.drop(url)


# -- version 2 ---------------------------------------------------------------------------------------------------

VERSION_2 = """
CREATE TABLE regrow_meta (key {name} PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE regrow_streams (root {name}, id {name}, owner TEXT NOT NULL, seq BIGINT NOT NULL, finished_at FLOAT,
    PRIMARY KEY (root, id));
CREATE INDEX regrow_streams_finished ON regrow_streams (root, finished_at);
CREATE TABLE regrow_records (root {name}, stream {name}, n INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    large TEXT, PRIMARY KEY (root, stream, n));
CREATE INDEX regrow_records_large ON regrow_records (root, large) WHERE large IS NOT NULL;
CREATE TABLE regrow_large (root {name}, hash {name}, body TEXT NOT NULL, PRIMARY KEY (root, hash));
CREATE TABLE regrow_orders (id {serial}, root {name}, task TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    at FLOAT NOT NULL);
CREATE TABLE regrow_leases (root {name} PRIMARY KEY, token BIGINT NOT NULL, holder TEXT NOT NULL, expires_at FLOAT)
"""
KEPT_BY_VERSION_2 = Path(__file__).parents[2] / "data" / "store_of_version_2.jsonl"
"""What a process of version 2 left when it was killed: a line for each row. It had finished four tasks, one with an id
like that of a part; another one waited for a person, and one for its team, of which a part was done."""


def write_version_2(url: str) -> None:
    is_file = url.startswith("sqlite")
    words = {
        "name": "TEXT NOT NULL" if is_file else 'TEXT COLLATE "C" NOT NULL',
        "serial": "INTEGER PRIMARY KEY AUTOINCREMENT" if is_file else "SERIAL PRIMARY KEY",
    }
    for statement in VERSION_2.format(**words).split(";"):
        execute(url, statement)
    for line in KEPT_BY_VERSION_2.read_text(encoding="ascii").splitlines():
        table, *row = json.loads(line.replace("@LARGE@", "x" * 9000))
        values = ", ".join("NULL" if each is None else f"'{each}'" for each in row)
        execute(url, f"INSERT INTO regrow_{table} VALUES ({values})")  # noqa: S608 - rows of our own


def tree_of_then(done: list[tuple[str, str]]) -> SupervisorSpec:
    """The declaration of the process that left it; ``done`` is told each effect's key."""

    def work(task: Subtask, context: Any) -> object:
        if task.id == "a" and context.feedback:
            return context.feedback
        done.append((task.id, context.idempotency_key))
        return 1

    quick, slow = WorkerSpec(id="quick", execute=work), WorkerSpec(id="slow", execute=work)
    steps = [Subtask("charge", worker="quick"), Subtask("pack", worker="slow", depends_on=["charge"])]
    shop = SupervisorSpec(id="shop", tasks=Tasks(planner=StaticPlan(steps)), children=[quick, slow])
    others = [WorkerSpec(id=name, execute=work) for name in ("bad", "ask")]
    plan = [Subtask("first", worker="quick"), Subtask("order", worker="shop", depends_on=["first"])]
    return SupervisorSpec(id="p", tasks=Tasks(planner=StaticPlan(plan)), children=[quick, *others, shop])


def test_what_a_process_of_version_2_left_goes_on_under_the_keys_that_it_had(store_url: str) -> None:
    write_version_2(store_url)
    done: list[tuple[str, str]] = []

    with start(tree_of_then(done), store=store_url) as tree:
        report = tree.task("t").result(timeout=PATIENCE_S)
        tree.respond("asks:a:1", Respond("this one"))
        asked = tree.task("asks").result(timeout=PATIENCE_S)
        assert {handle.id: str(handle.status) for handle in tree.tasks()} == {
            "done": "succeeded",
            "large": "succeeded",
            "done:like-a-part:1.1": "succeeded",
            "bad": "failed",
            "t": "succeeded",
            "t:order:1.1": "succeeded",
            "asks": "succeeded",
        }
        assert tree.task("large").result(timeout=PATIENCE_S).results == {"a": "x" * 9000}
        breaker = tree._system.services["tasks"].store.read(f"{BREAKER}p/bad")
        new = tree.run(Task("team", id="new"), timeout=PATIENCE_S)
        assert tree.task("new@order:1.1").status == "succeeded"

    assert report.results["first"] == 1
    assert asked.results == {"a": "this one"}
    assert new.results["first"] == 1
    assert [key for id_, key in done if "t:order:1.1" in key] == ["p/t:order:1.1/pack/1"] or done[0][0] == "pack"
    assert ("charge", "t:order:1.1/charge/1") not in done  # it was done: its part was found under its old name
    assert isinstance(breaker[0], task_events.BreakerChanged)
    assert len(breaker[0].failures) == 2


def test_tasks_of_version_2_are_counted_and_deleted_with_their_own_parts_only(store_url: str) -> None:
    write_version_2(store_url)
    store = opened(store_url)
    for task in ("t:order:1.1", "t"):
        store.append(task, ended(task))
        store.finish(task)
    kept(store)
    tasks = {task.id: task.whole for task in store.all_tasks()}
    store.close()

    assert tasks["t:order:1.1"] == "t"
    assert [whole for id_, whole in tasks.items() if id_ != "t:order:1.1"] == [None] * 6
    store = opened(store_url, keep=Keep(count=0))  # which prunes by itself, on its own thread
    eventually(lambda: {task.id for task in store.all_tasks()} == {"asks"})
    store.close()


def test_a_process_of_version_2_that_still_runs_is_fenced_by_one_of_this_version(store_url: str) -> None:
    write_version_2(store_url)
    before = 1  # its token: it compares that with the row of the lease, under a lock of that row

    store = opened(store_url)
    assert store.token == before + 1
    look = SqlStore.look(store_url)
    with look._database.reading() as connection:
        assert connection.execute(select(leases.c.token)).scalars().all() == [store.token]
        assert connection.execute(select(tokens.c.token)).scalars().all() == [store.token]
    look.close()
    store.close()
