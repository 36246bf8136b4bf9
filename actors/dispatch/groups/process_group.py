"""Process groups of this host, and the guardian that ends them where the host cannot.

Every process that a worker starts leads a group (``start_new_session=True``). A guardian (a small program of
``/bin/sh``, one for each host) hears of each group through a pipe. Whatever the host dies of, kill -9 too, the pipe
ends, and the guardian kills all groups. It needs no Python: a frozen program, an embedded interpreter and a zip
application have no ``sys.executable`` that runs a file of ours. What leaves its group (``setsid``) is not ours.

A guardian that was killed is replaced, and told all groups, as soon as anybody looks (``mended``): a reader of
processes is called when its pipe ends. The order of a start is: ``mended``, start, ``guard``; that of an end: kill the
group, ``unguard``, reap. So a number is never sent to a group that is not ours.
``actors.dispatch.groups.guarded_process`` keeps that order, for commands and for servers of tools alike.

``_lock`` guards the books and the pipe of the guardian. Nothing waits while it is held.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from actors.model.log_lines import Line, place_of, write

SHELL: Final = "/bin/sh"
_GUARDIAN: Final = """
groups=' '
while read -r line; do
  group=${line#?}
  case $line in
    +*) groups="$groups$group " ;;
    -*) case $groups in *" $group "*) groups="${groups%%" $group "*} ${groups#*" $group "}" ;; esac ;;
  esac
done
for group in $groups; do kill -9 -"$group"; done
"""
"""It reads a line ``+PGID`` or ``-PGID`` for each group that begins or ends. Its input ends with the host."""
_BLOCKED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class GuardianError(RuntimeError):
    """The guardian could not be started, so nothing would end processes when their host dies."""

    def __str__(self) -> str:
        return f"{SHELL}, which ends commands and processes when this program is killed, cannot be run: {self.args[0]}"


class ProcessGroups:
    """Process groups that this host has started, and its guardian."""

    _follows_forks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: set[int] = set()
        self._told: int | None = None
        """Pipe to the guardian."""
        self._alive: int | None = None
        """Pipe that ends when the guardian does."""
        self._guardian = 0
        self._ended: list[int] = []
        """Guardians that have ended, or are about to, and were not reaped yet."""

    def guard(self, group: int) -> None:
        """Have the guardian end this group if the host dies.

        Raises:
            GuardianError: the guardian cannot be started.
        """
        with self._lock:
            self._groups.add(group)
            if self._told is None or not self._tell(b"+%d\n" % group):
                self._start()

    def unguard(self, group: int) -> None:
        """Forget a group that is over. Before its leader is reaped: its number may be another's after that."""
        with self._lock:
            self._groups.discard(group)
            if self._told is not None:
                self._tell(b"-%d\n" % group)

    def mended(self) -> None:
        """See to it that there is a guardian.

        Raises:
            GuardianError: it cannot be started.
        """
        with self._lock:
            mind_children()
            self._reap()
            if self._told is None:
                self._start()

    def alive(self) -> int | None:
        """Return a pipe, the caller's to close, that ends when the present guardian does; None: there is none."""
        with self._lock:
            return None if self._alive is None else os.dup(self._alive)

    def dismiss(self) -> bool:
        """Let the guardian go where no group is left; False where one is."""
        with self._lock:
            if self._groups:
                return False
            self._end()
            ended, self._ended = self._ended, []
        for pid in ended:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
        return True

    def _forked(self) -> None:
        """In the child of a fork: the groups and the guardian are those of the parent."""
        for fd in (self._told, self._alive):
            if fd is not None:
                os.close(fd)
        self.__init__()  # type: ignore[misc]

    # -- with the lock held --------------------------------------------------------------------------------

    def _start(self) -> None:
        """Start a guardian where there is none, and tell it everything."""
        if not self._follows_forks:
            self._follows_forks = True
            os.register_at_fork(after_in_child=self._forked)
        pipes: list[int] = []
        try:
            heard, told = _pipe(pipes)
            alive, kept = _pipe(pipes)
            self._guardian = os.posix_spawn(
                SHELL,
                [SHELL, "-c", _GUARDIAN, f"guardian of {os.getpid()}"],
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, heard, 0),
                    (os.POSIX_SPAWN_DUP2, kept, 1),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                setpgroup=0,
                setsigmask=_BLOCKED,  # Ctrl-C and a service manager mean the host: this one ends after it
            )
            pipes.remove(told)
            pipes.remove(alive)
        except OSError as error:
            raise GuardianError(error.strerror) from error
        finally:
            for each in pipes:
                os.close(each)
        os.set_blocking(told, False)
        self._told, self._alive = told, alive
        for group in self._groups:
            if not self._tell(b"+%d\n" % group):
                break

    def _tell(self, line: bytes) -> bool:
        """Tell the guardian; False where it is gone, or hears nothing any more."""
        try:
            os.write(self._told if self._told is not None else -1, line)
        except OSError:
            self._end()
            return False
        return True

    def _end(self) -> None:
        """End the guardian, before its pipe: that would mean the end of this host to it."""
        if self._told is not None:
            with suppress(ProcessLookupError):
                os.kill(self._guardian, signal.SIGKILL)  # it is not reaped, so the number is still its own
            self._close()

    def _close(self, *, reaped: bool = False) -> None:
        if self._told is None:
            return
        os.close(self._told)
        if self._alive is not None:
            os.close(self._alive)
        if not reaped:
            self._ended.append(self._guardian)
        self._told = self._alive = None

    def _reap(self) -> None:
        """Note that the guardian has ended, and let go of those that have."""
        if self._told is not None and _has_ended(self._guardian):
            self._close(reaped=True)
        self._ended = [pid for pid in self._ended if not _has_ended(pid)]


