"""Changes of a store that are not written yet, in lanes: a large value holds up nothing but its own lane.

A lane is the task of a user with all that are parts of it (``JournalIndex.lane``). What depends on what decides what
may overtake what:

====================================  ==============================================================================
two changes                           order in which they are written
====================================  ==============================================================================
of one task                           that in which they were made: its journal has no gap
of a task and a part of it            the same: they are one lane. A part is withdrawn because of a record of its
                                      parent that says so; a parent goes on because of the end of a part. Were the
                                      one there without the other, the next process would wait for nobody, or do
                                      something twice. So neither depends on who of them waits for whom.
of two tasks of users                 any: no record of one follows from a record of another
of a task, then of no task            the first before the second: what a breaker has counted stands in a task's
                                      journal first, where it is looked for if the breaker lacks it
of no task, then of a task            any: a breaker that lacks its last count is told again (above)
====================================  ==============================================================================

Nothing is ever lost by that: an effect waits for its own lane (``flush``), and a flush of everything for all of them.

::

    put -> queue -> taken -> written                         gone, and told to who waits for it
                          -> put off: its value is large,    behind, until the pieces of that are written (``release``),
                             or its lane waits for one       then in the queue again, in its old place

Locking: none of its own. Each call is one act of ``Writer._turns``, so none meets a half-done other; it calls nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from operator import attrgetter

from actors.messaging.reply import Reply
from trees.store.batches import Change, ChangeKind, Wait

_NO_TASK = ""
"""Lane of what belongs to no task."""


class Lanes:
    """Changes that one store has yet to write."""

    def __init__(self) -> None:
        self._queue: deque[Change] = deque()
        """Changes that could be written, the oldest first."""
        self._behind: dict[str, deque[Change]] = {}
        """Changes that are put off, by lane; the first one of a task's lane is the one whose value is large."""
        self._newest: dict[str, Change] = {}
        """Last change of each lane that is not kept, or whose waits are yet to be ended."""
        self._number = 0
        """How many there were so far."""
        self._whole: tuple[int, Wait] | None = None
        """The last wait for all of them, and how many there were then."""
        self.taken = 0
        """How many of the queue are being written, or may be written already."""
        self.at_work: Change | None = None
        """Change whose large value is being written."""
        self._written: deque[Change] = deque()
        """Changes that are written, and whose waits are yet to be ended."""

    def __len__(self) -> int:
        """How many are not written."""
        return len(self._queue) + sum(map(len, self._behind.values()))

    @property
    def is_ready(self) -> bool:
        """True if there is something that could be written."""
        return bool(self._queue)

    def put(self, change: Change) -> None:
        """Add one at the end."""
        self._number += 1
        change.place = self._number
        self._queue.append(change)
        self._newest[change.lane] = change

    def take(self, most: int, *, again: bool) -> list[Change]:
        """The next ones to be written; ``again``: those that were taken before, where there are any."""
        if not (self.taken and again):
            self.taken = min(len(self._queue), most)
            for change in islice(self._queue, self.taken, None):
                if not change.follows:
                    break
                self.taken += 1
        return list(islice(self._queue, self.taken))

    def none_is_taken(self) -> None:
        """Note that of those that were taken nothing is written."""
        self.taken = 0

    def held(self) -> dict[str, int]:
        """The lanes of tasks that wait for a large value, each with the place of the first change there."""
        return {lane: changes[0].place for lane, changes in self._behind.items() if lane != _NO_TASK}

    def remove(self, size: int, put_off: Sequence[Change]) -> None:
        """Take the first ``size`` away: they are written, but for those that are put off."""
        others = deque(put_off)
        for _ in range(size):
            change = self._queue.popleft()
            if others and change is others[0]:
                others.popleft()
                self._behind.setdefault(change.lane, deque()).append(change)
            elif change.waits:
                self._written.append(change)
            elif self._newest.get(change.lane) is change:
                del self._newest[change.lane]
        self.taken = max(0, self.taken - size)

    def withdraw(self, streams: Collection[str]) -> bool:
        """Take back streams that were created; False, and none is, where one is being written, or may be."""
        behind = (change for changes in self._behind.values() for change in changes)
        found = {
            change.stream: change
            for change in chain(islice(self._queue, self.taken, None), behind)
            if change.what is ChangeKind.CREATED and change.stream in streams and change is not self.at_work
        }
        if len(found) < len(streams):
            return False
        for change in found.values():
            change.what, change.record, change.value = ChangeKind.NOTHING, None, None
        return True

    def clear(self) -> list[Reply]:
        """Forget all of them. Returns those who wait."""
        waits = {id(wait): wait for change in self._all() for wait in change.waits}
        for known in (self._queue, self._behind, self._newest, self._written):
            known.clear()
        return [wait.reply for wait in waits.values()]

    def _all(self) -> Iterator[Change]:
        yield from self._written
        yield from merge(self._queue, *self._behind.values(), key=_PLACE)

    # -- large values --------------------------------------------------------------------------------------

    def first_large(self) -> Change | None:
        """The oldest one whose value is too large for a batch."""
        held = self.held()
        return self._behind[min(held, key=held.__getitem__)][0] if held else None

    def release(self, lane: str) -> None:
        """The large value that a lane waited for is written: its changes can be, in their places.

        So can those of no task, unless they meet another lane that waits.
        """
        released = (self._behind.pop(lane), self._behind.pop(_NO_TASK, ()))
        self._queue, self.taken = deque(merge(self._queue, *released, key=_PLACE)), 0

    # -- those who wait ------------------------------------------------------------------------------------

    def flush(self, lanes: Collection[str] | None) -> Reply | None:
        """None: all of these lanes is kept, and all that waited for it were told. Else: what says when it is."""
        whole = self._whole
        if lanes is None and whole is not None and whole[0] == self._number and whole[1].left:
            return whole[1].reply
        newest = [change for lane in (self._newest if lanes is None else lanes) if (change := self._newest.get(lane))]
        if not newest:
            return None
        first = newest[0].waits
        if len(newest) == 1 and first and first[-1].left == 1:
            return first[-1].reply
        wait = Wait(len(newest))
        for change in newest:
            change.waits.append(wait)
        if lanes is None:
            self._whole = self._number, wait
        return wait.reply

    def next_told(self) -> Reply | None:
        """Return the next wait that is to be ended, because its changes are kept; None: there is none."""
        while self._written:
            change = self._written[0]
            while change.waits:
                wait = change.waits.pop(0)
                wait.left -= 1
                if not wait.left:
                    return wait.reply
            self._written.popleft()
            if self._newest.get(change.lane) is change:
                del self._newest[change.lane]
        return None


_PLACE = attrgetter("place")
