"""Tables of other versions, and of others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from actors.tasks.errors import StoreError
from actors.tasks.written import encode
from tests.databases import Cluster
from tests.stores import OWNER, kept, opened, opened_and_closed, queued, refusal, submitted
from trees.store import SqlStore

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
    looking.post_order(OWNER, "t", "cancel", {})
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
    with pytest.raises(StoreError, match="is no store yet"):
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
    execute(store_url, "UPDATE regrow_meta SET value = '3'")

    assert "was written by a newer version (schema 3, this one knows 2). Upgrade regrow" in refusal(store_url)
    execute(store_url, "UPDATE regrow_meta SET value = '2'")
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
