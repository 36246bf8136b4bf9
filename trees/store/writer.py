"""Thread that writes for a store: it takes what has gathered, and writes it in one transaction.

Comes in: ``put`` and ``flush``, from any thread, which never wait. Goes out: what was put, written in the order of
``trees.store.lanes``; a ``Reply`` for each ``flush``, completed in this thread and under no lock, after the commit of
all that it waits for.

A value that is too large for a transaction is written between those of all others, one step after each
(``trees.store.large_values``): while it is under way, small tasks go on.

How it can fail, and what follows::

    StoreError       tried again, first after FIRST_S, then twice as long each time, at most LONGEST_S: StorePaused says
                     so once, StoreResumed when it could be written. Meanwhile everything waits, and nothing is lost.
    UnwritableError  something in the batch never can be written: it is cut in two, and again, until that is found. The
                     journal of that one task ends with the record before it (Owner.unwritable); all others go on.
    LeaseLostError   another process writes for this root: the end of this thread.
    anything else    a bug, of ours or of a driver: the end of this thread.

The end of the thread, however it comes, is told to the owner (``lost``), unless somebody closed the writer; and all
replies fail. So nobody is left waiting for a thread that is not there. ``_main`` is the one place where that is done.

Locking: that of ``_turns`` guards the lanes, ``_due`` and ``_refusal``. It is taken under the store's lock by whoever
puts something; nothing is called while it is held. A finalizer or a signal handler may run at any step under it, also
on the writer's own thread, and call the writer. The lanes have states that are half done, so nothing changes them then:

==========  =====================================================================================================
in between  what becomes of it
==========  =====================================================================================================
put         done next, before anybody else has the lock
flush       the same, behind what was put in between. Its ``Reply`` is made at once. Where all turns out to be kept,
            that is in ``_due``, and the thread completes it: whoever holds a lock completes nothing
withdraw    False: the stream may be one of those that are just being taken
wake        only a mark and a ``Wakeup``, no lock; ``close`` as well
==========  =====================================================================================================

``_wanted`` and ``_closing`` are set before a wake-up is given, and looked at after each. ``_wanted`` is taken back in
one turn with the take of what it was set for. On this thread nobody may wait for a reply (``never_waits``): that of a
flush would never come. A finalizer that submits or removes there hears that at once (``BlockingAskError``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from actors.concurrency.in_turn import InTurn
from actors.concurrency.thread_state import join_thread, never_waits
from actors.concurrency.wakeup import Wakeup
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.events import InternalError
from actors.tasks.model.store_events import StorePaused, StoreResumed
from actors.tasks.model.task_errors import LeaseLostError, StoreError
from trees.store.batches import Batch, Change, ChangeKind, boundary
from trees.store.database_errors import UnwritableError
from trees.store.fenced_connection import FencedConnection
from trees.store.lanes import Lanes
from trees.store.large_values import LargeValue

if TYPE_CHECKING:
    from trees.store.sql import SqlStore

MOST_CHANGES: Final = 5_000
"""In one transaction."""
POLL_S: Final = 0.5
"""How often it looks for commands, for what is too old, and for what was put without a flush."""
CLOSE_S: Final = 30.0
"""How long the end of a store waits for a database that hangs."""
FIRST_S: Final = 0.05
LONGEST_S: Final = 2.0


_LATER: Final = Reply()
"""Stands for the reply of a flush that came in between."""


def _pass_on(reply: Reply, later: Reply) -> None:
    """Complete one as another was."""
    try:
        reply.outcome()
    except BaseException as error:  # noqa: BLE001 - whoever waits for it hears it
        later.fail(error)
    else:
        later.complete()


class Writer:
    """The writer of one store."""

    def __init__(self, session: FencedConnection, root: str, name: str, owner: SqlStore) -> None:
        """Make it; ``owner`` is told of what it has done, in its thread and under no lock."""
        self._session = session
        self._root = root
        self._name = name
        self._owner = owner
        self._turns = InTurn()
        self._wakeup = Wakeup()
        self._lanes = Lanes()
        """Changes that are not kept yet."""
        self._due: list[Callable[[], object]] = []
        """Completes what flushes that came in between have returned, where there is nothing to wait for."""
        self._large: LargeValue | None = None
        """Large value that is being written. Only the thread touches it."""
        self._wanted = False
        """True where a caller waits, and the thread has not looked since."""
        self._closing = False
        self._broken: set[str] = set()
        """Streams that take no more records."""
        self._refusal: StoreError | None = None
        """Why nothing is taken any more."""
        self._paused_at: float | None = None
        self._failed_writing = False
        self._delay_s = 0.0
        """How long it waited before the last try; 0: all is well."""
        self._writing = True
        """True where a write has failed; else it was work in spare time, which must not hold up a write."""
        self._thread = threading.Thread(target=self._main, name=f"{root}-store", daemon=True)

    # -- for everybody -------------------------------------------------------------------------------------

    @property
    def paused_s(self) -> float | None:
        """Seconds for which nothing could be written so far; None: it writes."""
        since = self._paused_at
        return None if since is None else monotonic() - since

    def start(self) -> None:
        """Begin.

        Raises:
            RuntimeError: the machine gives no more threads.
        """
        self._thread.start()

    def put(self, *changes: Change) -> None:
        """Have something written, soon."""
        self._turns.do(partial(self._put, changes))

    def _put(self, changes: Sequence[Change]) -> None:
        for change in changes if self._refusal is None else ():
            self._lanes.put(change)

    def flush(self, lanes: Collection[str] | None = None) -> Reply | None:
        """None: all (of these lanes) is kept, and whoever waited for it has heard. Else: what says when it is."""
        reply = self._turns.get(partial(self._flush, lanes), _LATER)
        if reply is _LATER:
            reply = self._refused() or Reply()
            if not reply.done:
                self._turns.do(partial(self._flush_later, lanes, reply))
        if reply is not None and self._wanted:
            self._wakeup.give()  # after the lock, which the thread takes first when it wakes
        return reply

    def _flush(self, lanes: Collection[str] | None) -> Reply | None:
        reply = self._refused() or self._lanes.flush(lanes)
        if reply is not None:
            self._wanted = True
        return reply

    def _flush_later(self, lanes: Collection[str] | None, later: Reply) -> None:
        reply = self._flush(lanes)
        self._rouse()  # whoever called has gone on
        if reply is None:
            self._due.append(later.complete)
        elif reply.done:
            self._due.append(partial(_pass_on, reply, later))
        else:
            reply.when_done(partial(_pass_on, reply, later))

    def _refused(self) -> Reply | None:
        if self._refusal is None:
            return None
        reply = Reply()
        reply.fail(self._refusal)
        return reply

    def _rouse(self) -> None:
        self._wanted = True
        self._wakeup.give()

    def wake(self) -> None:
        """Have it do what it does in spare time, soon."""
        self._rouse()

    def withdraw(self, *streams: str) -> bool:
        """Take back streams that were created; False, and none is, where one is being written, or may be."""
        return self._turns.get(lambda: self._lanes.withdraw(set(streams)), between=False)

    def close(self, within_s: float = CLOSE_S) -> None:
        """Write what is there, if that can be done at once, and end. Waits for it, but not in its own thread.

        Where the database hangs for longer than ``within_s`` seconds the thread is left to itself.
        """
        self._closing = True
        self._wakeup.give()
        join_thread(self._thread, within_s)

    # -- the thread ----------------------------------------------------------------------------------------

    def _main(self) -> None:
        never_waits()
        error, is_lost = StoreError(self._name, "has no writer any more"), True
        with ExitStack() as ending:  # whatever one of these raises, the others are done
            ending.callback(self._session.close)
            ending.callback(lambda: self._finish(lambda: self._owner.lost(error)) if is_lost else None)
            ending.callback(lambda: self._end(error))
            try:
                self._serve()
            except LeaseLostError as lost:
                error = lost
            except BaseException as caught:  # noqa: BLE001 - a bug must not leave anybody waiting for ever
                error = StoreError(self._name, f"its writer has died ({type(caught).__name__}). See InternalError")
                error.__cause__ = caught
                self._owner.publish(InternalError(self._root, caught))
            else:
                what = "is closed. Start the tree again to go on with what is unfinished"
                error, is_lost = StoreError(self._name, what), False

    def _serve(self) -> None:
        """Until it is closed."""
        while self._wait():
            try:
                self._work()
                self._resumed()
            except LeaseLostError:
                raise
            except StoreError as error:
                if not self._pause(error):
                    return

    def _wait(self) -> bool:
        """Wait for something to do; False: there is nothing more, and there will be nothing."""
        end = monotonic() + POLL_S
        while not self._wanted:
            left_s = (end if self._large is None else self._large.next_at) - monotonic()
            if left_s <= 0 or (self._closing and self._large is None):
                break
            self._wakeup.sleep(left_s)
        return not self._closing or bool(self._lanes)

    def _work(self) -> None:
        """Write what has gathered, and tell those who wait for it."""
        changes = self._turns.get(self._take, ())
        self._tell_due()
        self._writing = True
        if changes:
            self._write(changes)
            if self._large is not None:
                self._large.give_way()
        self._go_on()
        self._writing = False
        self._owner.spare_time(idle=not changes and self._large is None)

    def _take(self) -> list[Change]:
        self._wanted = False
        return self._lanes.take(MOST_CHANGES, again=self._session.in_doubt)

    def _write(self, changes: Sequence[Change]) -> None:
        batch = Batch(self._root, self._broken, self._turns.get(self._lanes.held, {}))
        batch.fill(changes)
        try:
            if not batch.is_empty:
                began = monotonic()
                self._session.write(batch)
                self._owner.committed(monotonic() - began)
        except UnwritableError as error:
            together = changes[: batch.size]
            middle = boundary(together)
            if middle:
                self._write(together[:middle])
                self._write(together[middle:])
                return
            batch = Batch(self._root, self._broken)
            batch.size, batch.refused = len(together), [(change, error) for change in together]
        except StoreError:
            if not self._session.in_doubt:
                self._turns.look(self._lanes.none_is_taken)
            raise
        if batch.removed is not None:
            self._broken.discard(batch.removed)  # whatever is put under this name from now on is another one
        self._session.reserved.difference_update(batch.digests)
        for change, why in batch.refused:
            self._refuse(change, why)
        self._is_written(batch)

    def _refuse(self, change: Change, why: Exception) -> None:
        """Give up a change whose record can never be written."""
        self._broken.add(change.stream)
        change.record = None
        self._owner.unwritable(change, why)

    def _is_written(self, batch: Batch) -> None:
        self._turns.do(partial(self._remove, batch))
        self._owner.kept(batch)
        if self._failed_writing:
            self._resumed()
        self._tell()

    def _remove(self, batch: Batch) -> None:
        self._lanes.remove(batch.size, batch.put_off)
        if self._lanes.is_ready:
            self._wanted = True

    def _tell(self) -> None:
        """Complete the replies whose time has come."""
        while (reply := self._turns.get(self._lanes.next_told, None)) is not None:
            self._finish(reply.complete)

    def _tell_due(self) -> None:
        while self._due:  # only this thread takes from it
            self._finish(self._due.pop(0))

    def _finish(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except BaseException as error:  # noqa: BLE001 - what somebody does when it is kept is no matter of ours
            self._owner.publish(InternalError(self._root, error))

    # -- large values --------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Make the next step of the large value whose turn it is, if it is time for that."""
        if self._large is None:
            change = self._turns.get(self._choose, None)
            self._large = LargeValue(change) if change is not None else None
        large = self._large
        if large is None or monotonic() < large.next_at:
            return
        if not large.is_made:
            try:
                large.make()
            except StoreError:
                raise
            except Exception as error:  # noqa: BLE001 - it is the end of this journal, and of nothing else
                self._give_up(large.change, error)
            else:
                return
        try:
            if large.write(self._session):
                return
        except UnwritableError as error:
            self._give_up(large.change, error)
        self._large = None
        self._turns.do(partial(self._release, large.change))

    def _choose(self) -> Change | None:
        self._lanes.at_work = change = self._lanes.first_large()
        return change

    def _release(self, change: Change) -> None:
        self._lanes.at_work = None
        self._lanes.release(change.lane)
        self._wanted = True

    def _give_up(self, change: Change, error: Exception) -> None:
        self._refuse(change, error)
        change.what, change.value, change.text = ChangeKind.NOTHING, None, None

    # -- when it cannot write ------------------------------------------------------------------------------

    def _pause(self, error: StoreError) -> bool:
        """Wait for a while; False: there is no more time for that."""
        self._delay_s = min(max(FIRST_S, 2 * self._delay_s), LONGEST_S)
        if self._paused_at is None:
            self._paused_at, self._failed_writing = monotonic(), self._writing
            self._owner.publish(StorePaused(self._root, error))
        end = monotonic() + self._delay_s
        was_closing = self._closing
        while not self._closing and (self._writing or not self._wanted) and (left := end - monotonic()) > 0:
            self._wakeup.sleep(left)
        self._wanted = True
        return not was_closing

    def _resumed(self) -> None:
        paused_at, self._paused_at, self._delay_s = self._paused_at, None, 0.0
        if paused_at is not None:
            self._owner.publish(StoreResumed(self._root, monotonic() - paused_at))

    def _end(self, error: StoreError) -> None:
        """Nothing more is written: whoever waits hears it."""
        for reply in self._turns.get(partial(self._refuse_all, error), ()):
            self._finish(partial(reply.fail, error))
        self._tell_due()

    def _refuse_all(self, error: StoreError) -> list[Reply]:
        self._refusal = error
        return self._lanes.clear()
