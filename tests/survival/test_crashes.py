"""A worker, the orchestrator or a supervisor crashes while three tasks are in the middle of everything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from actors import ChildExited, ChildStarted, Event
from tests.survival.cells import COLUMNS, ORCHESTRATOR, STANDBY, SUPERVISOR, WORKER, cell
from tests.survival.processes import Notes
from tests.survival.scene import ENDED, HELD, PATH, UNDOING, Scene, require_all
from tests.tasks.orchestrators import kill_orchestrator
from tests.trees.store.stores import PATIENCE_S
from trees import HA, Tree

Begin = Callable[..., Tree]
Urls = Callable[[str], str | None]


def options(column: str) -> dict[str, Any]:
    """Of ``start``."""
    return {"ha": HA(lease_s=20.0)} if column == STANDBY else {}


@cell(WORKER, *COLUMNS, says="all; its attempt is tried again")
def test_what_a_worker_was_at_when_it_crashed_is_tried_again_and_nothing_else(
    column: str, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    scene = Scene(notes.note, crashes=True)
    tree = begin(scene, url_of(column), **options(column))
    exits: list[ChildExited] = []
    tree.subscribe(lambda event: exits.append(event) if isinstance(event, ChildExited) else None)
    scene.stand(tree)

    found = scene.finish(tree)
    tree._system.bus.flush(PATIENCE_S)

    assert [(each.path, type(each.error)) for each in exits] == [(f"{PATH}/hold", ArithmeticError)]
    assert notes.done().count(ENDED) == 2
    require_all(found, notes.done(), again=[HELD])


@cell(ORCHESTRATOR, *COLUMNS, says="all; nothing is done twice")
def test_an_orchestrator_that_crashed_goes_on_with_the_attempts_that_run(
    column: str, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    scene = Scene(notes.note)
    tree = begin(scene, url_of(column), **options(column))
    scene.stand(tree)
    again = started(tree, f"{PATH}/orchestrator")

    kill_orchestrator(tree, PATH)
    assert again.wait(PATIENCE_S)

    require_all(scene.finish(tree), notes.done())
    assert tree.child(f"{PATH}/orchestrator").incarnation == 2


@cell(SUPERVISOR, *COLUMNS, says="all; what ran under it runs again")
def test_a_supervisor_that_gave_up_and_was_restarted_goes_on_with_its_tasks(
    column: str, begin: Begin, url_of: Urls, notes: Notes
) -> None:
    scene = Scene(notes.note)
    tree = begin(scene, url_of(column), **options(column))
    scene.stand(tree)
    again = started(tree, PATH)

    for _ in range(4):  # one more than its limit
        tree.ref(f"{PATH}/fuse").tell("blow")
    assert again.wait(PATIENCE_S)

    require_all(scene.finish(tree), notes.done(), again=[HELD, UNDOING])
    assert tree.child(PATH).incarnation == 2


def started(tree: Tree, path: str) -> threading.Event:
    """Set when the next incarnation of this one is up."""
    up = threading.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ChildStarted) and event.path == path:
            up.set()

    tree.subscribe(hear)
    return up
