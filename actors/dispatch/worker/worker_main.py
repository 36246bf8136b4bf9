"""Main function of a worker's process: it runs one incarnation, with the crash boundary of every other one.

The incarnation here is a real one (``actors.execution.crash_boundary``): it builds the object, runs hooks and handlers,
tells a failed request from a crash, and ends as any worker does. What is a tree to it is the wire
(``actors.dispatch.worker.worker_runner``). Its host feeds it one message at a time, and its mailbox here holds no more.

Threads: sync code runs on the main thread of the process, async code on a loop of its own beside it. The main thread
reads the wire while no code of the worker runs. While such code runs on it, nobody has to read, until that code asks
for something: then a thread is started that reads from now on (``Link.listen_aside``), and the main thread waits for
work. So a worker that never calls back costs no switch of threads, and one that spins is still told to stop.

The end: after ``EXIT`` the process ends by itself, with code 0. Where the wire ends first, the host is gone, or has let
go of it: the whole group is killed. Nothing that stands in ``atexit`` runs; what a worker owns belongs in ``on_stop``
or in a lifespan.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from multiprocessing import forkserver, spawn
from typing import Any, Final, NamedTuple

from actors.concurrency.in_turn import InTurn
from actors.concurrency.thread_state import never_waits, start_thread, without_waits
from actors.concurrency.wakeup import Wakeup
from actors.dispatch.remote import Frame, FrameReader, Kind, Parts, dumped, frame, loaded, pack_error, parts_of
from actors.dispatch.worker.worker_imports import IMPORTS
from actors.model.errors import StartError
from actors.model.raised import is_a

_ADDRESS_SPACE: Final = "RLIMIT_AS"
MEGABYTE: Final = 1024 * 1024


class Setup(NamedTuple):
    """Setup of a process, told by its host."""

    path: str
    """Path of the worker."""
    tree: str
    """Mark of its tree, by which Refs that cross name it."""
    python: dict[str, Any]
    """Search path, arguments and folder, as ``multiprocessing`` tells its children."""
    env: Mapping[str, str]
    """Variables that its declaration adds."""
    host_env: Mapping[str, str] | None
    """Environment of the host as it is now, which that of the fork server is not. None: it is of another machine."""
    cwd: str | None
    memory: int | None
    """Limit of its address space in bytes."""
    code: bytes
    """Pickle of a function that returns the recipe of the worker."""
    levels: Mapping[str, int]
    """Levels of ``logging`` in the host."""


class Entry:
    """Object that the fork server runs in a new process."""

    def _bootstrap(self, _parent: int) -> int:
        os.setsid()
        inherited: list[int] = forkserver.get_inherited_fds() or []
        link = Link(socket.socket(fileno=inherited[0]))
        link.send(Kind.HELLO, os.getpid(), [b""])
        return run_worker(link)


class Link:
    """Worker's end of the wire.

    ``_writes`` guards the writing of frames, one after the other. ``_turns`` guards who reads: the main thread
    (``_reads_here``), or the thread beside it, for good.

    A finalizer or a signal handler may run at any step of both. What it tells is written after the frame that is just
    being written. What it waits for is refused where nobody else would read meanwhile: in the middle of a frame, and
    while the main thread reads (``without_waits``). Elsewhere it finds a lock that is re-entrant, and ``_start`` begins
    one thread, whoever comes there first.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._reader = FrameReader(end)
        self._writes = InTurn()
        self._turns = threading.RLock()
        self._unstarted = [threading.Thread(target=self._read_on, name="wire", daemon=True)]
        self._reads_here = False
        self._has_thread = False
        self._is_wanted = False
        self._awake = Wakeup()
        self.take: Callable[[Frame], None] = lambda _: None
        """Takes each frame, on whichever thread reads."""

    def send(self, kind: Kind, number: int, parts: Parts) -> None:
        """Write a frame. On any thread; it may wait for the host to read."""
        self._writes.do(partial(self._write, frame(kind, number, parts)))

    def _write(self, pieces: Parts) -> None:
        try:
            for piece in pieces:
                self._socket.sendall(piece)
        except OSError:
            _die()

    def next_frame(self) -> Frame:
        """Wait for a frame, and return it. For the beginning, where nobody else reads."""
        while not self._reader.frames:
            self._receive()
        return self._reader.frames.popleft()

    def read(self) -> None:
        """On the main thread: wait until there may be something to do, and read it, unless another thread does."""
        without_waits(self._read)

    def _read(self) -> None:
        with self._turns:
            if self._is_wanted:
                self._start()
            self._reads_here = True  # first: from now on nobody starts the thread
            if self._has_thread:
                self._reads_here = False
        if not self._reads_here:
            self._awake.sleep()
            return
        self._take_all()
        with self._turns:
            self._reads_here = False
            if self._is_wanted:
                self._start()

    def listen_aside(self) -> None:
        """See to it that somebody reads while code of the worker runs. On any thread."""
        if self._has_thread:
            return
        with self._turns:
            self._is_wanted = True
            if not self._reads_here:
                self._start()

    def wake(self) -> None:
        """Have the main thread look for something to do."""
        self._awake.give()

    def _start(self) -> None:
        """Begin the thread that reads, once: whoever takes it from the list."""
        self._has_thread = True
        with suppress(IndexError):
            start_thread(self._unstarted.pop())

    def _read_on(self) -> None:
        """Read, as long as the process lives. Nobody reads after this thread, so its end is that of the process."""
        never_waits()
        try:
            while True:
                self._take_all()
        finally:
            _die()

    def _take_all(self) -> None:
        frames = self._reader.frames
        if not frames:
            self._receive()
        while frames:
            self.take(frames.popleft())

    def _receive(self) -> None:
        try:
            if self._reader.receive():
                return
        except InterruptedError:
            return
        except OSError:
            _die()
        _die()


