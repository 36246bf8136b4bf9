"""One process that leads a group of its own and never outlives this host: what commands and servers of tools share.

It is told to the guardian (``actors.dispatch.groups.process_group``), and watched
by the reader's thread. Its end, in this order, so that no signal goes to a group whose number is another's by now::

    the leader has ended --> what is left of its group is killed --> forgotten by the guardian --> reaped
        --> nothing of the group runs any more

``_lock`` guards ``_is_reaped``: no signal is sent after that. Signals may be sent from any thread, and never block. It
is re-entrant: a finalizer that runs under it may stop this very process (``ref.stop``).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Final

from actors.dispatch.groups.process_group import GONE_PAUSES, end_group, guard, has_others, runs_still, signal_group
from actors.dispatch.groups.process_reader import READER, see_to_guardian

LOOK_S: Final = 0.05
"""Seconds between two looks, at what cannot be watched."""


LOST: Final = 255
"""Exit code where nobody knows it, as ``multiprocessing`` and ``asyncio`` have it: no normal end."""


class GuardedProcess:
    """A process, its pipes, and its group."""

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str | None = None, stdin: bool = False
    ) -> None:
        """Start it.

        Args:
            argv: program and arguments.
            env: whole environment.
            cwd: working directory.
            stdin: True: it is written to. Else it reads nothing.

        Raises:
            OSError: it cannot be started.
            RuntimeError: the machine gives no more threads.
            ValueError: a text holds what no program can be given.
        """
        self._lock = threading.RLock()
        self._is_reaped = False
        self._pidfd: int | None = None
        see_to_guardian()
        self._popen = subprocess.Popen(  # noqa: S603 - a command, in so many words; never a shell
            argv,
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.pid = self._popen.pid
        try:
            guard(self.pid)
        except BaseException:
            self.give_up()
            raise

    @property
    def stdin(self) -> IO[bytes] | None:
        """Pipe to it; whoever uses it closes it."""
        return self._popen.stdin

    @property
    def outputs(self) -> tuple[IO[bytes], IO[bytes]]:
        """Pipes of its stdout and stderr; whoever reads them closes them."""
        out, err = self._popen.stdout, self._popen.stderr
        assert out is not None  # noqa: S101 - it was started with both
        assert err is not None  # noqa: S101 - the same
        return out, err

    # -- from any thread -----------------------------------------------------------------------------------

    def signal(self, number: int) -> None:
        """Send a signal to the whole group, as long as its number is its own."""
        with self._lock:
            if not self._is_reaped:
                signal_group(self.pid, number)

    def kill(self) -> None:
        """End the whole group."""
        self.signal(signal.SIGKILL)

    def has_others(self) -> bool:
        """True if others of its group are there still."""
        return has_others(self.pid)

    def watch_from_afar(self, ended: Callable[[int], object]) -> None:
        """Have the reader's thread end it all when the leader has ended, and call ``ended(returncode)`` there.

        Raises:
            RuntimeError: the machine gives no more threads; it is ended.
        """

        def finish() -> None:
            self.end_group()
            ended(self.reap())

        self.on_reader(lambda: self.watch(finish))

    def on_reader(self, begin: Callable[[], object]) -> None:
        """Have the reader's thread take it over: it is ended where there is none.

        Raises:
            RuntimeError: the machine gives no more threads.
        """
        try:
            READER.call(begin)
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """End it, where the reader does not have it."""
        end_group(self.pid)
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()
        self.reap()

    # -- on the reader's thread ----------------------------------------------------------------------------

    def watch(self, leader_ended: Callable[[], object]) -> None:
        """Call ``leader_ended()`` once when the leader has ended; its group is there still."""
        with suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self.pid)
        if self._pidfd is None:
            self._look(leader_ended)
        else:
            READER.watch(self._pidfd, lambda: self._has_ended(leader_ended))

    def _look(self, leader_ended: Callable[[], object]) -> None:
        """Look if it has ended, where the system does not say so."""
        if _has_ended(self.pid):
            leader_ended()
        else:
            READER.later(LOOK_S, lambda: self._look(leader_ended))

    def _has_ended(self, leader_ended: Callable[[], object]) -> None:
        if self._pidfd is not None:
            READER.forget(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        leader_ended()

    def end_group(self) -> None:
        """Kill what is left of the group, and have the guardian forget it."""
        end_group(self.pid)

    def when_gone(self, act: Callable[[], object], look: int = 0) -> None:
        """Call ``act()`` once nothing of the group runs any more, or the system takes too long. After ``reap``."""
        if look < len(GONE_PAUSES) and runs_still(self.pid, look):
            READER.later(GONE_PAUSES[look], lambda: self.when_gone(act, look + 1))
        else:
            act()

    def reap(self) -> int:
        """Return its exit code, or, negative, the signal; from now on its number may be another's.

        ``LOST`` where other code of this program has waited for all children: nobody knows it then.
        """
        with self._lock:
            self._is_reaped = True
            try:
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                self._popen.returncode = LOST
            return self._popen.wait()


def _has_ended(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
