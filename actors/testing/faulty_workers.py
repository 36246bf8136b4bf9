"""Workers that fail on command: rehearse with them what your tree does when something breaks.

A *fault* is what goes wrong. It is sent as a message, or given to the constructor for one of the hooks:

=====================  ===============================================================================================
``ValueError("no")``   this exception (or exception class) is raised, whatever it is: SystemExit and the like too
``"raise ValueError"`` the same by name: a built-in, ``CancelledError``, or one of ``actors.model.errors``; then its
text ``"fail TEXT"``        ``Failed(TEXT)`` is raised: the request failed, the worker lives
``Hang()``, ``"hang"`` hangs until released (a ``Hang`` only), or until the worker is asked to stop
``Hang(deaf=True)``    hangs until released, and does not heed a stop
``"slow 0.5"``         takes half a second on the tree's clock, less if the worker is asked to stop
``"sleep 0.5"``        takes half a second of real time, and does not heed a stop
``"late"``             answers when the asker has just lost patience
``"stop"``             the worker stops itself
anything else          is echoed
=====================  ===============================================================================================
"""

from __future__ import annotations

import asyncio
import builtins
import itertools
import threading
from typing import Any, Self, cast

from actors.execution.incarnation import Incarnation, IncarnationPhase
from actors.messaging.envelope import CURRENT
from actors.messaging.reply import Reply
from actors.messaging.worker_api import sleep
from actors.model import errors
from actors.worker import Worker

LATE_S = 0.05
"""How long after its asker's deadline a ``late`` answer comes."""


class Fault:
    """A fault for a hook that does not happen each time: the first ``times`` times, once it was passed over ``after``.

    One ``Fault`` counts over all incarnations of the worker that it was given to::

        FaultyWorker, kwargs={"on_start": Fault("raise OSError", times=2)}    # the third start succeeds
        FaultyWorker, kwargs={"on_start": Fault("raise OSError", after=1)}    # only the first start succeeds
    """

    def __init__(self, what: object, *, times: int | None = None, after: int = 0) -> None:
        self._what = what
        self._first = after
        self._last = None if times is None else after + times
        self._count = itertools.count()

    def take(self) -> object:
        """Return what goes wrong this time; None: nothing."""
        turn = next(self._count)
        happens = turn >= self._first and (self._last is None or turn < self._last)
        return self._what if happens else None


class Hang:
    """A fault that holds its worker up until ``release``. May be used by several workers, and again.

    As a context manager it is released on leaving, also where an assertion failed in between.
    """

    def __init__(self, *, deaf: bool = False) -> None:
        self.deaf = deaf
        """True: it does not end when the worker is asked to stop, nor when it is cancelled."""
        self._released = Reply()
        self._entries = threading.Semaphore(0)

    def __repr__(self) -> str:
        return f"<Hang{' deaf' if self.deaf else ''}{' released' if self._released.done else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def wait_until_entered(self, timeout_s: float = 10.0) -> None:
        """Wait until a worker hangs here; the next call waits for the next one.

        Raises:
            TimeoutError: none did within ``timeout_s`` seconds.
        """
        if not self._entries.acquire(timeout=timeout_s):
            message = f"no worker has come to hang here within {timeout_s:g} s"
            raise TimeoutError(message)

    def release(self) -> None:
        """Let everybody go, for ever."""
        self._released.complete()

    def hold(self) -> None:
        """Hang on a thread."""
        over = Reply()
        self._released.when_done(over.complete)
        current = CURRENT.get()
        if not self.deaf and current is not None:
            incarnation = cast("Incarnation", current.incarnation)
            # In its last hook it was asked to stop already: there it hangs until it is abandoned.
            asked = (
                incarnation.when_over() if incarnation.phase is IncarnationPhase.ENDING else incarnation.stop_signal()
            )
            asked.when_done(over.complete)
        self._entries.release()
        over.wait(None)

    async def hold_async(self) -> None:
        """Hang on an event loop: a worker that is asked to stop is cancelled when its time is up."""
        self._entries.release()
        while not self._released.done:
            try:
                await self._released
            except asyncio.CancelledError:
                if not self.deaf:
                    raise


class _Faulty(Worker):
    """Base of both kinds: decides which fault is next."""

    def __init__(
        self,
        *,
        in_init: object = None,
        on_start: object = None,
        on_stop: object = None,
        on_failure: object = None,
        diary: list[str] | None = None,
    ) -> None:
        super().__init__()
        self._diary = diary
        self._faults = {"on_start": on_start, "on_stop": on_stop, "on_failure": on_failure}
        self._note("__init__")
        _do(self, _taken(in_init))

    def _note(self, what: str) -> None:
        if self._diary is not None:
            current = CURRENT.get()
            path = current.incarnation.mailbox.path if current is not None else "?"
            self._diary.append(f"{what} {path}")

    def _fault_of(self, hook: str) -> object:
        self._note(hook)
        return _taken(self._faults[hook])


