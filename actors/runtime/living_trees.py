"""The trees of this process that somebody has made and that have not ended."""

from __future__ import annotations

import atexit
from collections import deque
from typing import TYPE_CHECKING, Final

from actors.concurrency.weak_registry import WeakRegistry
from actors.model.events import TreeLeftRunning

if TYPE_CHECKING:
    from actors.runtime.system import System

EXIT_S = 3.0
"""How long the end of the interpreter waits for a tree that nobody has stopped."""


LIVING: Final[WeakRegistry[System]] = WeakRegistry()
_UNHOOKED: Final[deque[None]] = deque((None,))
"""Holds one item until there is a tree: nothing is hooked in by an import."""


def add(tree: System) -> None:
    """Register a tree: the end of the interpreter is to stop it, unless it was stopped before."""
    LIVING.add(tree)
    try:
        _UNHOOKED.pop()
    except IndexError:
        return  # the interpreter calls us already
    atexit.register(_stop_all)


def _stop_all() -> None:
    """The interpreter ends and nobody has stopped these trees: give their on_stop hooks a moment."""
    left = [tree for tree in LIVING.snapshot() if not tree.is_down]
    for tree in left:
        tree.publish(TreeLeftRunning(tree.root_path))
    ends = [tree.stop() for tree in left]
    for end in ends:
        end.wait(EXIT_S)
