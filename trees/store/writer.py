"""The thread that writes for a store: it takes all that waits, and writes it in one transaction.

Comes in: groups of changes (``put``) and those who wait for them (``flush``), from any thread, which never wait. Goes
out: the changes, written in their order; a ``Reply`` for each ``flush``, completed on this thread after the commit.

How it can fail, and what follows::

    StoreError       tried again, first after FIRST_S, then twice as long each time, at most LONGEST_S: StorePaused says
                     so once, StoreResumed when it could be written. Meanwhile everything waits, and nothing is lost.
    FinalStoreError  another try cannot go better, as when the file was removed: the end of this thread.
    LeaseLostError   another process writes for this root: the end of this thread.
    anything else    a bug, of ours or of a driver: the end of this thread.

The end of the thread is told to the owner (``lost``), unless the writer was closed, and all replies fail.

Where it is unknown whether a commit went through, the same changes are written once more, before all others: that has
the same effect (``trees.store.statements``), and none of them can be withdrawn until then.

Locking: ``_lock`` guards the queue; nothing is called or waited for under it. The store puts changes under its own
lock, so they are queued in the order in which they were made.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from actors.concurrency.thread_state import join_thread, never_waits
from actors.messaging.reply import Reply
from actors.model.clock import monotonic
from actors.model.events import InternalError
from actors.tasks.model import LeaseLostError, StoreError, StorePaused, StoreResumed
from trees.store.database_errors import FinalStoreError
from trees.store.session import WritingSession
from trees.store.statements import BEGIN, END, RECORD, Change, Statement, rows_of

if TYPE_CHECKING:
    from trees.store.sql import SqlStore

MOST_CHARACTERS: Final = 8 * 1024 * 1024
"""Of one transaction, but for the last group in it."""
A_CHANGE: Final = 1024
"""Characters that a change without a body counts for."""
POLL_S: Final = 0.5
"""How often it looks for commands, for what is too old, and for what was put without a flush."""
CLOSE_S: Final = 30.0
"""How long the end of a store waits for a database that hangs."""
FIRST_S: Final = 0.05
LONGEST_S: Final = 2.0


class Writer:
    """The writer of one store."""

    def __init__(self, session: WritingSession, root: str, name: str, owner: SqlStore) -> None:
        self._session, self._root, self._name, self._owner = session, root, name, owner
        self._lock = threading.RLock()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rung = False
        self._queue: list[Sequence[Change]] = []
        """Groups of changes that are not kept yet: each is written in one transaction."""
        self._taken = 0
        """Groups at the head of it that are being written, or may be written."""
        self._kept = 0
        """How many groups are kept so far."""
        self._replies: deque[tuple[int, Reply]] = deque()
        """Those who wait, each with how many groups must be kept."""
        self._telling = False
        """True where those who waited for what is kept are just being told."""
        self._refusal: StoreError | None = None
        """Why nothing is taken any more."""
        self._closing = threading.Event()
        self._paused_at: float | None = None
        self._delay_s = 0.0
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
        """Have these written soon, in one transaction."""
        with self._lock:
            if self._refusal is None:
                self._queue.append(changes)

    def flush(self) -> Reply | None:
        """None: all is kept, and whoever waited for it has heard. Else: what says when it is."""
        with self._lock:
            refusal, reply = self._refusal, Reply()
            if refusal is None:
                if not self._queue and not self._replies and not self._telling:
                    return None
                self._replies.append((self._kept + len(self._queue), reply))
        if refusal is None:
            self.wake()
        else:
            reply.fail(refusal)
        return reply

    def wake(self) -> None:
        """Have it look at once."""
        if not self._rung:
            self._rung = True
            self._bell.put(None)

    def withdraw(self, streams: set[str]) -> bool:
        """Take back a group that begins these streams and does nothing else; False where it may be written."""
        with self._lock:
            for at in range(self._taken, len(self._queue)):
                if {change.stream for change in self._queue[at]} == streams:
                    self._queue[at] = ()
                    return True
        return False

    def close(self, within_s: float = CLOSE_S) -> None:
        """Write what is there, if that can be done at once, and end.

        Waits for it, but not on its own thread. Where the database hangs for longer than ``within_s`` seconds the
        thread is left to itself.
        """
        self._closing.set()
        self._bell.put(None)
        join_thread(self._thread, within_s)

    # -- the thread ----------------------------------------------------------------------------------------

    def _main(self) -> None:
        never_waits()
        is_lost = True
        try:
            self._serve()
        except (LeaseLostError, FinalStoreError) as lost:
            error: StoreError = lost
        except BaseException as caught:  # noqa: BLE001 - a bug must not leave anybody waiting for ever
            error = StoreError(self._name, f"its writer has died ({type(caught).__name__}). See InternalError")
            error.__cause__ = caught
            self._owner.publish(InternalError(self._root, caught))
        else:
            what = "is closed. Start the tree again to go on with what is unfinished"
            error, is_lost = StoreError(self._name, what), False
        with self._lock:
            self._refusal = error
            replies = [reply for _, reply in self._replies]
            self._replies.clear()
        for reply in replies:
            self._guarded(partial(reply.fail, error))
        if is_lost:
            self._guarded(lambda: self._owner.lost(error))
        self._session.close()

    def _serve(self) -> None:
        """Until it is closed."""
        while True:
            if not self._rung and not self._closing.is_set():
                with suppress(Empty):
                    self._bell.get(timeout=POLL_S)
            self._rung = False
            was_closing = self._closing.is_set()
            try:
                self._rung = self._write() or self._rung
                if not was_closing:
                    self._owner.spare_time()
            except (LeaseLostError, FinalStoreError):
                raise
            except StoreError as error:
                if was_closing:
                    return
                self._pause(error)
            else:
                self._resumed()
            if was_closing and not self._rung:
                return

    def _write(self) -> bool:
        """Write what waits, and tell those who wait for it; True where there is more."""
        with self._lock:
            self._taken = max(self._taken, self._fitting())
            groups, is_cut = self._queue[: self._taken], self._taken < len(self._queue)
        changes = [change for group in groups for change in group]
        if changes:
            began = monotonic()
            try:
                self._session.write(rows_of(changes))
            except BaseException:
                with self._lock:
                    self._taken = self._taken if self._session.in_doubt else 0
                raise
            self._owner.committed(monotonic() - began)
            self._resumed()
        with self._lock:
            del self._queue[: len(groups)]
            self._kept += len(groups)
            self._telling, self._taken = True, 0
        for change in changes:
            if change.then is not None:
                change.then()
        while self._replies and self._replies[0][0] <= self._kept:
            self._guarded(self._replies.popleft()[1].complete)
        with self._lock:
            self._telling = False
            return is_cut or bool(self._replies)

    def _fitting(self) -> int:
        """How many groups go into one transaction.

        In it the begin and the end of a stream do not meet, and a stream that is deleted is not touched otherwise.
        """
        characters = 0
        seen: defaultdict[str, set[Statement | None]] = defaultdict(set)
        for at, group in enumerate(self._queue):
            if characters >= MOST_CHARACTERS:
                return at
            for change in group:
                before, statement = seen[change.stream], change.statement
                if None in before or (statement is None and before) or (statement is END and before & {BEGIN, END}):
                    return at
                before.add(statement)
                characters += A_CHANGE + (len(change.row[4]) if statement is RECORD else 0)
        return len(self._queue)

    def _guarded(self, tell: Callable[[], object]) -> None:
        try:
            tell()
        except BaseException as error:  # noqa: BLE001 - what somebody does when it is kept is no matter of ours
            self._owner.publish(InternalError(self._root, error))

    # -- when it cannot write ------------------------------------------------------------------------------

    def _pause(self, error: StoreError) -> None:
        self._delay_s = min(max(FIRST_S, 2 * self._delay_s), LONGEST_S)
        if self._paused_at is None:
            self._paused_at = monotonic()
            self._owner.publish(StorePaused(self._root, error))
        self._closing.wait(self._delay_s)
        self._rung = True

    def _resumed(self) -> None:
        paused_at, self._paused_at, self._delay_s = self._paused_at, None, 0.0
        if paused_at is not None:
            self._owner.publish(StoreResumed(self._root, monotonic() - paused_at))
