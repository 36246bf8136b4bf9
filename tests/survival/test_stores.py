"""The store has no room, is locked or cannot be reached while three tasks are in the middle of everything."""

from __future__ import annotations

import re
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from actors import TreeStopped
from actors.model.clock import unstopped
from tests.support.crew import Record
from tests.support.databases import Cluster
from tests.survival.cells import FULL, MEMORY, POSTGRES, SQLITE, STANDBY, UNREACHABLE, cell
from tests.survival.processes import Notes, Process
from tests.survival.scene import AFTER, ENDED, HELD, UNDOING, Scene, require_all
from tests.trees.store.stores import PATIENCE_S
from trees import HA, LeaseLostError, StorePaused, StoreResumed, Tree

Begin = Callable[..., Tree]
Loads = Callable[[], Process]
Urls = Callable[[str], str | None]
LEASE_S = 8.0
BOTH = pytest.mark.parametrize("kind", [SQLITE, POSTGRES])


@cell(FULL, MEMORY, says="all; it writes nothing")
def test_a_tree_in_memory_needs_no_disk(process: Loads, notes: Notes) -> None:
    first = process()
    first.go(None)
    first.do("stand")

    with first.limited(resource.RLIMIT_FSIZE, 0):
        require_all(first.do("finish"), notes.done())


@cell(UNREACHABLE, MEMORY, says="all; it is in the process itself")
def test_a_tree_in_memory_opens_no_file_and_no_connection(process: Loads, notes: Notes) -> None:
    first = process()
    first.go(None)
    first.do("stand")

    with first.limited(resource.RLIMIT_NOFILE, 0):
        require_all(first.do("finish"), notes.done())


# -- no room -----------------------------------------------------------------------------------------------


@cell(FULL, SQLITE, says="all; pauses, goes on when there is room")
def test_a_process_that_may_write_nothing_more_to_its_file_goes_on_when_it_may(
    process: Loads, url_of: Urls, notes: Notes
) -> None:
    url = str(url_of(SQLITE))
    first = process()
    first.go(url)
    first.do("stand")

    with first.limited(resource.RLIMIT_FSIZE, size_of_log(url)):
        questions = first.do("go on")
        notes.wait_for("StorePaused")
        notes.wait_for(ENDED)
        first.do("hear")
        notes.note("over")

    require_all({"questions": questions} | first.do("reports"), notes.done())
    require_after_it_is_over(notes)
    notes.wait_for("StoreResumed")


def size_of_log(url: str) -> int:
    """What is written next would make it longer."""
    return Path(url.removeprefix("sqlite:///") + "-wal").stat().st_size


@cell(FULL, POSTGRES, says="all; pauses, goes on when there is room")
def test_a_server_that_has_no_room_holds_everything_up_until_it_has(
    begin: Begin, postgres: Cluster, postgres_url: str, notes: Notes
) -> None:
    goes_on_after(lambda: no_room(postgres, postgres_url), begin, postgres_url, notes, said="no room|extend")


@contextmanager
def no_room(postgres: Cluster, url: str) -> Iterator[None]:
    """The server may not make the table of records longer, not by a page: its last one is full."""
    if shutil.which("prlimit") is None:
        pytest.skip("needs prlimit. Debian: apt-get install util-linux")
    row = "INSERT INTO regrow_records SELECT 'filler', 's', n, 'k', repeat('x', 1960) FROM generate_series({}, {}) AS n"
    rows = 9_000  # more than the 16 MiB of a file of its log, which must go on
    postgres.execute(row.format(1, rows), url)
    postgres.execute("VACUUM FULL regrow_records", url)  # it forgets where there is room within
    while not postgres.execute(f"{row.format(rows + 1, rows + 1)} RETURNING ctid", url)[0][0].endswith(",4)"):
        rows += 1
    most = postgres.execute("SELECT pg_relation_size('regrow_records')", url)[0][0] + 4096
    main = postgres.execute("SELECT pg_read_file('postmaster.pid')")[0][0].split()[0]
    sessions = postgres.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()", url)

    def limit(pid: object, to: object) -> None:
        postgres.execute(f"COPY (SELECT 1 WHERE false) TO PROGRAM 'prlimit --pid {pid} --fsize={to}: || true'")

    try:
        for pid in [main, *(pid for (pid,) in sessions)]:  # those to come have the limit of the first
            limit(pid, most)
        with pytest.raises(psycopg.Error, match="could not extend file"):
            postgres.execute(row.format(rows + 2, rows + 10), url)
        yield
    finally:
        limit(main, "unlimited")


