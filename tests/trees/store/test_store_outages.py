"""A store that is locked, full, damaged or cut off: it pauses and goes on, and what was acknowledged is there."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.proxy import proxied
from tests.support.databases import Cluster
from tests.support.programs import ran
from tests.trees.store.stores import OWNER, PATIENCE_S, Heard, ended, kept, queued, submitted, succeeded
from trees import StoreError, StorePaused, StoreResumed
from trees.store import SqlStore, open_store

ROOT = Path(__file__).parents[3]


@contextmanager
def opened(url: str) -> Iterator[tuple[Any, Heard]]:
    store: Any = open_store(url, root=OWNER)
    store.listener = heard = Heard()
    try:
        yield store, heard
    finally:
        store.close()


def file_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def paused(heard: Heard, number: int = 1) -> str:
    """What is said when it pauses."""
    return str(heard.wait_for(StorePaused, number).error)


def records_of(url: str, task: str = "t") -> list[Any]:
    """What is kept of a task, as somebody else sees it."""
    looking = SqlStore.look(url)
    try:
        return list(looking.read(task))
    finally:
        looking.close()


# -- SQLite ------------------------------------------------------------------------------------------------------


def test_a_file_that_another_process_locks_pauses_it_until_that_lets_go(sqlite_url: str) -> None:
    with opened(sqlite_url) as (store, heard), closing(sqlite3.connect(file_of(sqlite_url))) as other:
        for name in ("t", "done"):
            store.create(name, OWNER, submitted(name))
        store.finish("done")
        kept(store)
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        store.append("t", queued("t"))
        reply = store.flush()

        assert "is locked by another process" in paused(heard)
        assert not reply.done
        assert list(store.read("t")) == [submitted("t"), queued("t")]
        assert list(store.read("done")) == [submitted("done")]  # reading waits for nobody
        assert records_of(sqlite_url) == [submitted("t")]
        other.execute("ROLLBACK")
        reply.get(timeout=PATIENCE_S)
        assert heard.wait_for(StoreResumed).after_s > 0
        assert records_of(sqlite_url) == [submitted("t"), queued("t")]


DISK_FULL = """
import resource, sys
from actors.tasks.model.live_events import StorePaused, StoreResumed
from tests.trees.store.stores import Heard, kept, submitted, succeeded
from trees.store import open_store
store = open_store(sys.argv[1], root="p")
store.listener = heard = Heard()
store.create("t", "p", submitted("t"))
kept(store)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
for number in range(40):
    store.append("t", succeeded("t", f"{number} " + "x" * 20_000))
