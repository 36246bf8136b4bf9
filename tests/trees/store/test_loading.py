"""Opening a store: which files and servers are taken, which are refused and with what words, and who may have it."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from actors import ConfigError
from tests.support.command import Process, out
from tests.support.programs import python
from tests.trees.store.stores import OWNER, ended, execute, kept, opened, opened_and_closed, refusal, submitted
from trees import StoreBusyError, StoreError
from trees.store import Keep, MemoryStore, SqlStore, open_store

ROOT = Path(__file__).parents[3]


# -- which one ---------------------------------------------------------------------------------------------------


def test_no_store_is_memory_and_a_store_is_used_as_it_is() -> None:
    mine = MemoryStore()

    assert isinstance(open_store(None, root="p"), MemoryStore)
    assert open_store(mine, root="p") is mine


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("tasks.db", "store tasks.db: is not a known kind of store. Use sqlite:///FILE or postgresql://"),
        ("", "is not a known kind of store"),
        ("mysql://me:secret@host/db", "store mysql: is not a known kind of store"),
        ("sqlite+aiosqlite:///x.db", "another driver than ours (pysqlite)"),
        ("postgresql+asyncpg://h/db", "another driver than ours (psycopg)"),
        ("sqlite://", "leave store= out"),
        ("sqlite://tasks.db", "sqlite:///tasks.db"),
        ("sqlite:///:memory:", "leave store= out"),
        ("sqlite:///file:x?mode=memory&uri=true", "a plain file"),
        ("postgresql://me:secret@host:port/db", "is not a known kind of store"),
    ],
)
def test_a_url_that_is_none_of_ours_is_refused_and_shows_no_password(url: str, said: str) -> None:
    text = refusal(url)

    assert said in text
    assert "secret" not in text


def test_a_password_is_never_shown() -> None:
    store = SqlStore("postgresql://me:secret@127.0.0.1:1/db", root=OWNER)

    with pytest.raises(StoreError, match=r"cannot be reached\. Check that the server runs") as caught:
        store.open()

    assert "secret" not in repr(store) + str(caught.value) + store.name
    assert "me:***@127.0.0.1:1/db" in str(caught.value)


WITHOUT = """
import sys
sys.modules[sys.argv[1]] = None
from trees.store import open_store
try:
    open_store(sys.argv[2], root="p")
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "url", "said"),
    [
        ("sqlalchemy", "sqlite:///x.db", "StoreError store sql: needs sqlalchemy, which is not installed."),
        ("psycopg", "postgresql://me:secret@h/db", ":***@h/db: needs psycopg, which is not installed."),
    ],
)
def test_without_the_extra_it_is_said_what_to_install(module: str, url: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, module, url], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert said in done.stdout
    assert "pip install '.[sql]'" in done.stdout


@pytest.mark.slow
def test_to_import_the_library_imports_no_database() -> None:
    program = "import sys, trees, trees.store; print(sorted({'sqlalchemy', 'psycopg', 'sqlite3'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("wrong", [{"age_s": 0}, {"age_s": "long"}, {"count": -1}, {"size": 1}], ids=str)
def test_how_long_things_are_kept_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Keep(**wrong)


# -- files -------------------------------------------------------------------------------------------------------


def test_all_of_its_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        store = opened(f"sqlite:///{tmp_path / 'tasks.db'}")
        store.create("t", OWNER, submitted("t"))
        kept(store)
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)

    assert modes == dict.fromkeys(["tasks.db", "tasks.db-wal", "tasks.db-shm", "tasks.db.p.lock"], 0o600)


def test_a_relative_file_is_where_the_process_was_when_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = opened("sqlite:///tasks.db")
    store.create("t", OWNER, submitted("t"))
    store.finish("t")
    kept(store)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    assert list(store.read("t")) == [submitted("t")]
    store.close()


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "directory exists" in refusal(f"sqlite:///{tmp_path / 'ghost' / 'tasks.db'}")


def test_a_file_that_is_no_database_is_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("dear diary\n" * 1000)

    assert "is no SQLite database. Give another file" in refusal(f"sqlite:///{file}")
    assert file.read_text() == "dear diary\n" * 1000


def test_a_guard_that_cannot_be_taken_says_which_file_that_is(tmp_path: Path) -> None:
    (tmp_path / "tasks.db.p.lock").mkdir()

    assert "tasks.db.p.lock" in refusal(f"sqlite:///{tmp_path / 'tasks.db'}")


@pytest.mark.parametrize(("make", "named"), [(Path.mkdir, "tasks/tasks.db"), (os.mkfifo, "tasks.db")])
def test_what_is_no_file_is_refused_and_stays_as_open_as_it_was(
    make: Callable[[Path], object], named: str, tmp_path: Path
) -> None:
    """Such as ``/tmp``: a directory that others use, which only its owner could open after that."""
    place = tmp_path / "tasks"
    make(place)
    place.chmod(0o1777)

    assert refusal(f"sqlite:///{place}").endswith(f", such as {tmp_path / named}")
    assert stat.S_IMODE(place.stat().st_mode) == 0o1777


