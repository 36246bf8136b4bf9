"""The way by which almost all is written: rows behind the fence in one step, without SQLAlchemy in between.

Each case is written by that way and row by row, on both databases, twice each (a commit of which nobody heard is
written once more): all leave the same rows. With a token that counts no more neither leaves any.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, select

from tests.faults.proxy import proxied
from tests.support.databases import Cluster
from tests.trees.store.stores import (
    OWNER,
    PATIENCE_S,
    Heard,
    counted,
    ended,
    kept,
    opened,
    queued,
    settled,
    submitted,
    succeeded,
)
from trees.store import fenced_transaction, schema, statements
from trees.store.batches import LARGE, Batch, Change, ChangeKind
from trees.store.database import Database
from trees.store.schema import metadata, take_token

TOKEN = 7


def created(name: str, number: int, whole: str | None = None) -> Change:
    return Change(ChangeKind.CREATED, name, number=number, owner=OWNER, whole=whole, record=submitted(name))


def added(name: str, number: int, value: Any = 1) -> Change:
    return Change(ChangeKind.ADDED, name, number=number, record=succeeded(name, value))


def finished(name: str) -> Change:
    return Change(ChangeKind.FINISHED, name, record=ended(name), at=4.5)


CASES: dict[str, list[list[Change]]] = {
    "a stream": [[created("t", 1)]],
    "a part of another": [[created("t", 1), created("t@s:0.1", 2, "t")]],
    "records": [[created("t", 1)], [added("t", n) for n in range(1, 40)]],
    "odd values": [[created("t", 1), *(added("t", n, v) for n, v in enumerate(["'\"\\", "\x00\ud83d", "é:x%s?"], 1))]],
    "an odd name": [[created("%s :name ' \" \\ é", 1)]],
    "values apart": [
        [created("t", 1), added("t", 1, "x" * LARGE), added("t", 2, "x" * LARGE), added("t", 3, "y" * LARGE)]
    ],
    "an end": [[created("t", 1)], [finished("t")]],
    "begun and ended at once": [[created("t", 1), added("t", 1), finished("t")]],
    "ended and reopened": [[created("t", 1)], [finished("t")], [Change(ChangeKind.REOPENED, "t"), added("t", 1)]],
    "begun, ended and reopened at once": [[created("t", 1), finished("t"), Change(ChangeKind.REOPENED, "t")]],
    "ends of many": [[created(f"t{n}", n + 1) for n in range(9)], [finished(f"t{n}") for n in range(1, 9)]],
    "one that is replaced": [
        [Change(ChangeKind.REPLACED, "@b", owner=OWNER, record=counted(n)) for n in (1, 2)],
        [Change(ChangeKind.REPLACED, "@b", owner=OWNER, record=counted(3))],
    ],
    "a record that is there": [
        [created("t", 1), added("t", 1, "old")],
        [added("t", 1, "new"), added("t", 1, "newest")],
    ],
    "a stream that is there": [[created("t", 1)], [created("t", 5), finished("t")]],
    "orders": [[created("t", 1)], [Change(ChangeKind.ORDER_DONE, number=n) for n in (1, 3)]],
    "all at once": [
        [created("old", 1), created("ends", 2)],
        [
            *(created("t", 3), added("t", 1, "x" * LARGE), added("old", 1), finished("ends")),
            Change(ChangeKind.REPLACED, "@b", owner=OWNER, record=counted(1)),
            Change(ChangeKind.ORDER_DONE, number=2),
        ],
    ],
}
WAYS = ("at once", "row by row")


TABLES = (schema.streams, schema.records, schema.large, schema.orders)


@contextmanager
def database(url: str) -> Iterator[tuple[Database, Connection]]:
    """One with our tables and a token, and a connection that writes."""
    found = Database(url)
    found.create()
    with closing(found.writing()) as connection:
        with connection.begin():
            metadata.create_all(connection)
            for number in range(TOKEN):
                take_token(connection, OWNER, f"{number}")
        empty(connection)
        yield found, connection
    found.close()


def empty(connection: Connection) -> None:
    """Leave nothing but three orders."""
    given = {"root": OWNER, "task": "t", "kind": "cancel", "body": "{}", "at": 1.0}
    with connection.begin():
        for table in TABLES:
            connection.execute(table.delete())
        connection.execute(schema.orders.insert(), [given | {"id": number} for number in (1, 2, 3)])


def write(connection: Connection, changes: list[Change], way: str, token: int = TOKEN) -> bool:
    batch = Batch(OWNER)
    batch.fill(changes)
    assert (batch.refused, batch.size) == ([], len(changes))
    if way == "row by row":
        with connection.begin():
            batch.write(connection)
        return True
    commit = (
        fenced_transaction.commit_rows if connection.dialect.name == "sqlite" else fenced_transaction.commit_at_once
    )
    return commit(connection.connection.driver_connection, OWNER, token, batch.parts(), lambda: None)


def in_tables(connection: Connection) -> dict[str, list[Any]]:
    """All that is there."""
    with connection.begin():
        found = {each.name: [dict(row._mapping) for row in connection.execute(select(each))] for each in TABLES}
    return {name: sorted(of, key=repr) for name, of in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_whichever_way_it_is_written_and_however_often_the_same_rows_are_there(name: str, store_url: str) -> None:
    found: dict[Any, Any] = {}
    with database(store_url) as (_, connection):
        for way, times in itertools.product(WAYS, (1, 2)):
            empty(connection)
            for changes in CASES[name]:
                for _ in range(times):
                    assert write(connection, changes, way)
            found[way, times] = in_tables(connection)

    first = found["row by row", 1]
    assert first["regrow_streams"], "there is something to compare"
    assert {key: of == first for key, of in found.items()} == dict.fromkeys(found, True)


@pytest.mark.slow
@pytest.mark.parametrize("token", [TOKEN - 1, TOKEN + 1])
@pytest.mark.parametrize("name", CASES)
def test_behind_a_fence_that_is_lost_nothing_is_written(name: str, token: int, store_url: str) -> None:
    with database(store_url) as (_, connection):
        for changes in CASES[name][:-1]:
            assert write(connection, changes, "at once")
        before = in_tables(connection)

        assert not write(connection, CASES[name][-1], "at once", token)

        assert in_tables(connection) == before


def test_where_nobody_has_a_token_nothing_is_written(store_url: str) -> None:
    with database(store_url) as (_, connection):
        with connection.begin():
            connection.execute(schema.tokens.delete())

        assert not write(connection, [created("t", 1)], "at once")

        assert in_tables(connection)["regrow_streams"] == []


def test_each_part_of_the_one_statement_joins_the_fence() -> None:
    parts = (statements.STREAM, statements.LARGE, statements.RECORD, statements.END, statements.ORDER)

    assert all("FROM fence" in part.at_once or "USING fence" in part.at_once for part in parts)
    assert statements.in_one(parts).count("json_to_recordset") == len(parts)


def test_a_token_that_is_taken_while_it_writes_waits_and_the_next_write_is_refused(postgres_url: str) -> None:
    """The order of both: a write that holds the fence is kept; one that comes to it later is not."""
    with database(postgres_url) as (found, one), closing(found.writing()) as other:
        raw: Any = one.connection.driver_connection
        batch = Batch(OWNER)
        batch.fill([created("t", 1)])
        wrote = threading.Event()
        taking = other.begin()
        take_token(other, OWNER, "the next one")
        answers: list[bool] = []

        def commit() -> None:
            answers.append(fenced_transaction.commit_at_once(raw, OWNER, TOKEN, batch.parts(), wrote.set))

        writing = threading.Thread(target=commit)
        writing.start()
        assert wrote.wait(PATIENCE_S)
        waits_for_lock(found)
        assert answers == []
        taking.commit()
        writing.join(PATIENCE_S)

        assert answers == [False]


def waits_for_lock(found: Database) -> None:
    """Wait until a session of this database waits for another one."""
    with found.reading() as connection:
        for _ in range(2000):
            if connection.exec_driver_sql("SELECT count(*) FROM pg_locks WHERE NOT granted").scalar():
                return
            threading.Event().wait(0.005)
    raise AssertionError("nobody waits")


# -- what is in doubt --------------------------------------------------------------------------------------------


def test_a_server_that_has_ended_an_idle_session_leaves_nothing_in_doubt(postgres: Cluster, postgres_url: str) -> None:
    with closing(opened(postgres_url)) as store:
        store.listener = heard = Heard()
        store.create("before", OWNER, submitted("before"))
        kept(store)
        postgres.stop("fast")
        try:
            store.create("t", OWNER, submitted("t"))
            store.flush()
            heard.wait(lambda: bool(heard.events))

            assert taken_back(store, "t"), "it was never sent"
        finally:
            postgres.start()
        kept(store)
        assert [each.id for each in store.all_tasks()] == ["before"]


def test_what_the_server_refuses_is_not_in_doubt(postgres_url: str) -> None:
    with closing(opened(postgres_url)) as store, closing(Database(postgres_url).writing()) as other:
        store.listener = heard = Heard()
        with other.begin():
            other.exec_driver_sql("LOCK TABLE regrow_records IN ACCESS EXCLUSIVE MODE")
            store.create("t", OWNER, submitted("t"))
            reply = store.flush()
            heard.wait(lambda: bool(heard.events))

            assert taken_back(store, "t")
        reply.get(timeout=PATIENCE_S)
        assert store.all_tasks() == []


def taken_back(store: Any, name: str) -> bool:
    """Whether a stream can be taken back between two tries to write it."""
    return any(store.withdraw(name) or threading.Event().wait(0.01) for _ in range(1000))


def test_one_commit_is_one_message_and_its_answer(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxied(postgres_url) as proxy, closing(opened(proxy.url)) as store:
        store.create("t", OWNER, submitted("t"))
        kept(store)
        for number in range(3):
            store.append("t", queued("t", number))
            kept(store)
        monkeypatch.setattr(store, "spare_time", lambda **_: None)  # nobody looks for orders
        store.append("t", queued("t", 3))
        kept(store)
        settled(store)
        before = proxy.messages

        for number in range(4, 24):
            store.append("t", queued("t", number))
            kept(store)

        assert proxy.messages - before == 20
