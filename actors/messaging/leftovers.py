"""Answers to what a closed mailbox still held, given in parts, so that a supervisor receives its orders meanwhile.

A child may go down with hundreds of thousands of messages: each is a dead letter, or an ask that is to fail. Its
supervisor answers the first ``PART`` of them itself, so most often all is answered and counted when a call to the
supervisor returns. The rest is left to a job of the pool, ``PART`` at a time, each time behind those that wait.

* The job is urgent, as a supervisor is: it runs nothing of users and never blocks, and those who wait for an answer
  have it also where every thread for workers is stuck.
* Messages of one mailbox are answered in their order, also where it is closed again while some of them still wait.
  Mailboxes take turns, so a small rest does not wait for a large one.
* A tree is down only when all is answered (``finish``).

No lock: ``SingleJob`` lets one run work at a time. A rest is taken off ``_rests`` *after* the last of it was answered,
and then those who wait for the end are looked for; whoever waits is noted *before* it looks at ``_rests``. So the end
is told in both orders.
"""

from __future__ import annotations

from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Protocol

from actors.concurrency.wakeup import SingleJob
from actors.messaging.reply import Reply

if TYPE_CHECKING:
    from actors.concurrency.disposal import Disposal
    from actors.concurrency.thread_state import JobRunner
    from actors.messaging.envelope import Envelope
    from actors.messaging.inbox import Refusal
    from actors.messaging.mailbox import Mailbox

PART = 256
"""Number of messages that are answered in one go."""
PATIENCE_S = 0.005
"""How long ``finish`` leaves the work to the run that is at it before it looks again."""


class Refuse(Protocol):
    """Function that answers one message."""

    def __call__(self, path: str, box: Mailbox, envelope: Envelope, refusal: Refusal) -> None:
        """Tell the asker why, or make it a dead letter."""


class Leftovers:
    """Answers what closed mailboxes still held."""

    urgent = True

    def __init__(self, pool: JobRunner, refuse: Refuse, disposal: Disposal) -> None:
        self._refuse = refuse
        self._disposal = disposal
        self._rests: deque[_Rest] = deque()
        self._waiting: deque[Reply] = deque()
        self._numbers = count()
        self._job = SingleJob(lambda: pool.submit(self))

    def answer(self, box: Mailbox, left: list[Envelope], refusal: Refusal) -> None:
        """Refuse these: a part of them here and now, and the rest soon. Called by one thread at a time for each box."""
        if not left:
            return
        rest = _Rest(next(self._numbers), box, left, refusal)
        if any(older.box is box for older in self._rests.copy()) or not self._is_through(rest):
            self._rests.append(rest)
            self._job.rouse()

    def run(self) -> bool:
        """Answer a part; False always: the next part is another job, behind those that wait."""
        self._works()
        return False

    def when_done(self) -> Reply:
        """Completed once all that was left so far is answered."""
        done = Reply()
        self._waiting.append(done)
        self._tell_end()
        return done

    def finish(self) -> None:
        """Answer all here and now, with whoever is at it."""
        done = self.when_done()
        while not done.done:
            if not self._works():
                done.wait(PATIENCE_S)

    def _works(self) -> bool:
        """Answer a part of the next rest; False where another run is at work."""
        if not self._job.enter():
            return False
        try:
            self._answer_next()
        finally:
            self._job.leave()
            if self._rests:
                self._job.rouse()
        self._tell_end()
        return True

    def _answer_next(self) -> None:
        rests = list(self._rests.copy())
        if not rests:
            return
        box = rests[0].box
        rest = min((each for each in rests if each.box is box), key=lambda each: each.number)
        self._rests.rotate(-1)  # first: an error in an answer costs no other mailbox its turn
        if self._is_through(rest):
            self._rests.remove(rest)

    def _is_through(self, rest: _Rest) -> bool:
        """Answer a part of this; True where that was the last one."""
        for envelope in rest.left[rest.answered : rest.answered + PART]:
            rest.answered += 1  # first: an error in the answer must not make this the answer of the next part, too
            self._refuse(rest.box.path, rest.box, envelope, rest.refusal)
        if rest.answered < len(rest.left):
            return False
        self._disposal.put(rest.left)  # this is no thread of a worker, and a message may have a finalizer
        return True

    def _tell_end(self) -> None:
        while self._waiting and not self._rests:
            try:
                done = self._waiting.popleft()
            except IndexError:  # another was faster
                return
            done.complete()


class _Rest:
    """Messages left in one mailbox."""

    __slots__ = ("answered", "box", "left", "number", "refusal")

    def __init__(self, number: int, box: Mailbox, left: list[Envelope], refusal: Refusal) -> None:
        self.number = number
        """The oldest of a mailbox comes first."""
        self.box = box
        self.left = left
        self.refusal = refusal
        self.answered = 0
        """How many of them have their answer."""
