"""One process of a command, from its start to its end: its output, its signals, its exit.

Started by a thread of the pool; from then on the reader's thread (``actors.dispatch.groups.process_reader``) has it,
and only that changes it. What others ask for (a signal) is done at once, on their thread: it never blocks. The end, in
this order (``actors.dispatch.groups.guarded_process``)::

    the leader has ended --> (ordered: the others of its group have time, until it is killed) --> the group is killed,
    and forgotten by the guardian --> what is left of the output is read --> reaped --> nothing of the group runs
    any more: its ports are free --> ``ended(returncode)``
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Final, Literal, TypeAlias

from actors.dispatch.command.command_output import KEPT, Allowance, Lines, Tail, text_of
from actors.dispatch.command.program import Program
from actors.dispatch.groups.guarded_process import LOOK_S, GuardedProcess
from actors.dispatch.groups.process_group import widen
from actors.dispatch.groups.process_reader import READER
from actors.model.clock import monotonic

if TYPE_CHECKING:
    from actors.dispatch.command.command_incarnation import CommandIncarnation

CHUNK: Final = 1024 * 1024
SEARCHED: Final = 64 * 1024
"""Bytes read at once where each line is looked at: other commands have their turn in between."""
MOST_LEFT: Final = 4 * CHUNK
"""Output that is read after the end: another process may hold the stream open, and write on."""
TELL_LOST_S: Final = 1.0

Stream: TypeAlias = Literal["stdout", "stderr"]


class CommandProcess:
    """A process that leads a group of its own."""

    def __init__(self, program: Program, owner: CommandIncarnation, *, looks: Callable[[], bool]) -> None:
        """Start it.

        Args:
            program: what.
            owner: is told what becomes of it, on the reader's thread.
            looks: True as long as every line is to be looked at, however many there are.

        Raises:
            OSError: it cannot be started.
        """
        self._owner = owner
        self._looks = looks
        self._may_linger = False
        """True where the others of its group have time to end, after it: it was asked to stop."""
        self._lost = 0
        self._allowance = Allowance(monotonic)
        self.tail = Tail()
        env = {**os.environ, **(program.env or {})}
        self._process = GuardedProcess(program.argv, env=env, cwd=program.cwd)
        self.pid = self._process.pid
        self._open: dict[int, tuple[Stream, IO[bytes], Lines]] = {}

    def watch(self) -> None:
        """Have the reader's thread take it over. What becomes of it is told from now on.

        Raises:
            RuntimeError: the machine gives no more threads; it is ended.
        """
        self._process.on_reader(self._begin)

    # -- from any thread -----------------------------------------------------------------------------------

    def stop(self, number: int) -> None:
        """Ask the whole group to end."""
        self._may_linger = True
        self._process.signal(number)

    def kill(self) -> None:
        """End the whole group."""
        self._may_linger = False
        self._process.kill()

    # -- on the reader's thread ----------------------------------------------------------------------------

    def _begin(self) -> None:
        streams: tuple[Stream, Stream] = ("stdout", "stderr")
        for stream, pipe in zip(streams, self._process.outputs, strict=True):
            fd = pipe.fileno()
            os.set_blocking(fd, False)
            widen(fd, CHUNK)
            self._open[fd] = (stream, pipe, Lines())
            READER.watch(fd, lambda fd=fd: self._read(fd))  # type: ignore[misc]
        self._process.watch(self._wait_for_others)

    def _read(self, fd: int) -> int:
        """Read what is there; how much that was."""
        looks = self._looks()
        try:
            data = os.read(fd, SEARCHED if looks else CHUNK)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        stream, pipe, lines = self._open[fd]
        most = self._allowance.lines()
        if data:
            now, tail, lost = lines.feed(data, len(data) if looks else most)
        else:
            now, tail, lost = lines.end(), [], 0
            READER.forget(fd)
            del self._open[fd]
            pipe.close()
        all_ = now
        if looks and data:
            now, tail, lost = now[:most], now[most:][-KEPT:], max(0, len(now) - most)
        self._pass_on(stream, now, tail, lost)
        if looks:
            self._owner.said([text_of(line) for line in all_])
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

    def _wait_for_others(self) -> None:
        if self._may_linger and self._process.has_others():
            READER.later(LOOK_S, self._wait_for_others)
            return
        left = MOST_LEFT
        self._process.end_group()
        for fd in list(self._open):
            while fd in self._open and left > 0 and (read := self._read(fd)):
                left -= read
        for fd, (stream, pipe, lines) in self._open.copy().items():  # somebody else holds these
            self._pass_on(stream, lines.end(), [], 0)
            READER.forget(fd)
            del self._open[fd]
            pipe.close()
        self._tell_lost()
        returncode = self._process.reap()
        self._process.when_gone(lambda: self._owner.ended(returncode))