def mind_children() -> None:
    """Have the system keep the exit codes of children: while SIGCHLD is ignored, it throws them away.

    A program inherits that from what has started it. Python sets signals on the main thread only, and this is any.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN and not _minded:
        _minded.append(True)
        text = "SIGCHLD was ignored, so exit codes of commands were lost: it is set to its default now"
        write("WARNING", lambda: Line(text, place_of(None, "processes")))
        ctypes.pythonapi.PyOS_setsig(signal.SIGCHLD, None)


_minded: Final[list[bool]] = []


def _pipe(opened: list[int]) -> tuple[int, int]:
    ends = os.pipe()
    opened.extend(ends)
    return ends


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True


_CHEAP_LOOKS: Final = 5
GONE_PAUSES: Final = (0.001, 0.002, 0.004, 0.008, 0.016, *[0.05] * 20)
"""Seconds after each look if a group that was killed is gone; after the last one nobody waits for it any longer."""
_EXIT_CODE: Final = 49
"""Place of the exit code in ``/proc/PID/stat``, counted from the state of the process."""
GROUPS: Final = ProcessGroups()
"""The groups of this host."""


def guard(group: int) -> None:
    """Have this process group killed if the host dies."""
    GROUPS.guard(group)


def end_group(group: int) -> None:
    """Kill what is left of a group, and forget it. To be called before its leader is reaped."""
    signal_group(group, signal.SIGKILL)
    GROUPS.unguard(group)


def signal_group(group: int, number: int) -> bool:
    """Send a signal to all of a group; False where nothing of it is there."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def named_signal(number: int) -> int:
    """Return the signal of this number: a ``signal.Signals``, or the number of one of real time."""
    try:
        return signal.Signals(number)
    except ValueError:
        return number


def has_others(group: int) -> bool:
    """True if a process of this group other than its leader is there still, where the system shows that."""
    return any(pid != group and _group_of(pid) == group for pid in _pids())


def runs_still(group: int, look: int) -> bool:
    """True if a process of a group that was killed is there still; ``look`` counts the looks, from 0 on.

    The system takes a moment to end a process, longer where it has much memory; up to then its ports and locks are
    taken. The first looks cost one call each, and take a dead process that nobody has reaped for one that runs.
    """
    return signal_group(group, 0) and (look < _CHEAP_LOOKS or has_others(group))


def _pids() -> list[int]:
    try:
        return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    except OSError:
        return []


def _group_of(pid: int) -> int | None:
    """Return the group of a process that runs; None for a dead one."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, _, group = stat.rpartition(b")")[2].split()[:3]
    return None if state in {b"Z", b"X"} else int(group)


def exit_code_of_dead(pid: int) -> int | None:
    """Return the exit code of a dead process that its parent has not reaped, as multiprocessing has it.

    None where the system does not show it. A code of 0 counts as not shown: Linux writes it also where it tells none.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (os.waitstatus_to_exitcode(int(fields[_EXIT_CODE])) or None) if fields[0] == b"Z" else None
    except (OSError, ValueError, IndexError):
        return None


def widen(pipe: int, size: int) -> None:
    """Give a pipe more room, where the system can: fewer, larger reads."""
    resize = getattr(fcntl, "F_SETPIPE_SZ", None)
    if resize is not None:
        with suppress(OSError):
            fcntl.fcntl(pipe, resize, size)
