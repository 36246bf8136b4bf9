"""One reading of the events of a task: what was read of them, and is yet to be handed out.

Each ``__next__`` and each ``__anext__`` is a *turn*, and goes through the same steps::

    has_some   look whether there is something to hand out; if so, no wait
    signal     else what completes when there is, which a thread or a task waits for; then look again
    fetching   the first one may lack a large value: what fetches that from the store
    first      the first one, whole; or the error that there was; or the end
    del        it is handed out: one step, and no signal is looked at between that and the ``return`` of its call

A turn may be cut short anywhere: by a Ctrl-C, a cancelled task, an error of the store. What was read ahead is still
here, and the next turn begins with it. So a turn on a thread and one on an event loop may follow one another.

One turn at a time: whoever comes in the middle of another one is refused. There is no lock to wait for, because who
comes may be a signal handler or a finalizer on the same thread. A ``Turn`` draws a ticket, which is put behind those of
the others in one step of C: who has the first one may read. The ticket is a weak reference to its turn, and that is a
local variable of the call: an exception at any step of it, also of its end, leaves the reading free.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING
from weakref import ReferenceType, ref

from actors.model.errors import ActorsError
from trees.host.journal_follower import JournalFollower

if TYPE_CHECKING:
    import asyncio

    from actors.messaging.reply import Reply
    from actors.tasks.model.task_events import TaskEvent


class Turn:
    """One call of ``__next__`` or ``__anext__``. It ends when nobody holds it any more, or its loop was closed."""

    __slots__ = ("__weakref__", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.loop = loop


class EventReading:
    """Events that a follower has found, and whose turn it is to take them."""

    __slots__ = ("__weakref__", "_error", "_follower", "_is_closed", "_signal", "_tickets", "ready")

    def __init__(self, follower: JournalFollower) -> None:
        self._follower = follower
        self.ready: deque[TaskEvent] = deque()
        """Events to be handed out, in order."""
        self._error: ActorsError | None = None
        """Raised after what there was before it."""
        self._signal: Reply | None = None
        """Completed when there is something to look at; None: look now."""
        self._is_closed = False
        self._tickets: dict[ReferenceType[Turn], None] = {}
        """In the order in which they were drawn."""

    def begin(self, turn: Turn) -> None:
        """Begin a turn.

        Raises:
            RuntimeError: it is another one's.
        """
        ticket = ref(turn)
        self._tickets[ticket] = None
        for each in list(self._tickets):
            if each is ticket:
                return
            if not _is_over(each):
                break
            self._tickets.pop(each, None)
        self._tickets.pop(ticket, None)
        what = f"the events of task {self._follower.task!r}: another thread, or another event loop, waits for the next"
        raise RuntimeError(f"{what} one here. Give each reader an iterator of its own, such as iter(handle.events())")

    def has_some(self) -> bool:
        """True where ``first`` has something: an event, an error or the end.

        Raises:
            ActorsError: nothing can come before the worker that waits for it has ended.
        """
        if not self._has_more():
            if self._signal is not None:
                if not self._signal.done:
                    return False
                signal, self._signal = self._signal, None
                signal.outcome()
            self._look()
        return self._has_more()

    def _has_more(self) -> bool:
        return bool(self.ready) or self._error is not None or self._follower.over

    def _look(self) -> None:
        try:
            for event in self._follower.news():
                self.ready.append(event)
        except ActorsError as error:
            self._error = error

    def signal(self) -> Reply:
        """Return what completes when it is worth to look again."""
        if self._signal is None:
            self._signal = self._follower.expected()
        return self._signal

    def fetching(self) -> Reply | None:
        """Return what fetches the large value of the event that is next; None: it is whole, or there is none."""
        return self._follower.fetched(self.ready[0]) if self.ready else None

    def first(self, fetched: Reply | None) -> TaskEvent | None:
        """Return the next event, which whoever hands it out takes off ``ready``; None: it is over.

        Args:
            fetched: the large value of the event. On an event loop it must be done.

        Raises:
            ActorsError: the tree has failed, or what is next cannot be read. It can be tried again.
        """
        if self.ready and not self._is_closed:
            whole = self.ready[0] if fetched is None else self._follower.whole(self.ready[0], fetched)
            if whole is not None:
                return whole
        elif self._error is not None and not self._is_closed:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # it would hold this frame, which holds it
        self.ready.clear()
        self._follower.stop()
        return None

    def close(self) -> None:
        """Hand out nothing more; whoever waits for the next one hears that it is over. On any thread."""
        self._is_closed = True
        self._follower.over = True
        self._follower.stop()
        self._follower.wake()  # a look that begins now finds that it is over; one that is waited for ends


def _is_over(ticket: ReferenceType[Turn]) -> bool:
    """True where a turn has ended, or can never go on. A call of its own: whoever keeps an error keeps no turn."""
    turn = ticket()
    return turn is None or (turn.loop is not None and turn.loop.is_closed())
