"""What is finished is kept for as long as was said, what is not for ever; and a file does not grow without end."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.testing import ManualClock
from tests.support.databases import Cluster
from tests.support.hardening import eventually
from tests.trees.store.stores import OWNER, PATIENCE_S, Heard, ended, kept, submitted, succeeded
from trees import StorePaused
from trees.store import Keep, SqlStore
from trees.store import sql as module
from trees.store.journal_index import FinishedStream, JournalIndex

# -- which ones: no database -------------------------------------------------------------------------------------


def finished(index: JournalIndex, name: str, at: float = 0.0) -> None:
    index.create(name, OWNER, [submitted(name)])
    index.finish(name, FinishedStream(OWNER, at, None))
    index.end_kept(name, None)


def test_the_oldest_go_first_and_only_so_many_at_once() -> None:
    index = JournalIndex()
    for number in range(10):
        finished(index, f"t{number}")

    assert index.surplus(Keep(count=4), 0.0, most=100) == [f"t{number}" for number in range(6)]
    assert index.surplus(Keep(count=4), 0.0, most=2) == ["t0", "t1"]
    assert index.surplus(Keep(count=None), 0.0, most=100) == []
    assert index.surplus(Keep(count=0), 0.0, most=100) == [f"t{number}" for number in range(10)]


def test_what_is_older_than_the_age_goes_and_what_is_just_as_old_stays() -> None:
    index = JournalIndex()
    for number in range(5):
        finished(index, f"t{number}", at=number)

    assert index.surplus(Keep(age_s=10), 12.0, most=100) == ["t0", "t1"]
    assert index.surplus(Keep(age_s=10, count=4), 12.0, most=100) == ["t0", "t1"]
    assert index.surplus(Keep(age_s=10, count=1), 12.0, most=100) == ["t0", "t1", "t2", "t3"]
    assert index.surplus(Keep(age_s=10, count=1), 12.0, most=1) == ["t0"]
    assert index.surplus(Keep(age_s=None), 1e9, most=100) == []


def test_the_parts_of_a_task_go_with_it_and_are_not_counted() -> None:
    index = JournalIndex()
    index.create("t", OWNER, [submitted("t")])
    for part in ("t@a:1", "t@a:1:b:1", "t@c:1"):
        finished(index, part)
    index.create("t@open:1", OWNER, [submitted("t@open:1")])
    index.finish("t", FinishedStream(OWNER, 0.0, None))
    index.end_kept("t", None)
    finished(index, "u")

    (oldest,) = index.surplus(Keep(count=1), 0.0, most=100)
    names = index.with_parts([oldest], lambda _: True)
    index.forget(names)

    assert oldest == "t"
    assert set(names) == {"t", "t@a:1", "t@a:1:b:1", "t@c:1"}
    assert list(index.owners) == ["t@open:1"]
    index.finish("t@open:1", FinishedStream(OWNER, 0.0, None))
    index.end_kept("t@open:1", None)
    assert index.surplus(Keep(count=0), 0.0, most=100) == ["u", "t@open:1"]


def test_what_is_not_kept_to_be_finished_stays() -> None:
    index = JournalIndex()
    index.create("t", OWNER, [submitted("t")])
    index.finish("t", FinishedStream(OWNER, 0.0, None, mark=object()))

    assert index.surplus(Keep(count=0), 1e9, most=100) == []


class MirrorAgainstModel(RuleBasedStateMachine):
    """Whatever happens in whatever order: the index says what a plain list of all streams would say."""

    names = st.sampled_from(["a", "b", "a@1", "a@1:x", "a@2", "b@1", "c@1"])

    def __init__(self) -> None:
        super().__init__()
        self.index = JournalIndex()
        self.open: list[str] = []
        self.over: dict[str, object] = {}
        """Finished, and the mark of it while that is not kept."""

    @rule(name=names)
    def create(self, name: str) -> None:
        if not self.index.knows(name):
            self.index.create(name, OWNER, [submitted(name)])
            self.open.append(name)

    @rule(name=names)
    def withdraw(self, name: str) -> None:
        if name in self.open:
            self.index.withdraw(name)
            self.open.remove(name)

    @rule(name=names)
    def finish(self, name: str) -> None:
        if name in self.open:
            mark = object()
            self.index.finish(name, FinishedStream(OWNER, 0.0, None, mark))
            self.open.remove(name)
            self.over[name] = mark

    @rule(name=names)
    def keep(self, name: str) -> None:
        if self.over.get(name) is not None:
            self.index.end_kept(name, self.over[name])
            self.over[name] = None

    @rule(name=names)
    def reopen(self, name: str) -> None:
        if name in self.over:
            self.index.reopen(name, [submitted(name)])
            stale = self.over.pop(name)
            self.open.append(name)
            self.index.end_kept(name, stale)

    @precondition(lambda self: self.over)
    @rule(count=st.integers(0, 2))
    def prune(self, count: int) -> None:
        names = self.index.with_parts(self.index.surplus(Keep(count=count), 0.0, most=2), lambda _: True)
        assert all(name in self.over and self.over[name] is None for name in names)
        self.index.forget(names)
        for name in names:
            del self.over[name]

    @invariant()
    def it_knows_what_there_is(self) -> None:
        assert list(self.index.owners) == self.open
        assert set(self.index.ends) == set(self.over)
        assert set(self.index._tops) <= set(self.over)

    @invariant()
    def what_is_not_kept_to_be_finished_is_at_hand(self) -> None:
        unkept = {name for name, mark in self.over.items() if mark is not None}
        assert unkept | set(self.open) <= set(self.index.journals)

    @invariant()
    def nothing_is_held_for_nothing(self) -> None:
        needed = {*self.open, *(name for name, mark in self.over.items() if mark is not None)}
        held = set(self.index.journals) - needed
        assert all("@" in name for name in held)
        if not needed:
            assert held == set()


TestMirrorAgainstModel = MirrorAgainstModel.TestCase
TestMirrorAgainstModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


# -- in a database -----------------------------------------------------------------------------------------------


class Watched:
    """A store, and what it deletes."""

    def __init__(self, url: str, keep: Keep | None, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        self.store = SqlStore(url, root=OWNER, keep=keep, **options)
        self._changed = threading.Condition()
        self.deleted: list[str] = []
        prune = self.store._session.prune

        def watched(names: Sequence[str]) -> None:
            prune(names)
            with self._changed:
                self.deleted += names
                self._changed.notify_all()

        monkeypatch.setattr(self.store._session, "prune", watched)
        self.store.open()

    def wait_deleted(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.deleted) >= number, PATIENCE_S), self.deleted

    def run(self, name: str, value: Any = None) -> None:
        """A task from its beginning to its end."""
        self.store.create(name, OWNER, submitted(name))
        self.store.append(name, succeeded(name, value))
        self.store.append(name, ended(name))
        self.store.finish(name)

    def count(self, table: str) -> int:
        with self.store.database.reading() as connection:
            number: int = connection.exec_driver_sql(f"SELECT count(*) FROM regrow_{table}").scalar_one()  # noqa: S608
            return number


Watches = Callable[..., Watched]


@pytest.fixture
def watches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watches]:
    """Opens stores that are watched, and closes them."""
    opened: list[Watched] = []

    def make(url: str, keep: Keep | None = None, **options: Any) -> Watched:
        opened.append(Watched(url, keep, monkeypatch, **options))
        return opened[-1]

    yield make
    for watched in opened:
        watched.store.close()


def test_what_is_too_much_is_deleted_with_all_that_belongs_to_it(watches: Watches, store_url: str) -> None:
    watched = watches(store_url, Keep(count=2))
    other = SqlStore(store_url, root="other")
    other.open()
    other.create("t0", "other", submitted("t0"))
    other.append("t0", succeeded("t0", "x" * 20_000))
    other.finish("t0")
    kept(other)
    store = watched.store
    store.create("open", OWNER, submitted("open"))
    for number in range(6):
        store.create(f"t{number}", OWNER, submitted(f"t{number}"))
        watched.run(f"t{number}@team:1.1", "x" * 20_000)  # the same for all of them
        watched.run(f"t{number}@team:2.1", f"{number}" * 20_000)
        store.finish(f"t{number}")
    kept(store)
    watched.wait_deleted(12)

    assert watched.deleted == [name for n in range(4) for name in (f"t{n}", f"t{n}@team:1.1", f"t{n}@team:2.1")]
    assert watched.count("streams") == 1 + 2 * 3 + 1
    assert watched.count("records") == 1 + 2 * 7 + 2
    assert watched.count("large") == 3 + 1
    assert store.read("t3") == store.read("t3@team:1.1") == ()
    assert len(store.read("t4@team:1.1")) == 3
    assert store.create("t0", OWNER, submitted("t0"))  # its name may be used again
    kept(store)
    assert list(store.read("t0")) == [submitted("t0")]
    assert len(other.read("t0")) == 2
    other.close()


def test_what_is_too_old_is_deleted_by_the_next_process_too(
    watches: Watches, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGE_LOOK_S", 0.0)
    clock = ManualClock()
    first = watches(sqlite_url, Keep(age_s=10), clock=clock)
    first.run("old")
    kept(first.store)
    clock.advance(8)
    first.run("new")
    first.store.create("open", OWNER, submitted("open"))
    kept(first.store)
    clock.advance(4)
    first.wait_deleted(1)
    first.store.close()
    clock.advance(4)
    second = watches(sqlite_url, Keep(age_s=6), clock=clock)
    second.wait_deleted(1)

    assert (first.deleted, second.deleted) == (["old"], ["new"])
    eventually(lambda: second.store.finished(OWNER) == [])
    assert second.store.streams(OWNER) == ["open"]


def test_nothing_goes_where_nothing_was_said_about_that(watches: Watches, sqlite_url: str) -> None:
    watched = watches(sqlite_url, Keep(age_s=None, count=None))
    for number in range(1_000):
        watched.run(f"t{number}")
    kept(watched.store)
    watched.store.close()

    assert watched.deleted == []
    assert watched.count("streams") == 1_000


def test_what_is_deleted_goes_in_pieces_between_writes(
    watches: Watches, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRUNED_AT_ONCE", 8)
    watched = watches(store_url, Keep(count=0))
    for number in range(100):
        watched.run(f"t{number}")
        kept(watched.store)
    watched.wait_deleted(100)

    assert watched.count("records") == watched.count("streams") == 0
    eventually(lambda: watched.store.finished(OWNER) == [])


@pytest.mark.slow
def test_a_file_that_much_goes_through_does_not_grow(
    watches: Watches, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PRUNED_AT_ONCE", 64)
    watched = watches(sqlite_url, Keep(count=50))
    sizes = []
    for turn in range(12):
        for number in range(200):
            watched.run(f"t{turn}-{number}", f"{turn} {number} " + "x" * 20_000)
            if number % 20 == 0:
                kept(watched.store)
        kept(watched.store)
        watched.wait_deleted(200 * (turn + 1) - 50)
        sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))
    watched.store.close()
    last = sum(path.stat().st_size for path in tmp_path.iterdir())

    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])  # 4 MB go through it in each turn
    assert last < 4_000_000


def test_a_file_gives_back_what_it_does_not_need(watches: Watches, sqlite_url: str, tmp_path: Path) -> None:
    watched = watches(sqlite_url, Keep(count=None))
    for number in range(100):
        watched.run(f"t{number}", f"{number} " + "x" * 50_000)
    watched.store.close()
    large = (tmp_path / "tasks.db").stat().st_size
    again = watches(sqlite_url, Keep(count=1))
    again.wait_deleted(99)
    again.store.close()

    assert large > 5_000_000
    assert (tmp_path / "tasks.db").stat().st_size < 1_000_000
    with closing(sqlite3.connect(tmp_path / "tasks.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_process_that_may_not_delete_says_so_and_writes_all_the_same(
    watches: Watches, postgres: Cluster, postgres_url: str
) -> None:
    watches(postgres_url).store.close()
    name = f"keeper_{postgres_url.rpartition('/')[2]}"
    postgres.execute(f"CREATE ROLE {name} LOGIN")
    grant = f"GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO {name}"
    postgres.execute(grant, postgres_url)
    watched = watches(postgres_url.replace(f"{postgres.user}@", f"{name}@"), Keep(count=0))
    watched.store.listener = heard = Heard()
    watched.run("t")
    kept(watched.store)

    assert "does not let this user do that" in str(heard.wait_for(StorePaused).error)
    for number in range(5):
        watched.run(f"t{number}")
        kept(watched.store)
    assert watched.count("streams") == 6