def _die() -> None:
    """End at once, with all that this worker has started: there is no host any more."""
    if os.getpgrp() == os.getpid():  # else the group is not ours
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def run_worker(link: Link, prepare: Callable[[Setup], None] | None = None) -> int:
    """Run the incarnation to its end; the exit code.

    Args:
        link: its end of the wire.
        prepare: sets the process up, before anything of the user's is imported. None: it is a process of the host.
    """
    booted = link.next_frame()
    setup: Setup = loaded(parts_of(booted))
    try:
        (prepare or _prepare)(setup)
        with IMPORTS.of("module"):
            recipe = loaded([setup.code])()
        from actors.dispatch.worker.worker_runner import WorkerRunner  # noqa: PLC0415 - it may be what was not preloaded

        side = WorkerRunner(link, setup.path, setup.tree, recipe, setup.levels)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the host is told
        link.send(Kind.EXIT, 0, dumped(("crashed", pack_error(_why(setup, error)), False, 0)))
        _flush()
        return 1
    side.run()
    _flush()
    return 0


def _why(setup: Setup, error: BaseException) -> BaseException:
    """Return why it did not start, in words of its declaration where that is the reason."""
    if setup.memory is None or not _is_without_memory(error):
        return error
    what = f"its process needs more memory to start than memory_mb={setup.memory // MEGABYTE}"
    return StartError(setup.path, what, "Raise it: an interpreter with this library has about 200.")


def _is_without_memory(error: BaseException) -> bool:
    if is_a(error, OSError):
        return error.errno == errno.ENOMEM
    if type(error) is ImportError:  # a library of C for which there was no room: glibc says it in one of two ways
        return any(said in (error.msg or "") for said in ("failed to map segment", "annot allocate memory"))
    return is_a(error, MemoryError)


def _prepare(setup: Setup) -> None:
    """Set a process of the host up, before anything of the user's is imported."""
    _change_environment(setup.host_env or {}, setup.env)
    main = {name: setup.python.pop(name) for name in list(setup.python) if name.startswith("init_main")}
    spawn.prepare(setup.python)
    if setup.cwd is not None:
        try:
            os.chdir(setup.cwd)
        except OSError:  # its text has the folder, which is shown nowhere
            hint = "Give one that exists and may be entered, or leave cwd out."
            raise StartError(setup.path, "cwd of its process is not a folder", hint) from None
    if setup.memory is not None:
        _limit_memory(setup.memory)
    find_main_later(main)
    importlib.invalidate_caches()


def _change_environment(host: Mapping[str, str], added: Mapping[str, str]) -> None:
    """Have the environment of the host as it is now; what modules have set while they were preloaded stays."""
    before = IMPORTS.environment
    for name in before.keys() - host.keys():
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in host.items() if before.get(name) != value})
    os.environ.update(added)


def _limit_memory(limit: int) -> None:
    import resource  # noqa: PLC0415 - a platform may not have it

    number = getattr(resource, _ADDRESS_SPACE)
    resource.setrlimit(number, (limit, limit))


def find_main_later(main: dict[str, Any]) -> None:
    """Import the script of the host when something of it is wanted, and not before: its code may be slow, or not it."""
    here = sys.modules["__main__"]

    def find(name: str) -> Any:
        if not main or (name.startswith("__") and name.endswith("__")):
            raise AttributeError(name)
        given = dict(main)
        main.clear()
        with IMPORTS.of("script"):
            spawn.prepare(given)
        return getattr(sys.modules["__main__"], name)

    here.__dict__["__getattr__"] = find


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
