"""The column "ray" of the crash matrix: every way to fail of the column "process", in an actor of a cluster.

Each row is run once, with one of the restart types and one of the strategies: an actor takes long to start. In place
of a killed fork server stands the loss of a node (``tests/actors/dispatch/test_ray.py``). Ray does not limit the memory
of an actor (``memory_mb`` is what it plans with), so the limit of that row is one that the actor sets itself.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from actors import StartError
from tests.support.clusters import START_S, on_ray
from tests.support.crew import LONG_S, Record, running, shop
from tests.tasks.recovery.mortal import Stillborn
from tests.tasks.recovery.test_crash_matrix import RESTARTS, STRATEGIES, Crash, assert_dump_shows
from tests.tasks.recovery.test_crash_matrix_in_processes import (
    FAILED,
    ROWS,
    Death,
    ask,
    assert_treated,
    mortal,
)
from trees import Tree, WorkerSpec

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow, pytest.mark.timeout(300)]


def kill(tree: Tree, _: object) -> None:
    os.kill(tree.ref("shop/x").ask("pid", timeout=LONG_S), signal.SIGKILL)


OWN = {
    "SIGKILL between messages": Death(Crash("SIGKILL between messages", kill, ("crashed",), ())),
    "memory limit": Death(Crash("memory limit", ask("starve"), ("crashed",), FAILED, asker_gets=MemoryError)),
}
CELLS = [
    pytest.param(
        OWN.get(row.crash.name, row),
        RESTARTS[number % len(RESTARTS)],
        STRATEGIES[number // 2 % len(STRATEGIES)],
        id=row.crash.name.replace(" ", "_"),
    )
    for number, row in list(enumerate(ROWS))[::4]
    if row.crash.name != "killed fork server"
]


@pytest.mark.parametrize(("row", "restart", "strategy"), CELLS)
def test_an_actor_that_fails_is_treated_as_the_rules_say(
    row: Death, restart: Any, strategy: Any, tmp_path: Path
) -> None:
    assert_treated(row, restart, strategy, tmp_path / "notes", dispatch=on_ray(), start_timeout_s=START_S)


@pytest.mark.parametrize("word", ["segfault", "raise"])
def test_an_actor_that_dies_while_it_starts_leaves_the_others_alone(word: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    x = WorkerSpec(id="x", actor=Stillborn, args=("x", str(notes), word), dispatch=on_ray(), start_timeout_s=START_S)
    with running(shop(*(mortal(id_, notes) for id_ in "az"), strategy="one_for_all")) as tree:
        record = Record(tree)
        notes.write_text("")
        with pytest.raises(StartError):
            tree.start_child("shop", x)

        assert record.exits("shop/x") == ["crashed"]
        assert notes.read_text().splitlines() == ["on_start x", *(["on_failure x"] if word == "raise" else [])]
        assert_dump_shows(tree, {"a": "running", "z": "running"})