class FaultyWorker(_Faulty):
    """A worker that echoes its messages, or fails as they say; ``on_start`` and the others are faults of its hooks.

    Args:
        in_init: what goes wrong when it is built.
        on_start: what goes wrong when it starts.
        on_stop: what goes wrong when it stops.
        on_failure: what goes wrong when it has crashed.
        diary: a list to which each incarnation adds ``"on_start shop/ledger"`` and so on, in the order of events.
    """

    def on_start(self) -> None:
        """Fail as told, or start."""
        _do(self, self._fault_of("on_start"))

    def on_receive(self, message: Any) -> Any:
        """Fail as told, or echo."""
        _do(self, message)
        return message

    def on_stop(self) -> None:
        """Fail as told, or stop."""
        _do(self, self._fault_of("on_stop"))

    def on_failure(self, *_: object) -> None:
        """Fail as told, on top of the crash."""
        _do(self, self._fault_of("on_failure"))


class AsyncFaultyWorker(_Faulty):
    """``FaultyWorker`` with async hooks. Its ``in_init`` must not hang: that would hold up the event loop."""

    async def on_start(self) -> None:
        """Fail as told, or start."""
        await _do_async(self, self._fault_of("on_start"))

    async def on_receive(self, message: Any) -> Any:
        """Fail as told, or echo."""
        await _do_async(self, message)
        return message

    async def on_stop(self) -> None:
        """Fail as told, or stop."""
        await _do_async(self, self._fault_of("on_stop"))

    async def on_failure(self, *_: object) -> None:
        """Fail as told, on top of the crash."""
        await _do_async(self, self._fault_of("on_failure"))


# -- what a fault does -------------------------------------------------------------------------------------


def _taken(fault: object) -> object:
    return fault.take() if isinstance(fault, Fault) else fault


def _read(fault: object) -> tuple[str, Any]:
    """A fault as a verb and what it takes; an exception is raised here."""
    if isinstance(fault, BaseException) or (isinstance(fault, type) and issubclass(fault, BaseException)):
        raise fault
    if isinstance(fault, Hang):
        return "hang", fault
    if not isinstance(fault, str):
        return "", None
    verb, _, rest = fault.partition(" ")
    if verb == "raise" and rest:
        name, _, text = rest.partition(" ")
        raise _exception_named(name)(*([text] if text else []))
    if verb == "fail":
        raise errors.Failed(rest)
    if verb == "hang" and not rest:
        return verb, Hang()
    if verb in {"slow", "sleep"} and rest:
        return verb, float(rest)
    return (fault, None) if fault in {"late", "stop"} else ("", None)


def _exception_named(name: str) -> type[BaseException]:
    for place in (builtins, errors, asyncio):
        found = getattr(place, name, None)
        if isinstance(found, type) and issubclass(found, BaseException):
            return found
    message = f"{name!r} names no built-in exception and none of actors.model.errors. Send an instance instead"
    raise LookupError(message)


def _do(worker: Worker, fault: object) -> None:
    verb, argument = _read(fault)
    if verb == "hang":
        argument.hold()
    elif verb == "slow":
        sleep(argument)
    elif verb == "sleep":
        Reply().wait(argument)
    elif verb == "late":
        Reply().wait(_patience_s())
    elif verb == "stop":
        worker.stop()


async def _do_async(worker: Worker, fault: object) -> None:
    verb, argument = _read(fault)
    if verb == "hang":
        await argument.hold_async()
    elif verb == "slow":
        await sleep_on_clock(argument)
    elif verb == "sleep":
        await _sleep_deaf(argument)
    elif verb == "late":
        await asyncio.sleep(_patience_s())
    elif verb == "stop":
        worker.stop()


def _patience_s() -> float:
    """Until the asker of the present message has lost patience; no time where nobody waits."""
    current = CURRENT.get()
    if current is None or current.origin is None or current.origin.deadline is None:
        return 0.0
    return max(0.0, current.origin.deadline - current.incarnation.system.now()) + LATE_S


async def sleep_on_clock(seconds: float, began: float | None = None) -> None:
    """Sleep on the tree's clock, or outside of a tree on the real one; ``began``: the time from which that counts."""
    current = CURRENT.get()
    if current is None or seconds <= 0:
        await asyncio.sleep(seconds)
        return
    system, woken = current.incarnation.system, Reply()
    timer = system.timers.call_at((system.now() if began is None else began) + seconds, woken.complete)
    try:
        await woken
    finally:
        timer.cancel()


async def _sleep_deaf(seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while (left := end - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            continue