reply = store.flush()
print(heard.wait_for(StorePaused).error, flush=True)
print(reply.done, len(store.read("t")))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
reply.get(timeout=60)
print(heard.wait_for(StoreResumed).after_s > 0)
store.close()
"""


@pytest.mark.slow
def test_a_disk_that_is_full_pauses_it_until_there_is_room(sqlite_url: str) -> None:
    done = ran("-c", DISK_FULL, sqlite_url, cwd=ROOT)

    assert done.stderr == ""
    said, state, resumed = done.stdout.splitlines()
    assert "Look at the disk, its quota and the limits of this process" in said
    assert (state, resumed) == ("False 41", "True")
    assert records_of(sqlite_url) == [
        submitted("t"),
        *(succeeded("t", f"{number} " + "x" * 20_000) for number in range(40)),
    ]


def test_a_file_that_is_damaged_later_pauses_it_and_goes_on_when_it_is_mended(sqlite_url: str) -> None:
    with opened(sqlite_url) as (store, heard), closing(sqlite3.connect(file_of(sqlite_url))) as other:
        for number in range(500):
            store.create(f"t{number}", OWNER, submitted(f"t{number}"))
        kept(store)
        other.execute("CREATE TABLE something (x)")  # so the store reads its pages anew
        other.commit()
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        whole = file_of(sqlite_url).read_bytes()
        with file_of(sqlite_url).open("r+b") as file:
            file.seek(4096)
            file.write(b"\x5a" * (len(whole) - 4096))
        store.append("t7", queued("t7"))
        reply = store.flush()

        assert "is damaged. Restore it from a copy" in paused(heard)
        assert list(store.read("t7")) == [submitted("t7"), queued("t7")]
        with file_of(sqlite_url).open("r+b") as file:
            file.write(whole)
        reply.get(timeout=PATIENCE_S)
        heard.wait_for(StoreResumed)
    assert records_of(sqlite_url, "t7") == [submitted("t7"), queued("t7")]


def test_a_store_that_cannot_write_ends_at_once_and_tells_who_waits(sqlite_url: str) -> None:
    with opened(sqlite_url) as (store, heard), closing(sqlite3.connect(file_of(sqlite_url))) as other:
        store.create("t", OWNER, submitted("t"))
        kept(store)
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        store.append("t", queued("t"))
        reply = store.flush()
        paused(heard)
        store.close()

        with pytest.raises(StoreError, match="is closed"):
            reply.get(timeout=0)
        other.execute("ROLLBACK")
    assert records_of(sqlite_url) == [submitted("t")]


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_is_removed_or_replaced_while_it_is_in_use_ends_the_store_and_nothing_is_acknowledged(
    how: str, sqlite_url: str
) -> None:
    file = file_of(sqlite_url)
    with opened(sqlite_url) as (store, heard):
        store.create("t", OWNER, submitted("t"))
        kept(store)
        if how == "removed":
            file.unlink()
        else:
            other = file.with_name("other.db")
            open_store(f"sqlite:///{other}", root=OWNER).close()  # type: ignore[attr-defined]
            other.replace(file)
        store.append("t", queued("t"))
        reply = store.flush()

        with pytest.raises(StoreError, match="was removed or replaced"):
            reply.get(timeout=PATIENCE_S)
        heard.wait(lambda: len(heard.losses) == 1)
        with pytest.raises(StoreError, match="was removed or replaced"):
            store.flush().get(timeout=PATIENCE_S)


@pytest.mark.slow
def test_a_value_of_sixteen_megabytes_is_one_record_and_what_is_small_follows_it(store_url: str) -> None:
    value = ["é" * 1_000_000] * 8
    with opened(store_url) as (store, heard):
        store.create("t", OWNER, submitted("t"))
        store.append("t", succeeded("t", value))
        store.append("t", queued("t"))
        kept(store)

        assert store.read("t") == (submitted("t"), succeeded("t", value), queued("t"))
        assert not heard.losses
    assert records_of(store_url) == [submitted("t"), succeeded("t", value), queued("t")]


# -- PostgreSQL --------------------------------------------------------------------------------------------------


def test_sessions_that_are_ended_are_made_again_and_nothing_is_lost(postgres: Cluster, postgres_url: str) -> None:
    with opened(postgres_url) as (store, _):
        store.create("t", OWNER, submitted("t"))
        for number in range(300):
            store.append("t", queued("t", number))
            if number % 30 == 10:
                assert postgres.end_sessions(postgres_url) > 0
            if number % 3 == 0:
                kept(store)
        kept(store)
        with pytest.raises(StoreError, match="is in use by"):  # it has its guard again
            open_store(postgres_url, root=OWNER)
    assert records_of(postgres_url) == [submitted("t"), *(queued("t", number) for number in range(300))]


def test_who_has_nothing_to_write_takes_its_guard_again_too(postgres: Cluster, postgres_url: str) -> None:
    with opened(postgres_url) as (_, heard):
        postgres.end_sessions(postgres_url)
        heard.wait_for(StoreResumed)

        with pytest.raises(StoreError, match="is in use by"):
            open_store(postgres_url, root=OWNER)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_server_that_stops_or_crashes_pauses_it_until_it_is_up_again(mode: str, postgres: Cluster) -> None:
    url = postgres.create()
    with opened(url) as (store, heard):
        for name in ("t", "done"):
            store.create(name, OWNER, submitted(name))
        store.finish("done")
        kept(store)
        postgres.stop(mode)
        try:
            store.append("t", queued("t"))
            reply = store.flush()
            assert "goes on by itself" in paused(heard) or "Check that the server runs" in paused(heard)
            assert list(store.read("t")) == [submitted("t"), queued("t")]
            with pytest.raises(StoreError, match="cannot be reached"):
                store.read("done")
            assert not reply.done
        finally:
            postgres.start()
        reply.get(timeout=PATIENCE_S)
        heard.wait_for(StoreResumed)
        assert list(store.read("done")) == [submitted("done")]
    assert records_of(url) == [submitted("t"), queued("t")]
    postgres.drop(url)


@pytest.mark.parametrize(
    "words", [b"_pg3_", b"xxxxxxxx", b"TaskFinished"], ids=["its first words", "a row", "its last row"]
)
def test_a_wire_that_is_cut_in_the_middle_leaves_every_record_there_once(words: bytes, postgres_url: str) -> None:
    with proxied(postgres_url) as proxy, opened(proxy.url) as (store, heard):
        store.create("t", OWNER, submitted("t"))
        for number in range(10):
            store.append("t", queued("t", number))
            kept(store)
        proxy.cut_after(words)
        store.append("t", succeeded("t", "x" * 20_000))
        store.append("t", ended("t"))
        store.finish("t")
        store.create("new", OWNER, submitted("new"))
        reply = store.flush()
        assert proxy.was_cut.wait(PATIENCE_S)
        reply.get(timeout=PATIENCE_S)
        heard.wait_for(StoreResumed)

        assert not heard.losses
        assert len(store.read("t")) == 13
    assert records_of(postgres_url) == [
        submitted("t"),
        *(queued("t", number) for number in range(10)),
        succeeded("t", "x" * 20_000),
        ended("t"),
    ]
    assert records_of(postgres_url, "new") == [submitted("new")]


def test_a_read_of_a_server_that_cannot_be_reached_fails_at_once(postgres_url: str) -> None:
    with proxied(postgres_url) as proxy, opened(proxy.url) as (store, _):
        store.create("done", OWNER, submitted("done"))
        store.finish("done")
        kept(store)
        proxy.cut()
        with pytest.raises(StoreError, match="cannot be reached"):
            store.read("done")
        proxy.restore()
        assert store.read("done") == (submitted("done"),)


def test_what_may_be_committed_cannot_be_taken_back(postgres_url: str) -> None:
    with proxied(postgres_url) as proxy, opened(proxy.url) as (store, heard):
        store.create("before", OWNER, submitted("before"))
        kept(store)
        proxy.cut_after(b"TaskSubmitted")  # the one statement that is a transaction by itself
        store.create("t", OWNER, submitted("t"))
        reply = store.flush()
        assert proxy.was_cut.wait(PATIENCE_S)
        paused(heard)

        assert not store.withdraw_all({"t"})
        reply.get(timeout=PATIENCE_S)
    assert records_of(postgres_url) == [submitted("t")]


def test_a_table_that_somebody_locks_pauses_it_until_that_lets_go(postgres: Cluster, postgres_url: str) -> None:
    import psycopg  # noqa: PLC0415 - only this test talks to it by itself

    with opened(postgres_url) as (store, heard), psycopg.connect(postgres_url) as other:
        other.execute("LOCK TABLE regrow_records IN ACCESS EXCLUSIVE MODE")
        store.create("t", OWNER, submitted("t"))
        reply = store.flush()

        assert "is locked by another session" in paused(heard)
        other.rollback()
        reply.get(timeout=PATIENCE_S)
    assert records_of(postgres_url) == [submitted("t")]


# -- the process -------------------------------------------------------------------------------------------------

FORKS = """
import os, sys
from tests.trees.store.stores import kept, queued, submitted
from trees.store import open_store
store = open_store(sys.argv[1], root="p")
store.create("t", "p", submitted("t"))
store.create("done", "p", submitted("done"))
store.finish("done")
kept(store)
store.read("done")
child = os.fork()
if not child:
    sys.exit()  # not os._exit: what the parent has open is let go of here
os.waitpid(child, 0)
for number in range(5):
    store.append("t", queued("t", number))
    kept(store)
store.read("done")
store.close()
print("closed", flush=True)
"""


@pytest.mark.slow
def test_the_child_of_a_fork_does_its_parent_no_harm(store_url: str) -> None:
    done = ran("-W", "ignore:This process:DeprecationWarning", "-c", FORKS, store_url, cwd=ROOT)

    assert (done.stdout, done.stderr) == ("closed\n", "")
    assert records_of(store_url) == [submitted("t"), *(queued("t", number) for number in range(5))]
