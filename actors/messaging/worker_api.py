"""Functions for a worker's code: ask if it is to stop, sleep until then, give a sign of life, find a colleague."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messaging.blocking import require_thread
from actors.messaging.envelope import CURRENT, AbandonedThreadExit
from actors.messaging.ref import ref_of
from actors.messaging.reply import Reply

if TYPE_CHECKING:
    from actors.messaging.ports import Runnable
    from actors.messaging.ref import Ref


def stopping(timeout_s: float = 0.0) -> bool:
    """True once the worker that runs this code was asked to stop; waits up to ``timeout_s`` seconds for that.

    For sync code: a ``run=`` body, or a long handler. (Async code is cancelled instead.) Outside of a tree it waits
    and is False, so that a body can be tried out as a plain function.
    """
    current = CURRENT.get()
    if current is None:
        return Reply().wait(timeout_s) if timeout_s > 0 else False
    incarnation = current.incarnation
    return wait_to_stop(incarnation, None if timeout_s <= 0 else incarnation.system.now() + timeout_s)


def wait_to_stop(incarnation: Runnable, due: float | None) -> bool:
    """Return whether a worker was asked to stop; waits for that until ``due``, on the tree's clock; None: it does not.

    For code that runs in this worker.
    """
    if incarnation.is_over:
        raise AbandonedThreadExit
    if incarnation.pulse is not None:
        incarnation.pulse.beat()
    if incarnation.must_stop or due is None:
        return incarnation.must_stop
    require_thread(incarnation.mailbox.path, "await asyncio.sleep(...)")
    request, pulse = CURRENT.get(), incarnation.pulse
    if pulse is None or request is None or not request.in_request:
        _wait(incarnation, due)
        return incarnation.must_stop
    pulse.enter(request)
    try:
        _wait(incarnation, due)
    finally:
        pulse.leave(request)
    return incarnation.must_stop


def sleep(seconds: float) -> bool:
    """Sleep, on the tree's clock, but not longer than until the worker is asked to stop; True if it was.

    ``while not actors.sleep(60): poll()`` polls every minute and ends at once when it must. A body that was
    abandoned, because it did not stop in time, ends at its next sleep.
    """
    return stopping(seconds)


def heartbeat() -> None:
    """Give a sign of life of the worker that runs this code: its ``stall_s`` counts from here.

    For long work between two waits, sync or async. It costs next to nothing, and nothing happens where the worker has
    no ``stall_s``, or outside of a tree. A body or handler that was given up meanwhile ends here.
    """
    current = CURRENT.get()
    if current is None:
        return
    incarnation = current.incarnation
    if incarnation.is_over:
        raise AbandonedThreadExit
    if incarnation.pulse is not None:
        incarnation.pulse.beat()


def _wait(incarnation: Runnable, due: float) -> None:
    signal, clock = incarnation.stop_signal(), incarnation.system.clock
    if not clock.manual:
        signal.wait(max(0.0, due - clock.now()))
        return
    woken = Reply()
    signal.when_done(woken.complete)
    timer = incarnation.system.timers.call_at(due, woken.complete)
    woken.wait(None)
    timer.cancel()


def ref(path: str) -> Ref:
    """The address of another worker of the same tree, by its path; for code that runs in a worker.

    Raises:
        UnknownPathError: no child of this path is listed now.
        RuntimeError: called outside of a worker; a host uses ``tree.ref(path)``.
    """
    current = CURRENT.get()
    if current is None:
        message = f"actors.ref({path!r}) was called outside of a worker. In the host use tree.ref(path)"
        raise RuntimeError(message)
    return ref_of(current.incarnation.system, path)


def resource() -> Any:
    """Return what the lifespan of the worker that runs this code has yielded; None where it has none.

    Raises:
        RuntimeError: called outside of a worker.
    """
    current = CURRENT.get()
    if current is None:
        raise RuntimeError("actors.resource() was called outside of a worker: only there is a lifespan open")
    return current.incarnation.resource


__all__ = ["heartbeat", "ref", "resource", "sleep", "stopping"]
