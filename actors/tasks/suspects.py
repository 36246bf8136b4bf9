"""Subtasks that perhaps kill their process: those on their last chance run one at a time.

Several attempts were under way when a process died, again and again: one of them is the culprit, and the next loss
would be the last of each. Nobody can tell which. So of these one at a time is started: if the process dies again, it
has died of this one or of one that has more chances left. Innocents get through; only where several culprits are about
can one of them lose its last chance to another, and its ladder goes on. The first losses put nothing off: that a
process is killed while long work runs is an everyday thing.

One that waits in an ask does not keep the others from running: what it waits for may be one of them. Only the
orchestrator touches this, so there is no lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.tasks.node import Node
from actors.tasks.state import TaskState
from actors.tasks.task import SubtaskStatus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from actors.tasks.attempt import Attempt


class Suspects:
    """Those of one orchestrator."""

    def __init__(self, max_losses: int) -> None:
        self._last_chance = max(1, max_losses - 1)
        self._running: Attempt | None = None
        self._put_off: dict[int, tuple[TaskState, Node]] = {}
        """By identity of the node."""

    def must_wait(self, state: TaskState, node: Node) -> bool:
        """Whether a subtask whose turn it is has to wait for another suspect; if so it is kept here."""
        if node.losses < self._last_chance or not self._one_runs():
            return False
        self._put_off[id(node)] = (state, node)
        return True

    def started(self, node: Node, attempt: Attempt) -> None:
        """An attempt begins."""
        if node.losses >= self._last_chance:
            self._running = attempt

    def released(self) -> Iterator[tuple[TaskState, Node]]:
        """Those who wait no longer, because none runs now."""
        if self._put_off and not self._one_runs():
            put_off, self._put_off = self._put_off, {}
            yield from (each for each in put_off.values() if each[1].status is SubtaskStatus.QUEUED)

    def has(self, node: Node) -> bool:
        """Whether it waits here."""
        return id(node) in self._put_off

    def _one_runs(self) -> bool:
        running = self._running
        return running is not None and not running.done and not running.waits