@BOTH
@cell(FULL, STANDBY, says="all; pauses, whoever leads then goes on")
def test_where_candidates_may_write_nothing_one_of_them_goes_on_when_they_may(
    kind: str, process: Loads, url_of: Urls, notes: Notes, request: pytest.FixtureRequest
) -> None:
    url = str(url_of(kind))
    both = [process(), process()]
    assert [each.go(url, lease_s=LEASE_S) for each in both] == ["leader", "standby"]
    leader, standby = both
    leader.do("stand")
    in_flight = []

    with ExitStack() as stack:
        if kind == POSTGRES:
            stack.enter_context(no_room(request.getfixturevalue("postgres"), url))
        else:
            for each in both:
                stack.enter_context(each.limited(resource.RLIMIT_FSIZE, 0))
        questions = leader.do("go on")
        notes.wait_for("StorePaused")
        if kind == SQLITE:  # the lease is in the same file
            assert leader.do("end") == "LeaseLostError"
            in_flight = [HELD, UNDOING]
        notes.note("over")

    if in_flight:
        assert standby.do("lead")
        found = standby.do("finish")
    else:
        assert leader.do("role") == "leader"
        found = {"questions": questions} | leader.do("reports")
    require_all(found, notes.done(), again=in_flight)
    require_after_it_is_over(notes)


def require_after_it_is_over(notes: Notes) -> None:
    """What depends on a result has waited until that could be kept."""
    done = notes.done()
    assert done.index(ENDED) < done.index("over") < done.index(AFTER), done


# -- out of reach ------------------------------------------------------------------------------------------


@contextmanager
def locked(url: str) -> Iterator[None]:
    """Another connection has the lock of the file."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def stopped(postgres: Cluster) -> Iterator[None]:
    """There is no server."""
    postgres.stop()
    try:
        yield
    finally:
        postgres.start()


@pytest.fixture
def out_of_reach(request: pytest.FixtureRequest) -> Callable[[str], AbstractContextManager[None]]:
    """The store of this address cannot be reached meanwhile."""

    def make(url: str) -> AbstractContextManager[None]:
        return locked(url) if url.startswith("sqlite") else stopped(request.getfixturevalue("postgres"))

    return make


@cell(UNREACHABLE, SQLITE, POSTGRES, says="all; pauses, goes on when it is back")
def test_a_store_that_cannot_be_reached_holds_everything_up_until_it_can(
    column: str, begin: Begin, url_of: Urls, notes: Notes, out_of_reach: Callable[[str], AbstractContextManager[None]]
) -> None:
    url = str(url_of(column))
    goes_on_after(lambda: out_of_reach(url), begin, url, notes, said="locked|stopping|reached")


def goes_on_after(
    fault: Callable[[], AbstractContextManager[None]], begin: Begin, url: str, notes: Notes, *, said: str
) -> None:
    """Workers go on meanwhile; nothing that depends on them begins before it is over; then all does."""
    scene = Scene(notes.note)
    tree = begin(scene, url)
    record = Record(tree)
    scene.stand(tree)

    with fault():
        questions = scene.go_on(tree)
        (pause,) = record.wait_for(StorePaused)
        notes.wait_for(ENDED)
        scene.hear(tree)
        notes.note("over")

    require_all({"questions": questions} | scene.reports(tree), notes.done())
    require_after_it_is_over(notes)
    assert len(record.wait_for(StoreResumed)) == 1
    assert re.search(said, str(pause.error))
    assert "site/crew" not in str(pause.error.__cause__), "what was to be written has no place in a log"


@BOTH
@cell(UNREACHABLE, STANDBY, says="all; the leader stops in time, a standby goes on when it is back")
def test_a_leader_that_cannot_reach_the_store_stops_and_the_standby_goes_on_when_it_can(
    kind: str, begin: Begin, url_of: Urls, notes: Notes, out_of_reach: Callable[[str], AbstractContextManager[None]]
) -> None:
    url = str(url_of(kind))
    scenes = [Scene(notes.note), Scene(notes.note)]
    leader, standby = (
        begin(each, url, ha=HA(lease_s=LEASE_S, name=name)) for each, name in zip(scenes, "ab", strict=True)
    )
    ends: list[float] = []
    leader.subscribe(lambda event: ends.append(unstopped()) if isinstance(event, TreeStopped) else None)
    scenes[0].stand(leader)

    with out_of_reach(url):
        with pytest.raises(LeaseLostError, match="could not be renewed"):
            leader.wait(PATIENCE_S)
        keeper: Any = leader._leadership.keeper
        assert ends[0] < keeper.sent + LEASE_S
        assert standby.role == "standby"

    assert standby.wait_for_role("leader", PATIENCE_S)
    require_all(scenes[1].finish(standby), notes.done(), again=[HELD, UNDOING])
