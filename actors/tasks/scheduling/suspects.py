"""Code that perhaps kills its process, of subtasks, steps and undos: what is on its last chance runs one at a time.

Several attempts were under way when a process died, again and again: one of them is the culprit, and the next loss
would be the last of each. Nobody can tell which. So of these one at a time is started: if the process dies again, it
has died of this one or of one that has more chances left. Innocents get through; only where several culprits are about
can one of them lose its last chance to another, and its ladder goes on. The first losses put nothing off: that a
process is killed while long work runs is an everyday thing.

One that waits in an ask does not keep the others from running: what it waits for may be one of them. Only the
orchestrator touches this, so there is no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

SuspectT = TypeVar("SuspectT")


class Suspects(Generic[SuspectT]):
    """Suspects of one orchestrator.

    Args:
        max_losses: processes that may end with one, one after the other.
        is_busy: says of one that was begun whether it runs, and does not wait for what it has asked for.
    """

    def __init__(self, max_losses: int, is_busy: Callable[[SuspectT], bool]) -> None:
        self._last_chance = max(1, max_losses - 1)
        """One that was lost so often fails with its next loss: so it runs alone."""
        self._is_busy = is_busy
        self._running: SuspectT | None = None
        self._put_off: dict[object, Callable[[], None]] = {}

    def waits_for(self, losses: int, task: str) -> str | None:
        """Return whose records must be kept before one begins: its task's; None: of all, also the end of the last one.

        Should the process die of it, whoever had its chance before must not be taken for the culprit.
        """
        return None if losses >= self._last_chance else task

    def must_wait(self, losses: int, who: object, again: Callable[[], None]) -> bool:
        """True where one has to wait for another suspect; then ``again`` is called when it need not."""
        if losses < self._last_chance or self._running is who or not self._one_runs():
            return False
        self._put_off[who] = again
        return True

    def passes(self, losses: int, attempt: SuspectT) -> None:
        """One that need not wait is about to begin."""
        if losses >= self._last_chance:
            self._running = attempt

    def release(self) -> None:
        """Have those look again that wait, where none runs now: the first of them goes on, the others wait for it."""
        if self._put_off and not self._one_runs():
            put_off, self._put_off = self._put_off, {}
            for again in put_off.values():
                again()

    def has(self, who: object) -> bool:
        """Return True where it waits here."""
        return who in self._put_off

    def _one_runs(self) -> bool:
        return self._running is not None and self._is_busy(self._running)
