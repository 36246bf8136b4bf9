"""The power is cut while three tasks are in the middle of everything.

No test can pull the plug. What these prove instead, of ``durability="power"``:

* SQLite: an acknowledgement comes after a commit with ``synchronous=FULL``, and the files as they are at that moment
  are enough to go on from. Where there is strace, more: so is what the process had *synced* by then, with everything
  else that it wrote thrown away.
* PostgreSQL: whatever the default of the database, the session that writes has ``synchronous_commit``, and at the
  acknowledgement the server has flushed its log beyond the commit. A crash of the server at that moment loses nothing.
  Whether its disk keeps what was flushed is a matter of the server (its ``fsync``, its hardware).
* A standby: to the others a machine without power is one that is silent, with its connections open. So is one that is
  frozen, which ``test_processes`` brings about: that is the proof of that cell.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors import Event
from actors.model.clock import unstopped
from tests.support.databases import Cluster
from tests.support.hardening import eventually
from tests.survival.cells import POSTGRES, POWER, SQLITE, cell
from tests.survival.disk import Disk, can_trace, under
from tests.survival.processes import Notes, Process
from tests.survival.scene import HELD, PLANS, UNDOING, Scene, require_all
from tests.trees.store.stores import PATIENCE_S
from trees import Tree
from trees.store import SqlStore, session

Begin = Callable[..., Tree]


@contextmanager
def at_commits(*questions: str) -> Iterator[list[tuple[Any, ...]]]:
    """What the database says to these questions before each commit, in the session that commits."""
    answers: list[tuple[Any, ...]] = []

    def asking(commit: Callable[..., bool]) -> Callable[..., bool]:
        def ask(raw: Any, *args: Any) -> bool:
            is_postgres = hasattr(raw, "pgconn")
            if is_postgres:
                raw.autocommit = True
            answers.append(tuple(raw.execute(each).fetchone()[0] for each in questions))
            if is_postgres:
                raw.autocommit = False
            return commit(raw, *args)

        return ask

    with pytest.MonkeyPatch.context() as patched:
        for name in ("commit_rows", "commit_at_once"):
            patched.setattr(session, name, asking(getattr(session, name)))
        yield answers


@cell(POWER, SQLITE, says='all with `durability="power"`')
def test_what_was_acknowledged_is_committed_with_a_sync_and_the_files_of_that_moment_are_enough(
    begin: Begin, sqlite_url: str, tmp_path: Path, notes: Notes
) -> None:
    scene = Scene(notes.note)
    tree = begin(scene, sqlite_url, durability="power")

    with at_commits("PRAGMA synchronous") as answers:
        scene.stand(tree)
        again = copied(tmp_path)

    assert set(answers) == {(FULL,)}
    scene = Scene(notes.note)
    require_all(scene.finish(begin(scene, again)), notes.done(), again=[HELD, UNDOING])


FULL = 2


def copied(folder: Path) -> str:
    """The files of a store as they are now, elsewhere: its address."""
    there = folder / "there"
    there.mkdir()
    for end in ("", "-wal"):
        shutil.copyfile(folder / f"tasks.db{end}", there / f"tasks.db{end}")
    return f"sqlite:///{there / 'tasks.db'}"


def synced(notes: Notes, url: str, folder: Path, durability: str) -> tuple[str, list[str]]:
    """What was synced of a store when all stood: its address. And which files and folders were."""
    log = folder / "calls"
    with closing(Process(notes, under(log))) as first:
        first.go(url, durability=durability)
        first.do("stand")
        first.stop()
    disk = Disk()
    disk.read(log, until="null")
    there = folder / "there"
    there.mkdir()
    for path, content in disk.synced.items():
        if path.startswith(f"{folder}/"):
            (there / Path(path).name).write_bytes(content)
    return f"sqlite:///{there / 'tasks.db'}", list(disk.synced)


@pytest.fixture
def traced() -> None:
    """Where it can be seen what a process syncs."""
    if not can_trace():
        pytest.skip("needs strace, and the right to use it. Debian: apt-get install strace")


@pytest.mark.usefixtures("traced")
def test_what_was_acknowledged_is_in_what_was_synced(
    begin: Begin, sqlite_url: str, tmp_path: Path, notes: Notes
) -> None:
    there, paths = synced(notes, sqlite_url, tmp_path, "power")

    assert str(tmp_path) in paths, "the folder, so that its files have their names"
    scene = Scene(notes.note)
    require_all(scene.finish(begin(scene, there)), notes.done(), again=[HELD, UNDOING])


@pytest.mark.usefixtures("traced")
def test_without_power_as_its_durability_the_newest_may_be_lost_and_what_is_left_is_whole(
    begin: Begin, sqlite_url: str, tmp_path: Path, notes: Notes
) -> None:
    there, _ = synced(notes, sqlite_url, tmp_path, "process")

    assert begin(Scene(notes.note), there).tasks() == []


@cell(POWER, POSTGRES, says='all with `durability="power"`')
def test_what_was_acknowledged_is_flushed_by_the_server_and_survives_its_crash(
    begin: Begin, postgres: Cluster, postgres_url: str, notes: Notes
) -> None:
    postgres.execute(f"ALTER DATABASE {postgres_url.rpartition('/')[2]} SET synchronous_commit = off")
    scene = Scene(notes.note)
    tree = begin(scene, postgres_url, durability="power")

    with at_commits("SHOW synchronous_commit", "SELECT pg_current_wal_insert_lsn()::text") as answers:
        scene.stand(tree)
        committed = answers[-1][1]
    flushed = postgres.execute(f"SELECT pg_current_wal_flush_lsn() > '{committed}'")
    acknowledged = {id_: records(tree._system.services["tasks"].store, id_) for id_ in PLANS}
    postgres.stop("immediate")
    postgres.start()
    with closing(SqlStore.look(postgres_url)) as left:
        found = {id_: records(left, id_) for id_ in PLANS}

    assert {setting for setting, _ in answers} == {"on"}
    assert flushed == [(True,)]
    assert found == acknowledged
    require_all(scene.finish(tree), notes.done())


def records(store: Any, task: str) -> Sequence[Event]:
    return list(store.read(task))


@pytest.mark.usefixtures("traced")
def test_nothing_is_left_of_a_process_that_was_watched_and_did_not_end(
    tmp_path: Path, notes: Notes, sqlite_url: str
) -> None:
    with closing(Process(notes, under(tmp_path / "calls"))) as watched:
        watched.go(sqlite_url, durability="process")
        notes.forget()
        watched.tell("end")  # waits for an end that does not come
        (child,) = children_of(watched.pid)
        closing_at = unstopped()

    assert unstopped() - closing_at < PATIENCE_S / 2, "it was waited for"
    eventually(lambda: not runs(child), "the end of what was watched")


def runs(pid: int) -> bool:
    """Whether it does; one that has ended may still be listed, until somebody asks how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()]
