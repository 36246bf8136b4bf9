"""``python -m tests.faults.two_leaders --rounds 20 [--store sqlite|postgres] [--how HOW] [--seed N] [--lease 2]``.

Each round two processes are candidates for one tree (``tests.faults.candidate``), and at a random moment of a long task
something happens to the one that leads:

* ``kill``: SIGKILL.
* ``freeze``: SIGSTOP; it goes on some time after the other one has taken over.
* ``cut``: its way to PostgreSQL is cut, for it alone. SQLite: a third process locks the file, for both.
* ``silent``: the same where nothing is refused and nothing answered (PostgreSQL only).
* ``stop``: it is told to stop.

Then it is checked that the other one leads within the lease and a second (after a lock: once the file is free); that
one which is cut off or frozen loses its lead, and the former before the other one has it; that no line of the effects
has an older token than one before it, and no token belongs to two; and that the task comes to its end with nothing left
undone. One freeze is not tried: in the middle of a write to SQLite, where nobody can take over until it goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import signal
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from actors.model.clock import unstopped
from tests.faults.candidate import LAYERS, TASK, WIDTH
from tests.faults.fresh import KINDS, databases
from tests.faults.proxy import Proxy
from tests.support import programs
from trees import TaskFinished
from trees.store import SqlStore

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
GRACE_S = 1.0
"""How much longer than the lease a takeover may take: the tree is started in this time."""
LEASE_S = 2.0
HOWS = ("kill", "freeze", "cut", "silent", "stop")


class Wrong(AssertionError):  # noqa: N818 - a finding
    """Two led, or nobody did, or something was lost."""


@dataclass(frozen=True)
class Said:
    """One line that a process has said."""

    at: float
    words: tuple[str, ...]

    def is_role(self, role: str) -> bool:
        return self.words[:2] == ("role", role)

    @property
    def token(self) -> int:
        return int(self.words[2])


class Process:
    """One candidate."""

    def __init__(self, url: str, effects: Path, name: str, lease_s: float) -> None:
        self.name = name
        self._changed = threading.Condition()
        self.said: list[Said] = []
        words = ("-m", "tests.faults.candidate", url, effects, name, lease_s)
        self._popen = programs.python(*words, cwd=ROOT, talks=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._popen.stdout is not None
        for line in self._popen.stdout:
            at, *words = line.split()
            with self._changed:
                self.said.append(Said(float(at), tuple(words)))
                self._changed.notify_all()

    def wait_for(self, fits: Callable[[Said], bool], within_s: float = PATIENCE_S) -> Said:
        """The first line that fits, also one that was said before."""

        def found() -> Said | None:
            return next((said for said in self.said if fits(said)), None)

        with self._changed:
            line = self._changed.wait_for(found, within_s)
        if line is None:
            raise Wrong(f"{self.name} has not said what was waited for in {within_s:.1f} s, but {self.story()}")
        return line

    def story(self) -> str:
        return "\n    ".join(["", *(f"{said.at:.3f} {self.name} {' '.join(said.words)}" for said in self.said)])

    def order(self, word: str) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write(f"{word}\n")
        self._popen.stdin.flush()

    def send(self, signum: signal.Signals) -> None:
        self._popen.send_signal(signum)

    def wait_until_stopped(self) -> None:
        """After a SIGSTOP: nothing of it runs any more."""
        programs.wait_until_stopped(self._popen)

    def close(self) -> None:
        """Leave nothing of it."""
        self._popen.kill()
        self._popen.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        with contextlib.suppress(BrokenPipeError), self._popen:
            assert not self._reader.is_alive()


class Round:
    """Two processes, and what becomes of them."""

    def __init__(self, url: str, folder: Path, lease_s: float, dice: random.Random, grace_s: float) -> None:
        self.url = url
        self.lease_s = lease_s
        self.grace_s = grace_s
        self.dice = dice
        self.effects = folder / "effects"
        self.file = Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite") else None
        self.proxies: list[Proxy] = []
        self.processes: list[Process] = []
        self.frozen_at = 0.0
        """Whoever had begun an effect by then may have read its token and not written yet: only the receiver of an
        effect can refuse that, and a file does not."""

    def add(self, name: str) -> Process:
        """One more candidate, on its own way to the store."""
        url = self.url
        if self.file is None:
            proxy = Proxy(url)
            self.proxies.append(proxy)
            url = proxy.url
        process = Process(url, self.effects, name, self.lease_s)
        self.processes.append(process)
        return process

    def leads(self, process: Process, after: int = 0, within_s: float = PATIENCE_S) -> Said:
        """Wait until it leads, with a token larger than ``after``."""
        return process.wait_for(lambda said: said.is_role("leader") and said.token > after, within_s)

    def lost(self, process: Process, since: float) -> Said:
        """Wait until it says that it does not lead any more."""
        return process.wait_for(lambda said: said.at > since and said.is_role("stopped"))

    def pause(self, most_s: float) -> None:
        threading.Event().wait(self.dice.uniform(0.05, most_s))

    # -- what happens --------------------------------------------------------------------------------------

    def kill(self, leader: Process, other: Process, token: int) -> float:
        since = unstopped()
        leader.send(signal.SIGKILL)
        return self.taken_over(other, token, since, self.lease_s + self.grace_s)

    def stop(self, leader: Process, other: Process, token: int) -> float:
        since = unstopped()
        leader.order("stop")
        taken = self.taken_over(other, token, since, self.grace_s + self.lease_s / 4)
        if self.lost(leader, since).at > self.leads(other, token).at:
            raise Wrong(f"{other.name} led before {leader.name} had stopped {self.story()}")
        return taken

    def freeze(self, leader: Process, other: Process, token: int) -> float:
        while True:
            since = unstopped()
            leader.send(signal.SIGSTOP)
            if self.file is None or _is_free(self.file):
                break
            leader.send(signal.SIGCONT)
            self.pause(0.1)
        leader.wait_until_stopped()
        self.frozen_at = unstopped()
        try:
            taken = self.taken_over(other, token, since, self.lease_s + self.grace_s)
            self.pause(1.0)
        finally:
            leader.send(signal.SIGCONT)
        leader.wait_for(lambda said: said.at > since and said.words[0] == "ended", self.lease_s + 5.0)
        return taken

    def cut(self, leader: Process, other: Process, token: int, *, silent: bool = False) -> float:
        if self.file is not None:
            return self.lock(self.file, leader, other, token)
        proxy = self.proxies[self.processes.index(leader)]
        since = unstopped()
        (proxy.silence if silent else proxy.cut)()
        taken = self.taken_over(other, token, since, self.lease_s + self.grace_s)
        if self.lost(leader, since).at > self.leads(other, token).at:
            raise Wrong(f"{other.name} led before {leader.name} had lost it {self.story()}")
        self.pause(1.0)
        proxy.restore()
        leader.wait_for(lambda said: said.at > since and said.words[0] == "ended", self.lease_s + 5.0)
        return taken

    def silent(self, leader: Process, other: Process, token: int) -> float:
        return self.cut(leader, other, token, silent=True)

    def lock(self, file: Path, leader: Process, other: Process, token: int) -> float:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=10.0)) as third:
            third.execute("BEGIN IMMEDIATE")
            locked = unstopped()
            if self.lost(leader, locked).at > locked + self.lease_s:
                raise Wrong(f"{leader.name} led for longer than its lease without a store {self.story()}")
            self.pause(self.lease_s)
            third.execute("COMMIT")
            free = unstopped()
        both = [leader, other]  # the one that has lost it has started again, and has the same right to it
        left_s = max(0.0, locked + self.lease_s - free)
        self.wait_for_any(both, token, left_s + self.grace_s + self.lease_s / 4)
        return unstopped() - free

    # -- what must be --------------------------------------------------------------------------------------

    def taken_over(self, other: Process, token: int, since: float, within_s: float) -> float:
        """How long it took until the other one led."""
        took = self.leads(other, token).at - since
        if took > within_s:
            raise Wrong(f"{other.name} led after {took:.2f} s, not within {within_s:.2f} s {self.story()}")
        return took

    def wait_for_any(self, processes: list[Process], token: int, within_s: float) -> None:
        until = monotonic() + within_s
        while monotonic() < until:
            for process in processes:
                with contextlib.suppress(Wrong):
                    self.leads(process, token, 0.05)
                    return
        raise Wrong(f"nobody led within {within_s:.2f} s {self.story()}")

    def finished(self) -> None:
        """The task has come to its end."""
        until = monotonic() + PATIENCE_S
        while monotonic() < until:
            for process in self.processes:
                with contextlib.suppress(Wrong):
                    process.wait_for(lambda said: said.words[0] == "finished", 0.1)
                    return
        raise Wrong(f"the task has not come to its end {self.story()}")

    def check(self) -> None:
        """What was done, by whom, and that all of it was."""
        lines = [line.split() for line in self.effects.read_text().splitlines()]
        newest, owners = 0, dict[int, str]()
        for token, name, subtask, began in ((int(line[0]), line[1], line[2], float(line[3])) for line in lines):
            if token < newest and began > self.frozen_at:
                raise Wrong(f"{name} did {subtask} with token {token} after somebody had token {newest} {self.story()}")
            newest = max(newest, token)
            if owners.setdefault(token, name) != name:
                raise Wrong(f"token {token} belongs to {owners[token]} and {name} {self.story()}")
        wanted = {f"s{layer}.{place}" for layer in range(LAYERS) for place in range(WIDTH)}
        done = {line[2] for line in lines}
        if done != wanted:
            raise Wrong(f"not done: {sorted(wanted - done)}")
        self.is_kept()

    def is_kept(self) -> None:
        """That is in the store, or will be in a moment: it was told when it was about to be written."""
        until = monotonic() + PATIENCE_S
        with contextlib.closing(SqlStore.look(self.url)) as store:
            while not isinstance(end := store.read(TASK)[-1], TaskFinished) and monotonic() < until:
                threading.Event().wait(0.05)
        if not isinstance(end, TaskFinished) or end.status != "succeeded":
            raise Wrong(f"the task is not kept as succeeded, its last record is {type(end).__name__}")

    def story(self) -> str:
        return "".join(process.story() for process in self.processes)

    def dumps(self) -> str:
        """What they say of themselves now."""
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.order("dump")
        self.pause(0.5)
        return "".join(f"\n    {process.said[-1]}" for process in self.processes)

    def close(self) -> None:
        """Leave nothing of it."""
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                process.send(signal.SIGCONT)
            process.close()
        for proxy in self.proxies:
            proxy.close()


def _is_free(file: Path) -> bool:
    """Whether nobody is in the middle of a write."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None, timeout=0.05)) as probe:
        try:
            probe.execute("BEGIN IMMEDIATE")
            probe.execute("COMMIT")
        except sqlite3.OperationalError:
            return False
    return True


