"""User code that nobody waits for: finalizers of what a worker leaves behind, and callbacks of a reply.

An object that is let go of may have a ``__del__``, and a done callback may be any function: both may raise, block for
ever, or call into the tree again. So they run neither on a supervisor's thread, nor on one that has promised to run a
supervisor, nor under a lock, and the end of an incarnation is reported before them. Where an incarnation ran they are
welcome:

=============  ========================================================================================
it ran on      its objects are let go of
=============  ========================================================================================
the pool       by jobs of their own on the pool (``Disposal``)
the loop       on the loop, between two tasks: what belongs to a loop is finalized there
a thread       on that thread, as the last it does; on the pool where it was killed while idle
=============  ========================================================================================

Who hands a list over keeps the list, but not what is in it: the disposal empties it. So the last reference is always
the disposal's, whichever thread is faster.

No lock: see ``SingleJob``. A run of the disposal leaves *before* it lets go of anything, and takes one thing at a time;
where there is more than one it first sets off another run. So an object whose finalizer blocks for ever costs one
thread, and holds up nothing else: neither what follows it nor what was gathered with it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from actors.concurrency.failed_frames import Frames
from actors.concurrency.thread_state import blocking, with_users
from actors.concurrency.wakeup import SingleJob
from actors.validation.introspection import not_awaited

if TYPE_CHECKING:
    from actors.concurrency.thread_state import JobRunner

GATHER_S = 0.01
"""How long things are gathered before a pool thread lets go of them: a crash is not to pay for a second thread."""


class Disposal:
    """Lets go of things where their finalizers may do what they like."""

    urgent = False

    def __init__(self, set_off: Callable[[Disposal], object], *, gather_s: float = 0.0) -> None:
        self._gather_s = gather_s
        self._left: deque[list[Any]] = deque()
        self._job = SingleJob(lambda: set_off(self))

    def put(self, things: list[Any]) -> None:
        """Take what is in the list, and let go of it soon, elsewhere."""
        self._left.append(things)
        self._job.rouse()

    def run(self) -> bool:
        """Let go of all that is there; True never: who puts more sets it off again."""
        if not self._job.enter():
            return False
        if self._gather_s:
            with blocking():
                threading.Event().wait(self._gather_s)
        self._job.leave()
        if len(self._left) > 1:
            self._job.rouse()  # this run may never come back from the first of them
        while self._left:
            try:
                things = self._left.popleft()
            except IndexError:  # another run was faster
                return False
            with_users(let_go, things)
        return False


def let_go(things: list[Any]) -> None:
    """Empty the list here and now, one by one."""
    while things:
        last = things.pop()
        if type(last) is Frames:
            last.clear()


class UserCallback:
    """A job of the pool: a function that a user has added to a reply."""

    urgent = False

    def __init__(self, call: Callable[[], object], raised: Callable[[BaseException], object]) -> None:
        self._call = call
        self._raised = raised

    def run(self) -> bool:
        """Call it."""
        try:
            not_awaited(with_users(self._call))
        except BaseException as error:
            self._raised(error)
        return False


def disposal_on(pool: JobRunner) -> Disposal:
    """One whose things are let go of by threads of the pool."""
    return Disposal(pool.submit, gather_s=GATHER_S)
