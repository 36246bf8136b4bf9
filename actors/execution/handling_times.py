"""Times of the messages of one batch, taken where somebody measures (``Measures.on``).

A message ends when the next one begins, and when that is stands in ``Incarnation.since`` anyway. So measuring adds one
look at the clock, at the end of a batch. Of a message that takes no longer than ``QUICK_S`` nothing is noted but that
there was one: a batch has a time by which all its messages so far were quick (``due``), and only a message that begins
after it has somebody look at the one before. There is none where that was added already, was dropped, or belongs to the
batch before: what passes in between is nobody's, and one that is looked at must be among those that are counted.
"""

from __future__ import annotations

from math import inf
from operator import length_hint
from typing import TYPE_CHECKING, Final

from actors.messaging.handled import QUICK_S

if TYPE_CHECKING:
    from actors.execution.incarnation import Incarnation


class Untimed:
    """Batch that nobody measures."""

    __slots__ = ()

    due: float = inf
    """While messages begin before this none of them was slow."""

    def passed(self, began: float, now: float) -> float:  # noqa: ARG002 - this one measures nothing
        """A message begins after ``due``: look at the one before, which began so early. Returns the new ``due``."""
        return inf

    def skipped(self) -> float:
        """Take note of a message that was taken, and is not handled. Returns the new ``due``."""
        return inf

    def end(self, incarnation: Incarnation) -> None:
        """Add what was handled so far. More may follow."""


class BatchTimes(Untimed):
    """Batches that are measured, one after the other, of one incarnation."""

    __slots__ = (
        "_began", "_left", "_mailbox", "_measures", "_now", "_quick", "_row", "_seconds", "_skips", "_slow", "_source",
        "_told", "_told_s", "due", "is_over",
    )  # fmt: skip

    def __init__(self, incarnation: Incarnation) -> None:
        self._mailbox, self._now = incarnation.mailbox, incarnation.system.now
        self._measures = incarnation.system.reports.measures
        self._row = self._measures.row_of(self._mailbox.path)
        self._slow: list[float] = []
        self._skips = False
        """True where the message that was taken last is not handled."""
        self._source = self._mailbox.batch
        self._left, self._began = 0, 0.0
        self._quick, self._seconds = 0, 0.0
        """Messages so far of batches without a slow one, and how long those took. Written by the run only."""
        self._told, self._told_s = 0, 0.0
        """How much of it was added to the row. Written with the lock of ``Measures`` only."""
        self.is_over = incarnation.is_over
        """True once the incarnation is: nothing more is counted."""
        self._measures.watch(self)

    def begin(self) -> None:
        """Begin a batch: the one that the mailbox has handed out."""
        source = self._source = self._mailbox.batch
        self._left = length_hint(source)
        began = self._began = self._now()
        self.due = began + QUICK_S

    def passed(self, began: float, now: float) -> float:
        """A message begins after ``due``: look at the one before, which began so early. Returns the new ``due``."""
        if self._left - length_hint(self._source) > 1 and not self._skips:  # the one that begins was taken, too
            self._look(now - began)
        self._skips = False
        return now + QUICK_S

    def _look(self, took: float) -> None:
        if took > QUICK_S:
            self._slow.append(took)

    def skipped(self) -> float:
        """Take note of a message that was taken, and is not handled. Returns the new ``due``: the next one looks."""
        self._left -= 1
        self._skips = True
        return -inf

    def end(self, incarnation: Incarnation) -> None:
        """Add what was handled so far. More may follow."""
        now, left = self._now(), length_hint(self._source)
        number, took = self._left - left, now - self._began
        if number > 0:
            if took > QUICK_S and not self._skips:
                self._look(now - incarnation.since)
            counts = self._mailbox.attached is incarnation  # what an abandoned one has done does not
            if self._slow:
                if counts:
                    self._measures.add(self._row, number, took, tuple(self._slow))
                self._slow.clear()
            elif counts:
                self._quick += number
                self._seconds += took
        self._left, self._began, self._skips = left, now, False

    def hand_over(self) -> None:
        """With the lock of ``Measures`` held: add what was counted since the last time to the row."""
        quick, seconds = self._quick, self._seconds
        more, more_s = quick - self._told, seconds - self._told_s
        self._told, self._told_s = quick, seconds
        self._row[0] += more
        self._row[-1] += more_s


def begun(incarnation: Incarnation) -> BatchTimes:
    """Return the times of the batch that an incarnation begins now."""
    times = incarnation.times
    if times is None:
        times = incarnation.times = BatchTimes(incarnation)
    times.begin()
    return times


UNTIMED: Final = Untimed()
