"""What is done to the processes from outside.

A process is struck by its pidfd, and only where its environment carries the mark of this host: a number that has become
another's meanwhile is never hit. Whatever is stopped is continued, or killed, by the same strike.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from actors import ActorsError
from actors.dispatch.groups.process_group import GROUPS
from actors.dispatch.host.fork_server import SERVERS
from tests.faults.kill_workers.declared import VICTIMS
from tests.faults.kill_workers.far import FarStriker
from trees import Tree, WorkerSpec

MARK = f"REGROW_RAMPAGE={os.getpid()}"
os.environ.update([MARK.split("=")])  # inherited by all that this host starts
STOPPED_S = 0.3
"""The longest that anything is stopped for."""
FAR = 0.15
"""Share of the strikes at the cluster: what is struck there takes a second to come back."""


def marked(pid: int) -> bool:
    """True for a live process that belongs to this host."""
    try:
        return MARK.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


def all_marked() -> list[int]:
    """Every process that belongs to this host."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and marked(int(each.name))]


@contextmanager
def held(pid: int | None) -> Iterator[int | None]:
    """A pidfd of a process of this host; None: it is gone."""
    fd = None
    with suppress(OSError):
        fd = None if pid is None else os.pidfd_open(pid)
    try:
        yield fd if fd is not None and pid is not None and marked(pid) else None
    finally:
        if fd is not None:
            os.close(fd)


class Striker:
    """Strikes at random."""

    def __init__(self, tree: Tree, dice: random.Random, renewed: WorkerSpec, far: FarStriker | None = None) -> None:
        self._tree = tree
        self._dice = dice
        self._far = far
        self._renewed = renewed
        self.done: Counter[str] = Counter()

    def strike(self) -> None:
        """One strike."""
        kinds = (self.kill, self.kill, self.kill_group, self.kill_group, self.stop, self.stop_group, self.stop_and_kill)
        rare = (self.kill_server, self.stop_server, self.kill_guardian, self.replace, self.renew)
        act = self._dice.choice(kinds if self._dice.random() < 0.8 else rare)
        if self._far is not None and self._dice.random() < FAR:
            act = self._dice.choice(self._far.kinds())
        if act():
            self.done[act.__name__] += 1

    def _victim(self) -> int | None:
        try:
            return self._tree.child(self._dice.choice(VICTIMS)).pid
        except ActorsError:
            return None

    def _server(self) -> int | None:
        servers = [each._server for each in SERVERS._servers.values()]
        running = [each.pid for each in servers if each is not None]
        return self._dice.choice(running) if running else None

    def _send(self, pid: int | None, *numbers: int, group: bool = False) -> bool:
        """Send these signals, with a pause between two; False where it was gone before the first."""
        with held(pid) as fd:
            if fd is None or pid is None:
                return False
            for count, number in enumerate(numbers):
                if count:
                    time.sleep(self._dice.uniform(0.0, STOPPED_S))
                with suppress(ProcessLookupError):
                    # A leader that is not reaped keeps the number of its group from being another's.
                    if group and marked(pid):
                        os.killpg(pid, number)
                    else:
                        signal.pidfd_send_signal(fd, number)
        return True

    def kill(self) -> bool:
        """Kill one process."""
        return self._send(self._victim(), signal.SIGKILL)

    def kill_group(self) -> bool:
        """Kill a whole group."""
        return self._send(self._victim(), signal.SIGKILL, group=True)

    def stop(self) -> bool:
        """Stop one process, and continue it."""
        return self._send(self._victim(), signal.SIGSTOP, signal.SIGCONT)

    def stop_group(self) -> bool:
        """Stop a whole group, and continue it."""
        return self._send(self._victim(), signal.SIGSTOP, signal.SIGCONT, group=True)

    def stop_and_kill(self) -> bool:
        """Stop one process, and kill it: what it was handed over meanwhile it has never read."""
        return self._send(self._victim(), signal.SIGSTOP, signal.SIGKILL)

    def kill_server(self) -> bool:
        """Kill the fork server."""
        return self._send(self._server(), signal.SIGKILL)

    def stop_server(self) -> bool:
        """Stop the fork server, and continue it: whoever starts meanwhile waits."""
        return self._send(self._server(), signal.SIGSTOP, signal.SIGCONT)

    def kill_guardian(self) -> bool:
        """Kill the guardian. It is a child of this process: the number is its own until reaped."""
        with GROUPS._lock:
            if GROUPS._told is None:
                return False
            os.kill(GROUPS._guardian, signal.SIGKILL)
        return True

    def replace(self) -> bool:
        """Have a child ended by a call, and start it again."""
        path = self._dice.choice(("k/sync", "k/async", "k/server", "k/all/one", "k/rest/later", "k/all", "k/rest"))
        try:
            self._tree.terminate_child(path)
        finally:
            with suppress(ActorsError):  # a group that restarts has brought it back meanwhile
                self._tree.restart_child(path)
        return True

    def renew(self) -> bool:
        """Have a child deleted, with all that waits for it, and declared anew under its name."""
        path = f"k/{self._renewed.id}"
        self._tree.terminate_child(path)
        self._tree.delete_child(path)
        self._tree.start_child("k", self._renewed)
        return True
