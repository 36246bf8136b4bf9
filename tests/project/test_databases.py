"""Databases of PostgreSQL that tests lend each other: each is as new, or is not lent again."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.databases import PICTURE, Cluster

LEFT = """
CREATE TABLE t (a int PRIMARY KEY, b text);
CREATE TABLE u (a int REFERENCES t);
CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER g AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION f();
INSERT INTO t VALUES (1, repeat('x', 10000));
"""


def name_of(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_database_that_was_given_back_is_as_new(postgres: Cluster) -> None:
    url = postgres.lend()
    new = postgres.execute(PICTURE, url)
    with psycopg.connect(url) as session:
        session.execute(LEFT.encode())
        session.commit()
        session.execute("LOCK TABLE t")
        session.execute("SELECT pg_advisory_lock(7)")
        postgres.execute(f"ALTER DATABASE {name_of(url)} SET synchronous_commit = off")
        assert postgres.execute(PICTURE, url) != new
        postgres.take_back(url)
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")

    assert postgres.lend() == url
    assert postgres.execute(PICTURE, url) == new
    assert postgres.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7") == [(0,)]
    assert postgres.execute("SHOW synchronous_commit", url) == [("on",)]
    postgres.take_back(url)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE SCHEMA other",
        "CREATE TYPE kind AS ENUM ('a')",
        "CREATE VIEW v AS SELECT 1",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
        "ALTER DATABASE {name} CONNECTION LIMIT 5",
        "DROP SCHEMA public",
    ],
)
def test_one_that_cannot_be_made_as_new_is_deleted(postgres: Cluster, statement: str) -> None:
    url = postgres.lend()
    postgres.execute(statement.format(name=name_of(url)), url)

    postgres.take_back(url)

    assert postgres.execute(f"SELECT count(*) FROM pg_database WHERE datname = '{name_of(url)}'") == [(0,)]  # noqa: S608
    other = postgres.lend()
    assert other != url
    postgres.take_back(other)
