"""State of the present thread, and the one door through which each thread of a running tree is started."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import FrameType
from typing import Final, Protocol, TypeVar, TypeVarTuple
from weakref import ref

from actors.concurrency.weak_registry import WeakRegistry

T = TypeVar("T")
ArgumentsT = TypeVarTuple("ArgumentsT")


class HostedWorkers(Protocol):
    """Event loop of a host on which async workers of a tree run."""

    @property
    def is_open(self) -> bool:
        """True as long as they may run there."""

    @property
    def runs_here(self) -> bool:
        """True in code that this loop runs."""


class UsersCode(Protocol):
    """Whatever calls code of users on a thread: an incarnation of a worker, or ``with_users``."""

    in_users_code: bool
    """True while a user's code runs, which may wait for a reply; what is around that may not."""
    running_on: int | None
    """Identity of the thread whose run holds it."""


class _Users:
    """Code of users, and nothing around it, on each thread that is in it."""

    __slots__ = ("in_users_code", "running_on")

    def __init__(self) -> None:
        self.in_users_code = True
        self.running_on: int | None = None


_USERS: Final = _Users()


class _Here(threading.local):
    """State of this thread: set by the pool and by the loop in their own threads."""

    blocking: AbstractContextManager[None] | None = None
    soon: AbstractContextManager[None] | None = None
    never_blocks = False
    """True on the thread of a tree's event loop, or of a store's writer, and where a host's loop may run workers: see
    ``blocks_a_loop``."""
    is_tree_loop = False
    """True on the thread of a tree's own event loop, or of a store's writer: it runs nothing else. Also while a thread
    does what others would wait for in vain: see ``without_waits``."""
    in_between = False
    """True in ``without_waits``, and where a thread ``serves_others``: who would wait there is a finalizer or a signal
    handler."""
    host_loops: tuple[ref[HostedWorkers], ...] = ()
    """Loops of hosts on this thread on which workers run; also of trees that have ended meanwhile, so it holds none."""
    serves = False
    """True on a thread that ``serves_others``, but where nobody may wait in any case (``without_waits``)."""
    ends: object = None
    """The tree whose end this thread brings about: a finalizer here cannot wait for that."""
    runs: UsersCode | None = None
    """Whatever calls code of users on this thread: a wait is allowed while that is in such code here."""
    in_turn = False
    """True there while incarnations are run that need no task: see ``in_turn``."""


HERE: Final = _Here()
ON_A_THREAD: Final = "threading.Thread(target=...).start()"
"""Code for a finalizer or a signal handler, in place of a wait."""
_NOT_POOLED: Final = nullcontext()


def blocking() -> AbstractContextManager[None]:
    """Mark a wait: a pool thread inside it counts as blocked, and the pool makes up for it with another."""
    return HERE.blocking or _NOT_POOLED


def soon() -> AbstractContextManager[None]:
    """Mark the last act of a run: a pool thread inside it may keep the job that it submits for itself."""
    return HERE.soon or _NOT_POOLED


def in_turn(loop: asyncio.AbstractEventLoop) -> bool:
    """True if code that this loop runs, on this thread, is what runs here: the loop looks again before it sleeps.

    A finalizer or a signal handler may run on its thread when it has looked and is about to sleep, or sleeps. It must
    wake the loop as if it were another thread.
    """
    return HERE.in_turn or asyncio.current_task(loop) is not None


def hosts_workers(loop: HostedWorkers) -> None:
    """Note, on its thread, that workers run on a host's loop from now on."""
    HERE.host_loops = (*map(ref, _open_host_loops()), ref(loop))
    HERE.never_blocks = True


def never_waits() -> None:
    """Note that nobody may wait for a reply on this thread: it is one that replies come from."""
    HERE.never_blocks = HERE.is_tree_loop = True


def serves_others() -> None:
    """Note that others wait for what this thread does: a supervisor's run, a timer, a process that is read.

    Code of users that may wait for a reply runs there only as ``with_users``, or in ``HERE.runs``.
    Elsewhere there are only finalizers that the collector runs. They come in anywhere, and wait for no reply: it may
    need this thread.
    """
    HERE.never_blocks = HERE.is_tree_loop = HERE.in_between = HERE.serves = True


def with_users(act: Callable[[*ArgumentsT], T], *arguments: *ArgumentsT) -> T:
    """Call code of users: it may wait for a reply, also on a thread that ``serves_others``."""
    if not HERE.serves:
        return act(*arguments)
    before, HERE.runs = HERE.runs, _USERS
    try:
        return act(*arguments)
    finally:
        HERE.runs = before


def without_waits(act: Callable[[], T]) -> T:
    """Call it on this thread, where nobody may wait for a reply meanwhile: not a finalizer either that runs in it."""
    before = HERE.never_blocks, HERE.is_tree_loop, HERE.in_between, HERE.serves, HERE.runs
    try:
        HERE.never_blocks = HERE.is_tree_loop = HERE.in_between = True
        HERE.serves, HERE.runs = False, None
        return act()
    finally:
        HERE.never_blocks, HERE.is_tree_loop, HERE.in_between, HERE.serves, HERE.runs = before


