"""One process of a worker, as its host holds it: how it is started, and how its end is seen.

All of this runs on the thread of one event loop, which reads for all processes of its tree; only the fork server is
asked on another thread, because starting it takes long. Nothing here blocks.

The end is seen from three sides. The fork server tells the exit code through a pipe; the system shows it as well, but
for 0, until the server reaps the process, so a server that is stopped delays nothing. That a process is gone is told
by a pidfd; where there is none (before ``HELLO``, and not on Linux) by the end of its wire. It is then over as soon
as its code has come, or the pipe has ended without one: the server was killed, so nobody knows the code. The end of
that pipe alone says nothing of the process, which goes on without the server. All that the process has written before
is read, its group is killed and forgotten by the guardian, and ``died`` is told, once. A wire that ends under a
process that runs is its end as well: it is killed.

=====================  ==============================================================================================
the host gives it up   then
=====================  ==============================================================================================
before ``HELLO``       its wire ends: it goes away, and no code of a user has run in it
after ``HELLO``        its group is guarded, and is killed
the host dies          the guardian kills all groups (``actors.dispatch.groups.process_group``)
=====================  ==============================================================================================
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import Final

from actors.dispatch.groups.process_group import (
    GONE_PAUSES,
    end_group,
    exit_code_of_dead,
    guard,
    runs_still,
    signal_group,
)
from actors.dispatch.groups.process_reader import READER, see_to_guardian
from actors.dispatch.host.fork_server import SERVERS, ForkServer
from actors.dispatch.host.worker_handle import HandleOwner, WorkerHandle
from actors.dispatch.remote import CHUNK

CODE_S: Final = 1.0
"""Seconds in which the fork server tells the exit code of a process that is gone, if it is there and does anything."""
_NUMBER: Final = Struct("@q")


@dataclass(frozen=True, slots=True)
class ForkedPlace:
    """Place of workers whose incarnations are processes of this host."""

    modules: tuple[str, ...]
    """Modules that the fork server imports once."""

    def handle(self, owner: HandleOwner) -> ForkedHandle:
        """Return the handle of one incarnation."""
        return ForkedHandle(owner, SERVERS.of(self.modules))


class ForkedHandle(WorkerHandle):
    """One process. Used on the thread of one event loop."""

    def __init__(self, owner: HandleOwner, server: ForkServer) -> None:
        super().__init__(owner)
        self._server = server
        self.environment = dict(os.environ)
        see_to_guardian()
        self._status = self._pidfd = -1
        self._group = 0
        """Number of its group, also when it is gone."""
        self._is_handed_over = False
        """True once the worker's end of the wire is closed by whoever starts the process."""
        self._told = b""
        self._hello: asyncio.Future[int] = self._loop.create_future()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._code_due: asyncio.TimerHandle | None = None
        """When its exit code is waited for no longer."""
        self._is_dead = self._is_untold = False
        """True once the process is gone; once the fork server will never tell its exit code."""

    # -- its start -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Have it started; returns when it is there, and is guarded.

        Raises:
            OSError: it cannot be.
        """
        job = self._loop.run_in_executor(None, self._server.start_process, self._theirs)
        self._is_handed_over = True
        try:
            self._status = await asyncio.shield(job)
        except asyncio.CancelledError:
            job.add_done_callback(_close_result)
            raise
        os.set_blocking(self._status, False)
        self._loop.add_reader(self._status, self._status_readable)
        self._listen()
        await self._hello

    def _said_hello(self, pid: int) -> None:
        try:
            guard(pid)
            READER.call(READER.hold)
        except (OSError, RuntimeError) as error:  # nobody can see to it: it goes away with its wire
            end_group(pid)
            if not self._hello.done():
                self._hello.set_exception(error)
            return
        self.pid = self._group = pid
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                self._pidfd = os.pidfd_open(pid)
                self._loop.add_reader(self._pidfd, self._has_died)
        if not self._hello.done():
            self._hello.set_result(pid)

    # -- its end -------------------------------------------------------------------------------------------

    def _wire_ended(self) -> None:
        self.kill()  # it has closed its wire: nobody can reach it any more
        if self._pidfd < 0:
            self._has_died()

    def _status_readable(self) -> None:
        with suppress(BlockingIOError, InterruptedError):
            data = os.read(self._status, CHUNK)
            self._told += data
            if not data:
                self._loop.remove_reader(self._status)  # the fork server is gone, the process may go on
                self._is_untold = True
                if self._is_dead:
                    self._has_ended(None)
            elif len(self._told) >= 2 * _NUMBER.size:
                self._has_ended(_NUMBER.unpack_from(self._told, _NUMBER.size)[0])

    def _has_died(self) -> None:
        """The process is gone. Its code is shown until the fork server reaps it, which tells it in a moment."""
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
        self._is_dead = True
        code = None if self.pid is None else exit_code_of_dead(self.pid)
        if self._is_untold or code is not None:
            self._has_ended(code)
        else:
            self._code_due = self._loop.call_later(CODE_S, self._has_ended, None)

    def _has_ended(self, code: int | None) -> None:
        if self._is_gone or not self._is_open:
            return
        self._is_gone = True  # first: who gets an answer now may have the next message at hand, which nobody reads
        self._drain()
        self._forget()
        if not self._hello.done():
            self._hello.set_exception(ChildProcessError("the process has ended before it said anything"))
        if not self._over.done():
            self._over.set_result(None)
        if code is not None and code < 0:
            self._owner.died(None, -code, pid=self._group)
        else:
            self._owner.died(code, None, pid=self._group)

    def _forget(self) -> None:
        """Kill what is left of its group, and have it guarded no longer."""
        if self.pid is not None:
            end_group(self.pid)
            self.pid = None
            READER.call(READER.release)

    def kill(self) -> None:
        """Kill the whole group; its end is told as any."""
        if self.pid is not None:
            signal_group(self.pid, signal.SIGKILL)

    async def end(self) -> None:
        """Kill it, and wait until it is gone, with all of its group: what comes next finds ports and locks free."""
        try:
            if self.pid is not None:
                signal_group(self.pid, signal.SIGKILL)
                await self._over
        finally:
            self._close()
        for look, pause in enumerate(GONE_PAUSES if self._group else ()):
            # Off the loop: one of the later looks is at all processes of the system.
            if not signal_group(self._group, 0) or not await asyncio.to_thread(runs_still, self._group, look):
                break
            await asyncio.sleep(pause)

    def _close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._code_due is not None:
            self._code_due.cancel()
        self._forget()
        for pipe in (self._status, self._pidfd):
            if pipe >= 0:
                self._loop.remove_reader(pipe)
                os.close(pipe)
        self._close_wire()
        if not self._is_handed_over:  # it was called off before it began
            self._theirs.close()


def _close_result(job: asyncio.Future[int]) -> None:
    """A process was started that nobody wants any more: its wire has ended, so it goes."""
    if not job.cancelled() and job.exception() is None:
        os.close(job.result())