def test_a_damaged_file_is_said_to_be_that(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    store = opened(f"sqlite:///{file}")
    for number in range(200):
        store.create(f"t{number}", OWNER, submitted(f"t{number}", inputs={"x": "y" * 200}))
    store.close()
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\x5a" * (len(content) - 4096))

    assert "is damaged. Restore it from a copy" in refusal(f"sqlite:///{file}")


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the rights of root, where this is root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("mode", [0o000, 0o444])
def test_a_file_that_may_not_be_written_says_so(mode: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.db"
        opened(f"sqlite:///{file}").close()
        file.chmod(mode)
        Path(folder).chmod(0o555)

        with as_nobody():
            said = refusal(f"sqlite:///{file}")
            missing = refusal(f"sqlite:///{folder}/another.db")
        Path(folder).chmod(0o755)

    assert "Check the permissions" in said or "who may read and write there" in said
    assert "cannot be made (Permission denied). Check" in missing


def test_two_trees_on_one_file_in_one_process_do_not_take_each_others_locks_away(sqlite_url: str) -> None:
    one = opened(sqlite_url, "one")
    other = opened(sqlite_url, "other")
    other.close()
    one.create("t", "one", submitted("t"))
    kept(one)
    one.close()

    assert len(opened_and_closed(sqlite_url, "one")) == 1


# -- one process at a time ---------------------------------------------------------------------------------------

HOLDER = """
import json, sys
from tests.trees.store.stores import kept, submitted
from trees.store import open_store
store = open_store(sys.argv[1], root="p")
store.create("t", "p", submitted("t"))
kept(store)
print(json.dumps({"token": store.token}), flush=True)
sys.stdin.readline()
store.close()
print("closed", flush=True)
sys.stdin.readline()
"""


@contextmanager
def holder(url: str) -> Iterator[Process]:
    """Another process that has it open."""
    with python("-c", HOLDER, url, cwd=ROOT, talks=True) as process:
        try:
            assert json.loads(out(process).readline())["token"] > 0
            yield process
        finally:
            process.kill()


def piped(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


@pytest.mark.slow
def test_a_second_process_is_refused_with_the_name_of_the_first_and_may_when_that_has_closed_it(store_url: str) -> None:
    with holder(store_url) as process:
        with pytest.raises(StoreBusyError, match=rf"'p' is in use by \S+, process {process.pid}\. .*ha=HA\(\)"):
            opened(store_url)
        print(file=piped(process.stdin), flush=True)
        assert piped(process.stdout).readline() == "closed\n"

        assert [task.id for task in opened_and_closed(store_url)] == ["t"]


@pytest.mark.slow
def test_a_second_process_may_open_it_at_once_when_the_first_was_killed(store_url: str) -> None:
    with holder(store_url) as process:
        with pytest.raises(StoreBusyError):
            opened(store_url)
        process.send_signal(signal.SIGKILL)
        process.wait()

        assert [task.id for task in opened_and_closed(store_url)] == ["t"]


FORKS = """\
heard, says = os.pipe()
pid = os.fork()
if not pid:
    os.write(says, b".")
    sys.stdin.read()
    os._exit(0)
os.read(heard, 1)
"""
"""The child has begun, and let go of what is its parent's, when the parent goes on."""


@pytest.mark.slow
def test_a_process_that_the_holder_has_forked_does_not_keep_it(sqlite_url: str) -> None:
    program = (
        HOLDER.replace("print(json", f"{FORKS}print(json")
        .replace("import json", "import os, json")
        .replace('{"token"', '{"child": pid, "token"')
    )
    with python("-c", program, sqlite_url, cwd=ROOT, talks=True) as process:
        child = json.loads(out(process).readline())["child"]
        try:
            with pytest.raises(StoreBusyError):
                opened(sqlite_url)
            process.kill()
            process.wait()
            os.kill(child, 0)  # it is there

            assert [task.id for task in opened_and_closed(sqlite_url)] == ["t"]
        finally:
            os.kill(child, signal.SIGKILL)


# -- in which order --------------------------------------------------------------------------------------------------


def _finished(store: Any, *names: str) -> None:
    for name in names:
        store.create(name, OWNER, submitted(name))
        store.append(name, ended(name))
        store.finish(name)
    kept(store)


def _times(url: str, times: dict[str, str]) -> None:
    for name, at in times.items():
        execute(url, f"UPDATE regrow_streams SET finished_at = {at} WHERE id = '{name}'")  # noqa: S608 - words of this test


def test_what_finished_first_is_first_when_it_is_opened_again(store_url: str) -> None:
    store = opened(store_url)
    _finished(store, "d", "c", "b", "a")
    store.close()
    _times(store_url, {"a": "1.5", "b": "3.5", "c": "2.5", "d": "2.5"})  # of d and c, d was created first

    store = opened(store_url)
    try:
        assert store.finished(OWNER) == ["a", "d", "c", "b"]
    finally:
        store.close()
