"""Facts on the messages of a worker, or of a pool, where somebody asks: how long they took, how long one waits.

Nothing here costs a sender anything, and next to nothing a worker: most messages are only counted. One that takes no
longer than ``QUICK_S`` belongs into the first bucket; only one that takes longer is looked at by itself, and that costs
little beside what it has cost. So every message is in its bucket.

How long the oldest message waits is known at least: no message has a time of its own. Whoever asks leaves a mark, how
many messages had come by then. Of a message that waits at a later look it is known by these marks which look has found
it first. It has waited since then.

Locking: with the lock of the inbox.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from actors.messaging.inbox import Inbox

BOUNDS: Final = (
    *(0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0),
)
"""Upper bounds of the buckets of handling times, in seconds."""
QUICK_S: Final = BOUNDS[0]
MOST_MARKS: Final = 32
"""Marks that are kept for one inbox."""


def add_times(inbox: Inbox, number: int, total_s: float, slow: Sequence[float]) -> None:
    """With the lock held: add messages that were handled, the ``slow`` among them each by itself."""
    row = inbox.handled
    if row is None:
        row = inbox.handled = [0.0] * (len(BOUNDS) + 2)
    row[0] += number
    if slow:
        row[0] -= len(slow)
        for seconds in slow:
            row[bisect_left(BOUNDS, seconds)] += 1
    row[-1] += total_s


def waited_s(inbox: Inbox, now: float) -> float:
    """Return how long the oldest message has waited at least: 0 where none does, or this look is the first to see it.

    Args:
        inbox: of a worker, or of a pool for what waits for any of its members.
        now: by the clock of its tree.
    """
    if not inbox.depth:
        inbox.marks = ()
        return 0.0
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