def _open_host_loops() -> list[HostedWorkers]:
    return [loop for each in HERE.host_loops if (loop := each()) is not None and loop.is_open]


def blocks_a_loop() -> bool:
    """True where a wait on this thread would hold up an event loop on which workers run."""
    runs, may_wait = HERE.runs, _may_wait()
    if not HERE.host_loops or (HERE.is_tree_loop and not may_wait):
        return HERE.never_blocks and not may_wait
    loops = _open_host_loops()
    HERE.host_loops = tuple(map(ref, loops))
    if runs is None:
        HERE.never_blocks = bool(loops)
    return any(each.runs_here for each in loops)


def _may_wait() -> bool:
    """True in code of users that this thread runs.

    A worker can be in its code on another thread while a run of it on this one begins, or ends: a run that is turned
    away because another holds the worker, and one after which it was idle for a moment.
    """
    runs = HERE.runs
    if runs is None or not runs.in_users_code:
        return False
    return runs is _USERS or runs.running_on == threading.get_ident()


def on_event_loop() -> bool:
    """True in code that an event loop runs, the tree's or any other."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class InterpreterEndsError(RuntimeError):
    """No thread can be started any more, because the interpreter ends: those that there are do what is left."""


def start_thread(thread: threading.Thread) -> None:
    """Start a thread: the one door for each thread of a running tree.

    While the interpreter ends, finalizers and coroutines that are destroyed may still tell a worker, and trees that are
    left running are stopped. A new thread would never run then, and ``Thread.start`` of Python 3.11 waits for it for
    ever. From 3.12 on it refuses, and does so before ``atexit`` calls anybody; by then the main thread has ended.

    Raises:
        InterpreterEndsError: the interpreter is ending.
        RuntimeError: the machine gives no more threads.
    """
    what = "no thread can be started while the interpreter ends"
    if sys.is_finalizing():
        raise InterpreterEndsError(what)
    try:
        thread.start()
    except RuntimeError as error:
        if threading.main_thread().is_alive():
            raise
        raise InterpreterEndsError(what) from error


def join_thread(thread: threading.Thread, within_s: float) -> None:
    """Wait for the end of a thread, for at most ``within_s`` seconds, the one door for all such waits.

    One that is just being started has an ``ident`` a moment before it may be joined: ``Thread.join`` raises until then.
    Such a thread is not waited for, and neither is the caller's own.
    """
    if thread.is_alive() and thread is not threading.current_thread():
        thread.join(max(0.0, within_s))


def innermost_frames() -> dict[int, FrameType]:
    """Return where each thread stands, by its identity."""
    return sys._current_frames()  # noqa: SLF001 - the documented way to a thread's stack


def stack_of(ident: int) -> str:
    """The stack of the thread with this identity, innermost call last; empty when it has ended."""
    frame = innermost_frames().get(ident)
    return "".join(traceback.format_stack(frame)) if frame is not None else ""


class Job(Protocol):
    """Anything the pool can run."""

    @property
    def urgent(self) -> bool:
        """True for what never blocks and must not wait for what does: supervisors."""

    def run(self) -> bool:
        """Do some of the work; True when there is more to do and the job is to be queued again."""


class JobRunner(Protocol):
    """Runs jobs: the pool."""

    def submit(self, job: Job) -> None:
        """Run ``job.run()`` soon. Never blocks."""


class Forkable(Protocol):
    """Interface of what must know that it was copied into the child of a fork: there it has no threads."""

    def forked(self) -> None:
        """Adapt to being in the child."""


def after_fork(thing: Forkable) -> None:
    """Have ``thing.forked()`` called in the child of every fork from now on, as long as somebody holds it."""
    _HEAR_OF_FORKS.add(thing)
    try:
        _UNHOOKED.pop()
    except IndexError:
        return  # the interpreter calls us already
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_forked)


_HEAR_OF_FORKS: Final[WeakRegistry[Forkable]] = WeakRegistry()
_UNHOOKED: Final[deque[None]] = deque((None,))
"""Holds one item until there is something to hear of forks: nothing is hooked in by an import."""


def _forked() -> None:
    for thing in _HEAR_OF_FORKS.snapshot():
        thing.forked()


def ending(tree: object, act: Callable[[], object]) -> Callable[[], None]:
    """Return a call of this that brings about the end of a tree; see ``HERE.ends``."""

    def ends() -> None:
        before, HERE.ends = HERE.ends, tree
        try:
            act()
        finally:
            HERE.ends = before

    return ends


def in_background(name: str, function: Callable[[], object]) -> None:
    """Run a short call on a daemon thread of its own; here and now where the machine gives no more threads."""
    try:
        start_thread(threading.Thread(target=function, name=name, daemon=True))
    except RuntimeError:
        function()
