"""One process of a command, from its start to its end: its output, its signals, its exit.

Started by a thread of the pool; from then on the reader's thread (``actors.dispatch.reader``) has it, and only that
changes it. What others ask for (a signal) is done at once, on their thread: it never blocks. The end, in this order, so
that no signal goes to a group whose number is another's by now::

    the leader has ended --> (ordered: the others of its group have time, until it is killed) --> the group is killed
    --> what is left of the output is read --> forgotten by the guardian --> reaped --> ``ended(returncode)``

``_lock`` guards ``_is_reaped``, so that no signal is sent after that.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Final, Literal, Protocol, TypeAlias

from actors.dispatch.output import Allowance, Lines, Tail, text_of
from actors.dispatch.process_group import end_group, guard, guarded_environment, has_others, signal_group, widen
from actors.dispatch.program import Program
from actors.dispatch.reader import READER
from actors.model.clock import monotonic

CHUNK: Final = 1024 * 1024
LOOK_S: Final = 0.05
"""Seconds between two looks, at what cannot be watched."""
MOST_LEFT: Final = 4 * CHUNK
"""Output that is read after the end: another process may hold the stream open, and write on."""
TELL_LOST_S: Final = 1.0

Stream: TypeAlias = Literal["stdout", "stderr"]


class CommandOwner(Protocol):
    """Owner of a process, which is told what becomes of it on the reader's thread."""

    def wrote(self, stream: Stream, lines: list[str]) -> None:
        """Take some lines."""

    def lost(self, count: int) -> None:
        """Lines that were written too fast to be passed on."""

    def ended(self, returncode: int) -> None:
        """The process is over: its exit code, or, negative, the signal."""


class CommandProcess:
    """A process that leads a group of its own."""

    def __init__(self, program: Program, owner: CommandOwner, *, reads_all: Callable[[], bool]) -> None:
        """Start it.

        Args:
            program: what.
            owner: is told what becomes of it.
            reads_all: True as long as every line is to be passed on, however many there are.

        Raises:
            OSError: it cannot be started.
        """
        self._owner = owner
        self._reads_all = reads_all
        self._lock = threading.Lock()
        self._is_reaped = False
        self._may_linger = False
        """True where the others of its group have time to end, after it: it was asked to stop."""
        self._lost = 0
        self._allowance = Allowance(monotonic)
        self.tail = Tail()
        self._popen = subprocess.Popen(  # noqa: S603 - a command, in so many words; never a shell
            program.argv,
            env=guarded_environment(program.env),
            cwd=program.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._open: dict[int, tuple[Stream, IO[bytes], Lines]] = {}
        self._pidfd: int | None = None
        try:
            guard(self.pid)
        except BaseException:
            self.give_up()
            raise

    def watch(self) -> None:
        """Have the reader's thread take it over. What becomes of it is told from now on.

        Raises:
            RuntimeError: the machine gives no more threads; it is ended.
        """
        try:
            READER.call(self._begin)
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """End it, where the reader does not have it."""
        end_group(self.pid)
        with self._lock:
            self._is_reaped = True
            self._popen.communicate()

    # -- from any thread -----------------------------------------------------------------------------------

    def stop(self, number: int) -> None:
        """Ask the whole group to end."""
        self._may_linger = True
        with self._lock:
            if not self._is_reaped:
                signal_group(self.pid, number)

    def kill(self) -> None:
        """End the whole group."""
        self._may_linger = False
        with self._lock:
            if not self._is_reaped:
                signal_group(self.pid, signal.SIGKILL)

    # -- on the reader's thread ----------------------------------------------------------------------------

    def _begin(self) -> None:
        for name, pipe in (("stdout", self._popen.stdout), ("stderr", self._popen.stderr)):
            if pipe is not None:
                fd, stream = pipe.fileno(), name
                os.set_blocking(fd, False)
                widen(fd, CHUNK)
                self._open[fd] = ("stdout" if stream == "stdout" else "stderr", pipe, Lines())
                READER.watch(fd, lambda fd=fd: self._read(fd))  # type: ignore[misc]
        with suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self.pid)
            READER.watch(self._pidfd, self._leader_ended)
        if self._pidfd is None:
            self._look()

    def _look(self) -> None:
        """Look if it has ended, where the system does not say so."""
        if _has_ended(self.pid):
            self._leader_ended()
        else:
            READER.later(LOOK_S, self._look)

    def _read(self, fd: int) -> int:
        """Read what is there; how much that was."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        stream, pipe, lines = self._open[fd]
        if data:
            most = len(data) if self._reads_all() else self._allowance.lines()
            now, tail, lost = lines.feed(data, most)
        else:
            now, tail, lost = lines.end(), [], 0
            READER.forget(fd)
            del self._open[fd]
            pipe.close()
        self._pass_on(stream, now, tail, lost)
        return len(data)

    def _pass_on(self, stream: Stream, now: list[bytes], tail: list[bytes], lost: int) -> None:
        self._allowance.spend(now)
        self.tail.add(now)
        self.tail.add(tail)
        if now:
            self._owner.wrote(stream, [text_of(line) for line in now])
        if lost:
            if not self._lost:
                READER.later(TELL_LOST_S, self._tell_lost)
            self._lost += lost

    def _tell_lost(self) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            self._owner.lost(lost)

    def _leader_ended(self) -> None:
        if self._pidfd is not None:
            READER.forget(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._wait_for_others()

    def _wait_for_others(self) -> None:
        if self._may_linger and has_others(self.pid):
            READER.later(LOOK_S, self._wait_for_others)
            return
        left = MOST_LEFT
        end_group(self.pid)
        for fd in list(self._open):
            while fd in self._open and left > 0 and (read := self._read(fd)):
                left -= read
        for fd, (stream, pipe, lines) in self._open.copy().items():  # somebody else holds these
            self._pass_on(stream, lines.end(), [], 0)
            READER.forget(fd)
            del self._open[fd]
            pipe.close()
        self._tell_lost()
        with self._lock:
            self._is_reaped = True
            returncode = self._popen.wait()
        self._owner.ended(returncode)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
