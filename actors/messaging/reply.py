"""The future of an ask: completed once, by whoever is first; waited for by threads and by event loops alike.

It is a ``pykka.Future``, so ``get``, ``map``, ``filter``, ``join``, ``reduce`` and ``pykka.get_all`` work on it.
It differs where Pykka's is hazardous: completing it a second time changes nothing and raises nothing (a worker's
late reply meets an ask that was already answered); a ``get`` with a timeout never waits longer because another
thread waits too; ``await`` leaves the event loop free.

**Every wait of this library that may block a thread is a wait for a Reply**, and ends up in ``_hold``. So one place
refuses to hold up the event loop of a tree (``require_thread``), whatever was to be waited for. A host's own event loop
is the host's: it may block it.

No lock is held that a finalizer or a signal handler could find: it may complete a reply, or wait for one, in the middle
of this. Each step is one operation of C on the reply's own fields, or is the first store in one (``first_of``). Whoever
takes the one ``_turn`` brings the outcome; it sets ``_value`` last, and *then* looks for a gate and for callbacks.
Whoever waits puts a gate or a callback there and *then* looks for an outcome. So one of them finds the other, in both
orders; a callback is taken off the list by whoever calls it, so it is called once.

A user's callback (``add_done_callback``) never runs on the thread that brings the outcome, which is the target's, or a
supervisor's: it runs on the tree's pool, and what it raises is an event. The library's own (``when_done``) run at once
on that thread. They are short, take no lock of a mailbox and raise nothing.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from types import coroutine
from typing import TYPE_CHECKING, Any, Self

import pykka

from actors.concurrency.arrival import Arrival
from actors.concurrency.disposal import UserCallback
from actors.concurrency.failed_frames import border
from actors.concurrency.shared_fields import first_of
from actors.concurrency.thread_state import HERE, in_background
from actors.concurrency.wakeup import pass_gate
from actors.messaging.blocking import A_REPLY, require_thread
from actors.messaging.envelope import own_error
from actors.messaging.message_errors import ReplyTimeoutError
from actors.messaging.wait_graph import NOBODY, Awaited, enter, leave, look_again
from actors.model.clock import monotonic
from actors.model.raised import frames_of, with_frames
from actors.validation.validation_messages import require_callback, require_seconds

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import TypeVar

    R = TypeVar("R", default=Any)

    from actors.messaging.envelope import Address, CurrentMessage
    from actors.messaging.ports import Host
else:
    from typing import TypeVar

    R = TypeVar("R")  # in Python 3.11 none has a default

_PENDING = object()
_LONGEST_S = threading.TIMEOUT_MAX


class Reply(Awaited, pykka.Future[R]):
    """One answer, sooner or later: a value (``Reply[int]``: of that type), or an error."""

    # Slots: threads share it (see actors.concurrency.shared_fields). pykka.Future has none.
    __slots__ = ("_asker", "_callbacks", "_error", "_expires", "_gate", "_get_hook", "_get_hook_result", "_host",
                 "_timeout_s", "_traceback", "_turn", "_value", "is_abandoned", "is_of_batch", "is_tell")  # fmt: skip

    is_of_end = False  # True where it says that its target has ended: one that is down has nothing left to do
    outlives_target = False  # True where it tells what its target has left: at that end it fails for workers only

    def __init__(self, target: Address | None = None, asker: str | None = None, timeout_s: float | None = None) -> None:
        # pykka.Future.__init__ is not called: it only sets the two fields of a hook.
        self._turn = [None]
        """Taken by whoever is first to bring an outcome."""
        self._value: Any = _PENDING
        self._get_hook_result: Any = _PENDING
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._gate: threading.Lock | None = None
        self._callbacks: list[Callable[[], object]] | None = None
        self._get_hook = None
        self.target = target
        self._asker = asker
        self._timeout_s = timeout_s
        self._expires = None if timeout_s is None else monotonic() + timeout_s
        self._host: Host | None = None
        """The tree that runs callbacks of users and hears what they raise; None: nobody outside the library has it."""
        self.waiters = NOBODY
        self.handled_by = None
        self.is_abandoned = False
        """True once its only asker has gone: the message need not be handled any more."""
        self.is_tell = False
        """True where nobody has asked: it only tells, elsewhere, that the message was handled."""
        self.is_of_batch = False
        """True for an item of a batch: a crash that it causes says nothing of its worker: it counts in no window."""

    def __repr__(self) -> str:
        state = "pending" if self._value is _PENDING else "failed" if self._error is not None else "done"
        return f"<Reply {state}>"

    # -- completing ----------------------------------------------------------------------------------------

    def hosted(self, host: Host) -> Self:
        """Prepare it to be handed out: whoever gets it may add callbacks, and those run in this tree."""
        self._host = host
        return self

    def note_error(self, error: BaseException) -> None:
        """Take note of what has left the handler, while its request is under way: it will be failed, for that."""

    def fail(self, error: BaseException) -> bool:
        """Answer with an error; False when it was answered already."""
        return self.complete(error=error)

    def set(self, value: Any = None) -> None:
        """Pykka's name for ``complete``; a second call changes nothing."""
        self.complete(value)

    def set_exception(self, exc_info: Any = None) -> None:
        """Pykka's name for ``fail``: takes an ``exc_info`` triple, or the exception being handled."""
        _, error, _ = exc_info if exc_info is not None else sys.exc_info()
        self.fail(error if error is not None else Exception("set_exception without an exception"))

    def complete(self, value: Any = None, *, error: BaseException | None = None) -> bool:
        """Answer with a value, or with an error; False when it was answered already."""
        try:
            self._turn.pop()
        except IndexError:
            return False  # another was first
        if error is not None:
            self._error = error
            self._traceback = frames_of(error)
        self._value = value
        gate = self._gate
        if gate is not None:
            try:
                gate.release()
            except RuntimeError:  # one whose time was up at this moment has seen the outcome, and opened it
                gate = None
        if self._callbacks:
            self._call_back()
        return True

    def _call_back(self) -> None:
        """Call whatever is on the list, because there is an outcome."""
        callbacks = self._callbacks
        while callbacks:
            try:
                callback = callbacks.pop(0)
            except IndexError:  # another thread was faster
                return
            try:
                callback()
            except BaseException as raised:  # noqa: BLE001 - whoever brings the outcome has no part in it
                self._callback_raised(raised)

    def _callback_raised(self, error: BaseException) -> None:
        host = self._host
        if host is not None:
            host.reports.callback_raised(self.target.path if self.target is not None else host.root_path, error)
        else:  # no tree to report it to: what Python does with an exception that leaves a thread
            where = threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs((type(error), error, frames_of(error), where)))

    # -- waiting -------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """True once there is an outcome; of one that was derived (``map`` ...), once somebody has asked for it."""
        return self._value is not _PENDING or self._get_hook_result is not _PENDING

    @property
    def expires(self) -> float | None:
        """When its time is up, as ``monotonic`` counts; None: never."""
        return self._expires

    @property
    def succeeded(self) -> bool:
        """True once there is a value."""
        return self.done and self._error is None

    def get(self, *, timeout: float | None = None) -> R:
        """Wait for the outcome: the value is returned, the error raised.

        Args:
            timeout: seconds; None waits as long as the ask itself was given.

        Raises:
            ReplyTimeoutError: nothing came in time.
            ValueError: this is no timeout.
            Exception: what the worker failed with, as it raised it.
        """
        if timeout is not None:
            require_seconds("get", timeout)
        if self._get_hook is not None:
            if self._get_hook_result is _PENDING:
                self._get_hook_result = self._get_hook(timeout)
            found: R = self._get_hook_result
            return found
        if not self.wait(self._remaining(timeout)):
            raise self.late(timeout)
        try:
            return self.outcome()
        finally:
            del self  # the error that is raised here holds this frame, and the reply holds the error

    def arm(self) -> None:
        """Get ready to wait, before anybody knows of this reply; then ``get_armed`` has nothing left to do but that."""
        self._gate = threading.Lock()
        self._gate.acquire()

    def listen(self) -> Arrival:
        """Get ready to be awaited by this task, before anybody knows of this reply; then ``heard`` is left to do."""
        arrival = Arrival()
        self._callbacks = [arrival]
        return arrival

    def get_armed(self, entered: CurrentMessage | None = None) -> R:
        """``get`` for the one who armed it, right after the request was sent."""
        gate = self._gate
        if entered is not None:
            look_again(self, entered)
        assert gate is not None  # noqa: S101 - ours to get right
        if not self._hold(gate, self._timeout_s):
            raise self.late()
        try:
            return self.outcome()
        finally:
            del self

    def wait(self, timeout_s: float | None) -> bool:
        """Block this thread until there is an outcome, for at most ``timeout_s``; True if there is one.

        Raises:
            RecursionDetectedError: in a handler that whoever is to answer waits for.
            BlockingAskError: on the thread of a tree's event loop.
        """
        if self._value is not _PENDING or (timeout_s is not None and timeout_s <= 0):
            return self._value is not _PENDING
        require_thread(self.target.path if self.target is not None else A_REPLY)
        entered = enter(self)
        try:
            gate = self._gate
            if gate is None:
                gate = threading.Lock()
                gate.acquire()
                gate = first_of(self, "_gate", gate)
            return self._value is not _PENDING or self._hold(gate, timeout_s)
        finally:
            leave(self, entered)

    def _hold(self, gate: threading.Lock, timeout_s: float | None) -> bool:
        """Block this thread until the gate is opened; True if there is an outcome."""
        limit = -1 if timeout_s is None else min(timeout_s, _LONGEST_S)
        if sys.is_finalizing():
            limit = 0  # a finalizer, while the interpreter ends: no other thread runs any more
        mark = HERE.blocking
        try:
            if mark is None:
                pass_gate(gate, limit)
            else:
                with mark:
                    gate.acquire(True, limit)  # noqa: FBT003 - by position in half the time; no signals come here
        finally:  # also where a signal handler has raised, which may be after the gate had opened for this thread
            done = self._value is not _PENDING
            if done:
                try:
                    gate.release()  # the next waiter's turn
                except RuntimeError:  # open already
                    done = True
        return done

    def abandon(self) -> None:
        """Mark that the only asker has gone: a message that still waits for its turn will not be handled."""
        if self._value is _PENDING:
            self.is_abandoned = True

    # -- callbacks and event loops -------------------------------------------------------------------------

    def add_done_callback(self, callback: Callable[[], object]) -> None:
        """Call ``callback()`` once there is an outcome, also where there is one already.

        It runs on a thread of its own, not on the target's: it may block, and has no part in the message that was
        handled. What it raises is a ``CallbackRaised`` event.

        Raises:
            TypeError: it cannot be called, or is async.
        """
        require_callback("add_done_callback:", callback, "Give a function without arguments")
        is_derived = self._get_hook is not None
        job = UserCallback(partial(_get_first, self, callback) if is_derived else callback, self._callback_raised)
        host = self._host
        run = partial(in_background, "reply-callback", job.run) if host is None else partial(host.run_apart, job)
        if is_derived:
            run()
        else:
            self.when_done(run)

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call ``callback()`` once there is an outcome, in the thread that brings it (now, if there is one).

        For the library itself: the thread may be a supervisor's, so it must be short and must not block.
        """
        callbacks = self._callbacks
        if callbacks is None:
            callbacks = first_of(self, "_callbacks", [])
        callbacks.append(callback)
        if self._value is not _PENDING:
            self._call_back()

    def __await__(self) -> Generator[Any, None, R]:
        """Wait on the running event loop without holding it up; any loop will do."""
        if self._get_hook is not None:
            return (yield from asyncio.to_thread(self.get).__await__())
        if self._value is _PENDING:
            entered = enter(self)
            try:
                arrival = Arrival()
                self.when_done(arrival)
                yield from self.heard(arrival)
            finally:
                leave(self, entered)
        try:
            return self.outcome()
        finally:
            del self

    @coroutine
    def heard(self, arrival: Arrival, entered: CurrentMessage | None = None) -> Generator[Any, None, None]:
        """Wait on the running event loop until there is an outcome; ``arrival`` is among the callbacks.

        Raises:
            ReplyTimeoutError: nothing came in time.
        """
        if self._value is not _PENDING:
            return
        try:
            if entered is not None:
                look_again(self, entered)
            yield from arrival.until(self._expires)
        finally:
            if self._callbacks:
                self.not_when_done(arrival)
        if self._value is _PENDING:
            raise self.late()

    def not_when_done(self, callback: Callable[[], object]) -> None:
        """Take back what was given to ``when_done``; nothing where it was called already."""
        if self._callbacks is not None:
            with suppress(ValueError):
                self._callbacks.remove(callback)

    # -- the outcome ---------------------------------------------------------------------------------------

    def _remaining(self, timeout: float | None) -> float | None:
        if self._expires is None:
            return timeout
        remaining = self._expires - monotonic()
        return remaining if timeout is None else min(timeout, remaining)

    def outcome(self) -> R:
        """The value, or the error raised; only once it is done."""
        error = self._error
        if error is None:
            value: R = self._value
            return value
        try:
            # With the worker's own traceback each time: a second reader must not see the first reader's frames.
            raise with_frames(own_error(error), self._traceback)
        finally:
            del self, error

    def late(self, timeout: float | None = None) -> ReplyTimeoutError:
        """The error of a wait that was too long, as the present handler's own."""
        return own_error(self._too_late(timeout))

    def expire(self, limit_s: float | None = None, hint: str = "") -> None:
        """Fail a request that nobody waits for any more; ``limit_s``, ``hint``: in place of what an ask is told."""
        error = self._too_late(limit_s)
        error.hint = hint or error.hint
        self.fail(error)

    def _too_late(self, timeout: float | None) -> ReplyTimeoutError:
        path = self.target.path if self.target is not None else "?"
        waiting = self.target.depth if self.target is not None else 0
        limit = self._timeout_s if timeout is None or self._timeout_s is None else min(timeout, self._timeout_s)
        return ReplyTimeoutError(path, self._asker, max(0.0, (timeout if limit is None else limit) or 0.0), waiting)


def _get_first(reply: Reply, callback: Callable[[], object]) -> object:
    """Call back once there is an outcome of a reply that was derived: it is made where somebody asks for it."""
    with suppress(BaseException):  # whoever gets it has that raised
        reply.get()
    return callback()


border(Reply.outcome)  # behind it, in a traceback, stand the frames of the one who answered
