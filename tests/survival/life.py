"""``python -m tests.survival.life URL NOTES LEASE DURABILITY``: one process with the scene in it, until that ends.

It does what the lines on its input say, and answers each with one line. URL may be empty (memory), LEASE is that of
``ha=HA()`` in seconds, or 0 for none. What is done outside goes to the file descriptor NOTES, with the process's id.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Literal

from loguru import logger

from actors import Event
from actors.errors import ActorsError
from actors.testing import settle
from tests.stores import PATIENCE_S
from tests.survival.scene import Scene
from trees import HA, RoleChanged, StorePaused, StoreResumed, Tree, start


class Life:
    """A tree, and what it can be told to do."""

    def __init__(self, scene: Scene, tree: Tree) -> None:
        self.acts: dict[str, Callable[[], object]] = {
            "stand": lambda: scene.stand(tree),
            "go on": lambda: scene.go_on(tree),
            "finish": lambda: scene.finish(tree),
            "reports": lambda: scene.reports(tree),
            "lead": lambda: tree.wait_for_role("leader", PATIENCE_S),
            "settle": lambda: settle(tree),
            "role": lambda: tree.role,
            "end": lambda: tree.wait(PATIENCE_S),
        }

    def do(self, act: str) -> object:
        """What comes of it, or which error."""
        try:
            return self.acts[act]()
        except ActorsError as error:
            return type(error).__name__


def _durability(word: str) -> Literal["process", "power"]:
    return "power" if word == "power" else "process"


def main() -> None:
    """Start the tree at the first line, and stop it at the end of the input."""
    url, notes, lease, durability = sys.argv[1:]
    name = f"{os.getpid()}"
    logger.remove()

    def note(what: str) -> None:
        os.write(int(notes), f"{name} {what}\n".encode())  # whole: it is shorter than what a pipe takes at once

    def hear(event: Event) -> None:
        if isinstance(event, (StorePaused, StoreResumed, RoleChanged)):
            note(type(event).__name__)

    print("ready", flush=True)
    sys.stdin.readline()
    scene = Scene(note)
    ha = HA(lease_s=float(lease), name=name) if float(lease) else None
    tree = start(scene.spec(), store=url or None, clock=scene.clock, durability=_durability(durability), ha=ha)
    tree.subscribe(hear)
    print(tree.role, flush=True)
    life = Life(scene, tree)
    for line in sys.stdin:
        print(json.dumps(life.do(line.strip())), flush=True)
    tree.stop()


if __name__ == "__main__":
    main()
