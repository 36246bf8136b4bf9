"""The deaths of orchestrators, and the task each died of: a bug of this library must cost one task, never the tree.

An incarnation that dies is replaced, takes the task up from its journal, and would die again. So every death is noted
with the task that was worked for, on every path: an outcome, an order, a timer, an effect, a dispatch, a resume. The
second death at the same point of a task ends the task; one that has come further meanwhile goes on. Where even its end
is the death of an incarnation it is put aside for the rest of this process: nobody touches it, and who waits for it
hears so.

Because of that these deaths count in no restart window: many tasks with the same bug would end the tree. The deaths of
one that gets a little further each time count after the first few, as those of any worker.

A ``CrashGuard`` belongs to a port, and so outlives every incarnation. Pure.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from actors.tasks.model.task_ids import whole_of

MOST_DEATHS: Final = 2
"""Incarnations that may die at the same point of the same task; then it is the task that ends."""

MOST_UNCOUNTED: Final = 16
"""Deaths of one task that count in no restart window."""

AfterDeath: TypeAlias = Literal["go on", "end", "aside"]


class _Deaths(NamedTuple):
    here: int
    """At this point."""
    at: int
    """How many records the task had then."""
    ended: bool
    """True if the task was to be ended because of these, or put aside."""
    ever: int = 0
    """At any point."""


class CrashGuard:
    """The deaths of the incarnations of one orchestrator."""

    def __init__(self) -> None:
        self._deaths: dict[str, _Deaths] = {}
        self.aside: set[str] = set()
        """Tasks that nobody touches any more in this process."""

    def died(self, task: str, at: int) -> bool:
        """An incarnation has died while it worked for a task that had so many records.

        Returns:
            True where this is to count in no restart window.
        """
        before = self._deaths.get(task, _Deaths(0, at, ended=False))
        here, ever = before.here + 1 if before.at == at else 1, before.ever + 1
        self._deaths[task] = _Deaths(here, at, before.ended, ever)
        return ever <= MOST_UNCOUNTED

    def look(self, task: str, at: int) -> AfterDeath:
        """Decide what the next incarnation does with a task that has so many records now."""
        deaths = self._deaths.get(task)
        if deaths is None:
            return "go on"
        if deaths.ended and deaths.here:
            self.aside.add(task)
            return "aside"
        if deaths.here < MOST_DEATHS or deaths.at - at not in {0, 1}:  # 1: it died before the last one was kept
            return "go on"
        self._deaths[task] = _Deaths(0, at, ended=True, ever=deaths.ever)
        return "end"

    def forget(self, task: str) -> None:
        """Forget the deaths of a task that has ended."""
        self._deaths.pop(task, None)

    def removed(self, task: str) -> None:
        """Forget a task that was removed, and its parts: the next one of its id is another one. From any thread."""
        for each in {*self._deaths.copy(), *self.aside.copy()}:
            if task in {each, whole_of(each)}:
                self._deaths.pop(each, None)
                self.aside.discard(each)
