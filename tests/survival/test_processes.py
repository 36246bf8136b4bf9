"""The process is killed or frozen while three tasks are in the middle of everything."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest

from actors.model.clock import unstopped
from tests.survival.cells import FROZEN, KILLED, MEMORY, POSTGRES, POWER, SQLITE, STANDBY, cell
from tests.survival.processes import Notes, Process
from tests.survival.scene import HELD, UNDOING, Scene, require_all
from tests.trees.store.stores import PATIENCE_S
from trees import HA, StoreBusyError, Tree

Begin = Callable[..., Tree]
Loads = Callable[[], Process]
Urls = Callable[[str], str | None]
LEASE_S = 8.0
BOTH = pytest.mark.parametrize("kind", [SQLITE, POSTGRES])


@cell(KILLED, MEMORY, says="nothing")
@cell(POWER, MEMORY, says="nothing")
def test_what_was_in_memory_is_gone_with_its_process(process: Loads, begin: Begin, notes: Notes) -> None:
    first = process()
    first.go(None)
    first.do("stand")
    first.kill()

    assert begin(Scene(notes.note), None).tasks() == []


@cell(KILLED, SQLITE, POSTGRES, says="all; what was in flight runs again")
def test_the_next_process_goes_on_where_one_was_killed(
    column: str, process: Loads, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    url = url_of(column)
    first = process()
    first.go(url)
    first.do("stand")
    first.kill()

    scene = Scene(notes.note)
    found = scene.finish(begin(scene, url))

    require_all(found, notes.done(), again=[HELD, UNDOING])


@BOTH
@cell(KILLED, STANDBY, says="all; the standby goes on within the lease and a second")
def test_the_standby_goes_on_where_the_leader_was_killed(
    kind: str, process: Loads, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    url = url_of(kind)
    leader = process()
    assert leader.go(url, lease_s=LEASE_S) == "leader"
    scene = Scene(notes.note)
    standby = begin(scene, url, ha=HA(lease_s=LEASE_S))
    leader.do("stand")
    assert standby.role == "standby"

    leader.kill()
    killed_at = unstopped()

    assert standby.wait_for_role("leader", PATIENCE_S)
    assert unstopped() - killed_at < 3 * LEASE_S
    require_all(scene.finish(standby), notes.done(), again=[HELD, UNDOING])


@cell(FROZEN, MEMORY, SQLITE, POSTGRES, says="all; it goes on when it is thawed")
def test_a_process_that_was_frozen_goes_on_and_nobody_took_its_place(
    column: str, process: Loads, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    url = url_of(column)
    first = process()
    first.go(url)
    first.do("stand")

    first.freeze()
    if url is not None:
        with pytest.raises(StoreBusyError, match=f"process {first.pid}"):
            begin(Scene(notes.note), url)
    first.thaw()

    require_all(first.do("finish"), notes.done())


@BOTH
@cell(FROZEN, STANDBY, says="all; the standby goes on, the thawed one stops")
@cell(POWER, STANDBY, says="as its store; a standby elsewhere goes on")
def test_a_leader_that_was_frozen_is_replaced_and_does_nothing_more(
    kind: str, process: Loads, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    url = str(url_of(kind))
    leader = process()
    leader.go(url, lease_s=LEASE_S, durability="power")
    scene = Scene(notes.note)
    standby = begin(scene, url, ha=HA(lease_s=LEASE_S))
    leader.do("stand")

    freeze_between_writes(leader, url)
    leader.tell("go on")  # the first that it hears of when it is thawed

    assert standby.wait_for_role("leader", PATIENCE_S)
    by_leader = len(notes.lines())
    found = scene.finish(standby)
    leader.thaw()
    leader.answer()
    assert leader.do("end") == "LeaseLostError"
    assert leader.do("role") == "stopped"
    later = [what for who, what in notes.lines()[by_leader:] if who == leader.pid]
    assert not [what for what in later if what.startswith(("did ", "undid "))], "it began something with its old token"
    require_all(found, notes.done(), again=[HELD, UNDOING])


def freeze_between_writes(process: Process, url: str) -> None:
    """One that is frozen in the middle of a write to a file holds its lock, and nobody can go on: see ``trees.ha``."""
    process.freeze()
    while url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0.0, isolation_level=None)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                process.thaw()
                process.freeze()
                continue
            other.execute("ROLLBACK")
            return
