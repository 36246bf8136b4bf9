"""Facts on the messages of a worker, or of a pool, where somebody asks: how long they took, how long one waits.

Nothing here costs a sender anything, and next to nothing a worker: most messages are only counted. One that takes no
longer than ``QUICK_S`` belongs into the first bucket; only one that takes longer is looked at by itself, and that costs
little beside what it has cost. So every message is in its bucket.

How long the oldest message waits is known at least: no message has a time of its own. Whoever asks leaves a mark, how
many messages had come by then. Of a message that waits at a later look it is known by these marks which look has found
it first. It has waited since then.

Locking: marks with the lock of their inbox. Quick batches are counted by the incarnation that has handled them, which
alone writes there; others are handed over by an append to a deque. Both are added to the rows with the lock of
``Measures``, when somebody asks. *A look, against an incarnation that ends*: it has counted its last batch when it says
that it is over, and a look that reads this first has all of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from actors.concurrency.look_lock import LookLock
from actors.concurrency.thread_state import without_waits

if TYPE_CHECKING:
    from actors.messaging.inbox import Inbox

BOUNDS: Final = (
    *(0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
"""Upper bounds of the buckets of handling times, in seconds."""
QUICK_S: Final = BOUNDS[0]
MOST_LABELS: Final = 1000
"""Number of workers and pools of a tree that have a label of their own."""
MOST_BELOW: Final = 100
"""Number of them below one supervisor."""
MOST_NEWS: Final = 128
"""Batches that are handed over before somebody adds them."""
_FEW: Final = 64
"""Incarnations that count, before it is looked for those that are over."""
MOST_MARKS: Final = 32
"""Marks that are kept for one inbox."""


class Counting(Protocol):
    """Counter of the quick batches of one incarnation."""

    is_over: bool
    """True once nothing more is counted."""

    def hand_over(self) -> None:
        """With the lock of ``Measures`` held: add what was counted since the last time to the row."""


class Measures:
    """Times of handling in one tree, by label. What was measured stays, whatever becomes of a child.

    A worker has a label of its own, its path, or shares ``SUPERVISOR/*`` with others: a tree has no more than
    ``MOST_LABELS`` of its own, and a supervisor no more than ``MOST_BELOW``, those that come first. So what reads them
    stays small, also with 100,000 children, or with one for each request.
    """

    def __init__(self) -> None:
        self.on = False
        """True once somebody asks how long messages take: then that is measured."""
        self.rows: dict[str, list[float]] = {}
        """By label: how many are in each bucket, those beyond all of them, and the sum of the seconds."""
        self._news: deque[tuple[list[float], int, float, Sequence[float]]] = deque()
        """Batches that are not added to their rows yet: row, number, seconds, the slow ones."""
        self._counting: dict[Counting, None] = {}
        """An ordered set."""
        self._most_counting = _FEW
        """With more than that, those that are over are let go of."""
        self._is_adding = False
        """True while a look adds to the rows: one in between, on the same thread, has what was added so far."""
        self._own: set[str] = set()
        self._shared: set[str] = set()
        """Labels of those without one of their own; each is for a supervisor that has some with one, or for all."""
        self._below: dict[str, int] = {}
        self._workers: set[str] = set()
        self._lock = LookLock()
        """Guards the rows and the labels. Inside it no other lock is taken, and no code of users is called; a finalizer
        that runs there finds it re-entrant, and between two steps whatever it adds is added. A wait is refused."""

    def label(self, path: str) -> str:
        """Return the label of a worker or of a member of a pool, which is that of the pool."""
        path = path.partition("#")[0]  # no id has this sign
        if path in self._own:
            return path
        above = path.rpartition("/")[0]
        if self._lock.look(partial(self._has_own, path, above)):
            return path
        shared = f"{above}/*" if above in self._below else "*"
        self._shared.add(shared)
        return shared

    def labels(self) -> list[str]:
        """Return all labels that were given out so far: paths, and shared ones, which end with ``*``."""
        return [*self._own.copy(), *self._shared.copy()]

    def _has_own(self, path: str, above: str) -> bool:
        below = self._below.get(above, 0)
        has_own = len(self._own) < MOST_LABELS and below < MOST_BELOW
        if has_own:
            self._own.add(path)
            self._below[above] = below + 1
        return has_own

    def worker_label(self, worker: str) -> str:
        """Return the label of a worker of tasks by its id: those that come first have one of their own."""
        if worker in self._workers:
            return worker
        return worker if self._lock.look(partial(self._is_labelled, worker)) else "*"

    def _is_labelled(self, worker: str) -> bool:
        there_is_room = len(self._workers) < MOST_LABELS
        if there_is_room:
            self._workers.add(worker)
        return there_is_room

    def row_of(self, path: str) -> list[float]:
        """Return the row of a worker: also one that is gone had it, or others have it as well."""
        label = self.label(path)
        row = self.rows.get(label)
        return self.rows.setdefault(label, [0.0] * (len(BOUNDS) + 2)) if row is None else row

    def add(self, row: list[float], number: int, total_s: float, slow: Sequence[float]) -> None:
        """Add messages that a worker has handled to its row, the ``slow`` among them each by itself.

        To take the lock costs more than all else of it, so that is done once for ``MOST_NEWS`` batches, or when asked:
        ``slow`` is kept, and changes no more.
        """
        self._news.append((row, number, total_s, slow))
        if len(self._news) >= MOST_NEWS:
            self._lock.look(self._add_news)

    def watch(self, counting: Counting) -> None:
        """Add what an incarnation counts from now on, whenever somebody asks."""
        self._counting[counting] = None
        if len(self._counting) > self._most_counting:
            self._lock.look(self._add_counts)

    def _add_counts(self) -> None:
        """With the lock held."""
        if self._is_adding:
            return
        self._is_adding = True
        try:
            for each in tuple(self._counting):
                is_over = each.is_over  # first: then all of it is there
                each.hand_over()
                if is_over:
                    self._counting.pop(each, None)
            self._most_counting = 2 * len(self._counting) + _FEW
        finally:
            self._is_adding = False

    def _add_news(self) -> None:
        """With the lock held: a look in between, on the same thread, adds what is left."""
        news = self._news
        for _ in range(len(news)):
            try:
                row, number, total_s, slow = news.popleft()
            except IndexError:  # a look in between has added it
                return
            row[0] += number - len(slow)  # in one step: a count never goes down, also for a finalizer that looks here
            row[-1] += total_s
            for seconds in slow:
                row[bisect_left(BOUNDS, seconds)] += 1

    def times(self) -> dict[str, list[float]]:
        """Return a copy of the rows."""
        return self._lock.look(self._times)

    def _times(self) -> dict[str, list[float]]:
        self._add_news()
        self._add_counts()
        return {label: row.copy() for label, row in self.rows.copy().items()}


def waited_s(inbox: Inbox, now: float) -> float:
    """Return how long the oldest message has waited at least: 0 where none does, or this look is the first to see it.

    Args:
        inbox: of a worker, or of a pool for what waits for any of its members.
        now: by the clock of its tree.
    """
    if not inbox.depth:
        inbox.marks = ()
        return 0.0
    return without_waits(partial(_waited_s, inbox, now))


def _waited_s(inbox: Inbox, now: float) -> float:
    with inbox.lock:
        rest = inbox.rest
        came = inbox.taken + len(inbox.queue)
        oldest = inbox.taken - rest + 1
        if oldest > came:
            return 0.0
        marks = [(at, number) for at, number in inbox.marks if number >= oldest]
        if not marks or marks[-1][1] < came:
            marks.append((now, came))
        if len(marks) > MOST_MARKS:
            del marks[1::2]  # a message between two of them counts from the later one
        inbox.marks = tuple(marks)
        since = inbox.handling_since if rest else None
    return max(0.0, now - marks[0][0], 0.0 if since is None else now - since)
