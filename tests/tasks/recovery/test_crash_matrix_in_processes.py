"""The column "process" of the crash matrix: every way to fail, and those that only a process survives.

Each row is run with every restart type, and over all rows with every strategy. What is expected is derived by the rules
of ``test_crash_matrix``; ``x`` is a process between two siblings that are none.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from actors import ChildExited, StartError
from actors.testing import settle
from tests.support.crew import Record, running, shop
from tests.tasks.recovery.mortal import Mortal, Stillborn
from tests.tasks.recovery.test_crash_matrix import (
    assert_dump_shows,
)
from trees import Tree, WorkerSpec


def kill(tree: Tree, _: object) -> None:
    os.kill(tree.child("shop/x").pid or 0, signal.SIGKILL)


def mortal(id_: str, notes: Path, fault: str = "", **rules: Any) -> WorkerSpec:
    return WorkerSpec(id=id_, actor=Mortal, args=(id_, str(notes), fault), **rules)


@pytest.mark.parametrize("word", ["segfault", "exit", "kill", "raise"])
def test_a_process_that_dies_while_it_starts_leaves_the_others_alone(word: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    x = WorkerSpec(id="x", actor=Stillborn, args=("x", str(notes), word), dispatch="process")
    with running(shop(*(mortal(id_, notes) for id_ in "az"), strategy="one_for_all")) as tree:
        record = Record(tree)
        notes.write_text("")
        with pytest.raises(StartError):
            tree.start_child("shop", x)
        settle(tree)

        assert record.exits("shop/x") == ["crashed"]
        assert [event.started for event in record.of(ChildExited)] == [False]
        assert notes.read_text().splitlines() == ["on_start x", *(["on_failure x"] if word == "raise" else [])]
        assert_dump_shows(tree, {"a": "running", "z": "running"})