@contextlib.contextmanager
def closing(run: Round) -> Iterator[Round]:
    try:
        yield run
    finally:
        run.close()


def play(url: str, folder: Path, how: str, lease_s: float, dice: random.Random, *, grace_s: float = GRACE_S) -> float:
    """One round: how long it took until the other one led, which may be the lease and ``grace_s``."""
    with closing(Round(url, folder, lease_s, dice, grace_s)) as run:
        leader = run.add("a")
        token = run.leads(leader).token
        other = run.add("b")
        other.wait_for(lambda said: said.is_role("standby"))
        leader.order("submit")
        leader.wait_for(lambda said: said.words[0] == "submitted")
        run.pause(0.8)
        try:
            took: float = getattr(run, how)(leader, other, token)
            run.finished()
            run.check()
        except Wrong as error:
            raise Wrong(f"{error}{run.dumps()}") from error
        return took


def two_leaders(
    which: str, hows: list[str], rounds: int, lease_s: float, seed: int, say: Callable[[str], object]
) -> dict[str, list[float]]:
    """So many rounds of each on one kind of database; how long each takeover took."""
    dice = random.Random(seed)  # noqa: S311 - to be repeated
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place, databases(which) as fresh:
        for how in hows:
            if how == "silent" and which == "sqlite":
                continue
            began = monotonic()
            for number in range(rounds):
                folder = Path(tempfile.mkdtemp(dir=place))
                try:
                    times.setdefault(how, []).append(play(fresh(), folder, how, lease_s, dice))
                except Wrong as error:
                    raise Wrong(f"{which}, {how}, round {number}, seed {seed}: {error}") from error
            found = sorted(times[how])
            say(
                f"{which}, {how}: {rounds} rounds, lease {lease_s:g} s, takeover {found[0]:.2f} to {found[-1]:.2f} s, "
                f"median {found[len(found) // 2]:.2f}; never two, nothing lost; {monotonic() - began:.0f} s"
            )
    return times


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.two_leaders", description="Who leads, whatever happens."
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--store", choices=KINDS, help="default: both, one after the other")
    parser.add_argument("--how", choices=HOWS, help="default: all, one after the other")
    parser.add_argument("--lease", type=float, default=LEASE_S)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else secrets.randbits(32)
    print(f"seed {seed}, {os.cpu_count()} cores", flush=True)
    for which in [chosen.store] if chosen.store else KINDS:
        hows = [chosen.how] if chosen.how else list(HOWS)
        two_leaders(which, hows, chosen.rounds, chosen.lease, seed, lambda text: print(text, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
