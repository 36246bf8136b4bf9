"""The trees of this process that somebody has made and that have not ended."""

from __future__ import annotations

import atexit
from collections import deque
from typing import TYPE_CHECKING, Final

from actors.concurrency.weak_registry import WeakRegistry
from actors.messaging.blocking import A_REPLY, report_blocking
from actors.model.events import LoopBlocked, TreeLeftRunning

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


def _holds_its_loop(path: str, file: str, line: int, instead: str) -> None:
    """Warn once for each line of a host's code that holds up the event loop that runs it by waiting for a tree."""
    living = LIVING.snapshot()
    tree = next((each for each in living if each.root_path == path.partition("/")[0]), None)
    if tree is None and path == A_REPLY:
        tree = next(iter(living), None)
    if tree is None or (file, line) in tree.blocking_lines:
        return
    tree.blocking_lines.add((file, line))
    where = f"{file}:{line}: write '{instead}'. This call blocks the event loop that runs it, and all other tasks there"
    tree.publish(LoopBlocked(tree.root_path if path == A_REPLY else path, 0.0, where, "host"))


report_blocking(_holds_its_loop)


def _stop_all() -> None:
    """The interpreter ends and nobody has stopped these trees: give their on_stop hooks a moment."""
    left = [tree for tree in LIVING.snapshot() if not tree.is_down]
    for tree in left:
        tree.publish(TreeLeftRunning(tree.root_path))
    ends = [tree.stop() for tree in left]
    for end in ends:
        end.wait(EXIT_S)
