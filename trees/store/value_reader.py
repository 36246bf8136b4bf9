"""Thread that reads large values back for those who must not wait: they were kept, and are not at hand any more.

Comes in: ``fetch``, from any thread, which never waits for the database. Goes out: a ``Reply``, completed in this
thread with whole records. The thread is there as long as there is something to read, and a moment longer.

How a read can fail, and what follows::

    DamagedJournalError   the reply fails: these records can never be read
    any other StoreError  the database is away, locked, or there is no memory: tried again, first after FIRST_S, then
                          twice as long each time, at most LONGEST_S; once the store is closed, the reply fails
    anything else         a bug, of ours or of a driver: the reply fails, the next one is read

After ``close`` each read is made by who asks for it, once: a database can be read when nobody writes there any more.

Locking: ``_changed`` (a condition with its own lock) guards the queue and the state of this reader. Nothing is called
while it is held but ``threading``'s own. A finalizer or a signal handler may run at any step under it, and ask for
something: the lock is re-entrant, and whoever ends the thread looks at the queue once more when that is noted. On the
thread itself nobody may wait for what only it reads (``never_waits``).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from actors.concurrency.thread_state import join_thread, never_waits, start_thread
from actors.messaging.reply import Reply
from actors.model.events import Event
from actors.tasks.model.task_errors import DamagedJournalError, StoreError

IDLE_S: Final = 1.0
"""How long the thread stays when there is nothing to read."""
FIRST_S: Final = 0.05
LONGEST_S: Final = 2.0


class _Request(NamedTuple):
    stream: str
    numbers: Collection[int]
    reply: Reply


class ValueReader:
    """Reader of one store."""

    def __init__(self, root: str, read: Callable[[str, Collection[int]], dict[int, Event]]) -> None:
        self._name = f"{root}-store-reads"
        self._read = read
        """Records of a stream by their numbers; waits for the database. Raises ``StoreError``."""
        self._changed = threading.Condition()
        self._queue: deque[_Request] = deque()
        self._thread: threading.Thread | None = None
        """Thread that reads, or is about to; None: the next request starts one."""
        self._is_closed = False

    def fetch(self, stream: str, numbers: Collection[int]) -> Reply:
        """Have records read."""
        request, thread = _Request(stream, numbers, Reply()), None
        with self._changed:
            is_closed = self._is_closed
            if not is_closed:
                self._queue.append(request)
                self._changed.notify()
                if self._thread is None:
                    thread = self._thread = threading.Thread(target=self._main, name=self._name, daemon=True)
        if is_closed:
            self._answer(request)
        elif thread is not None:
            self._start(thread)
        return request.reply

    def _start(self, thread: threading.Thread) -> None:
        try:
            start_thread(thread)
        except RuntimeError as error:
            with self._changed:
                self._thread = None
                left, self._queue = list(self._queue), deque()
            for request in left:
                request.reply.fail(StoreError(self._name, f"no thread could be started ({error})"))

    def close(self, within_s: float) -> None:
        """Read what is asked for by now, if that can be done at once, and end; waits ``within_s`` seconds at most."""
        with self._changed:
            self._is_closed, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            join_thread(thread, within_s)

    # -- the thread ----------------------------------------------------------------------------------------

    def _main(self) -> None:
        never_waits()
        while self._serve():
            continue

    def _serve(self) -> bool:
        """Answer the next request, and hold nothing of it while there is none; False where the thread is to end."""
        request, delay_s = self._next(), FIRST_S
        while request is not None and not self._answer(request, again=self._may_wait):
            self._pause(delay_s)
            delay_s = min(2 * delay_s, LONGEST_S)
        return request is not None

    def _next(self) -> _Request | None:
        """Take the next request; None: there is none, and the thread ends."""
        with self._changed:
            if not self._queue and not self._is_closed:
                self._changed.wait(IDLE_S)
            here, self._thread = self._thread, None
            if not self._queue:
                return None
            self._thread = here
            return self._queue.popleft()

    def _may_wait(self) -> bool:
        with self._changed:
            return not self._is_closed

    def _pause(self, delay_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed, delay_s)

    def _answer(self, request: _Request, again: Callable[[], bool] = lambda: False) -> bool:
        """Read for one; False: it is to be tried once more."""
        try:
            found = self._read(request.stream, request.numbers)
        except DamagedJournalError as error:
            request.reply.fail(error)
        except StoreError as error:
            if again():
                return False
            request.reply.fail(error)
        except Exception as caught:  # noqa: BLE001 - a bug must not leave anybody waiting for ever
            failed = StoreError(self._name, f"could not read ({type(caught).__name__})")
            failed.__cause__ = caught
            request.reply.fail(failed)
        else:
            request.reply.complete(found)
        return True
