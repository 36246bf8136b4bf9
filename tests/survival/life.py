"""``python -m tests.survival.life NOTES``: one process with the scene in it, until that ends.

The first line of its input has the options of ``start`` (``lease_s`` in place of ``ha``), as JSON. It says its role,
and then does what the lines say, and answers each with one. What is done outside goes to the file descriptor NOTES,
with the process's id.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Callable

from loguru import logger

from actors import ActorsError, Event
from tests.survival.scene import Scene
from tests.trees.store.stores import PATIENCE_S
from trees import HA, RoleChanged, StorePaused, StoreResumed, Tree, start
from trees.store import SqlStore

__all__ = ["Life", "SqlStore"]  # the latter so that all is loaded when a life begins


class Life:
    """A tree, and what it can be told to do."""

    def __init__(self, scene: Scene, tree: Tree) -> None:
        self.acts: dict[str, Callable[[], object]] = {
            "stand": lambda: scene.stand(tree),
            "go on": lambda: scene.go_on(tree),
            "finish": lambda: scene.finish(tree),
            "reports": lambda: scene.reports(tree),
            "lead": lambda: tree.wait_for_role("leader", PATIENCE_S),
            "hear": lambda: scene.hear(tree),
            "role": lambda: tree.role,
            "end": lambda: tree.wait(PATIENCE_S),
        }

    def do(self, act: str) -> object:
        """What comes of it, or which error."""
        try:
            return self.acts[act]()
        except ActorsError as error:
            return type(error).__name__


def end_with_parent() -> None:
    """Be killed when the tests are over.

    Its input ends then, but an act may take minutes, and a frozen process hears nothing. Linux only; elsewhere such a
    process ends with the act that it was told to do.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_SIGNAL_OF_PARENTS_DEATH, signal.SIGKILL)


_SET_SIGNAL_OF_PARENTS_DEATH = 1


def main() -> None:
    """Start the tree as the first line says, and stop it at the end of the input."""
    end_with_parent()
    notes, name = int(sys.argv[1]), f"{os.getpid()}"
    logger.remove()

    def note(what: str) -> None:
        os.write(notes, f"{name} {what}\n".encode())  # whole: it is shorter than what a pipe takes at once

    def hear(event: Event) -> None:
        if isinstance(event, (StorePaused, StoreResumed, RoleChanged)):
            note(type(event).__name__)

    options = json.loads(sys.stdin.readline())
    lease_s = options.pop("lease_s", None)
    scene = Scene(note)
    ha = None if lease_s is None else HA(lease_s=lease_s, name=name)
    tree = start(scene.spec(), clock=scene.clock, ha=ha, **options)
    tree.subscribe(hear)
    print(tree.role, flush=True)
    life = Life(scene, tree)
    for line in sys.stdin:
        print(json.dumps(life.do(line.strip())), flush=True)
    tree.stop()


if __name__ == "__main__":
    main()
