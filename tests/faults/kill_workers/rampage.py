"""One run, and its verdict."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from actors import ActorsError, Ref, ReplyTimeoutError
from actors.dispatch.host.fork_server import SERVERS
from tests.faults.chaos.audit import listed
from tests.faults.kill_workers import far
from tests.faults.kill_workers.books import Books
from tests.faults.kill_workers.crew import DEEDS, FORWARD_S
from tests.faults.kill_workers.declared import HANGS, TARGETS, VICTIMS, declare, renewed_of
from tests.faults.kill_workers.far import FarStriker
from tests.faults.kill_workers.strikes import STOPPED_S, Striker, all_marked
from tests.support.clusters import RayCluster
from trees import Task, TaskHandle, Tree, start

SENDERS = 3
ASK_S = 60.0
"""An ask that takes longer was not answered."""
PATIENCE_S = 60.0
BETWEEN_S = 0.05
"""Seconds between two strikes, on average."""


@dataclass
class Rampage:
    """One run."""

    seed: int
    seconds: float
    cluster: RayCluster | None = None
    """Cluster that some of the workers run in."""
    books: Books = field(init=False)
    strikes: Counter[str] = field(default_factory=Counter)
    tasks: list[TaskHandle] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    summary: str = ""

    def __post_init__(self) -> None:
        self._refs: dict[str, Ref] = {}
        self._targets = TARGETS if self.cluster is None else (*TARGETS, *far.TARGETS)

    def run(self) -> bool:
        """Run it; False where a rule was broken."""
        before, self._others = set(threading.enumerate()), set(all_marked())
        with tempfile.TemporaryDirectory() as folder:
            self.books = Books(Path(folder, "notes"))
            self.books.notes.touch()
            self._rage()
            self.problems += self._left_in_the_cluster()
            self.problems += self.books.problems()
            self.summary = (
                f"seed {self.seed}, {self.seconds:g} s: {self.books}; tasks {len(self.tasks)}; strikes "
                + str(dict(self.strikes))
            )
        self.problems += self._left(before)
        return not self.problems

    def _rage(self) -> None:
        notes, dice = str(self.books.notes), random.Random(f"{self.seed} strikes")  # noqa: S311 - to be repeated
        in_cluster = None if self.cluster is None else FarStriker(self.cluster, dice, notes, STOPPED_S)
        spec = declare(notes, *([] if in_cluster is None else [far.declare(notes)]))
        tree = start(spec, seed=self.seed)
        tree.subscribe(self.books.hear)
        for info in listed(tree, "k"):  # nothing moves yet
            self.books.ledger.record(info.path).up = info.incarnation
        self._refs = {path: tree.ref(path) for path in self._targets}
        until = time.monotonic() + self.seconds
        jobs: list[Callable[[Tree, random.Random], None]] = [self._send] * SENDERS + [self._submit]
        striker = Striker(tree, dice, renewed_of(spec), in_cluster)
        self.strikes = striker.done
        threads = [
            threading.Thread(target=self._repeat, args=(job, tree, until, number), name=f"kill-load-{number}")
            for number, job in enumerate([*jobs, lambda *_: self._strike(striker)])
        ]
        for each in threads:
            each.start()
        if in_cluster is not None:
            in_cluster.lose_nodes(until)
            self.strikes["lose_node"] = in_cluster.nodes_lost
        for each in threads:
            each.join(self.seconds + self._ask_s(*self._targets) + PATIENCE_S)
        self.problems += [f"{each.name} hangs" for each in threads if each.is_alive()]
        self.problems += self._unfinished()
        self.problems += self._down(tree)
        if not tree.is_alive:
            self.problems.append("the root went down")
        if not tree.stop(timeout=PATIENCE_S):
            self.problems.append("the tree had to be killed at the end")

    # -- load ----------------------------------------------------------------------------------------------

    def _repeat(self, job: Callable[[Tree, random.Random], None], tree: Tree, until: float, number: int) -> None:
        dice = random.Random(f"{self.seed} load {number}")  # noqa: S311 - to be repeated
        while time.monotonic() < until:
            try:
                job(tree, dice)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is one for the verdict
                self.problems.append(f"{threading.current_thread().name} met {error!r}")
                return

    def _send(self, tree: Tree, dice: random.Random) -> None:
        """A few tells, or one ask, to some worker."""
        path, other = dice.choice(self._targets), dice.choice(self._targets)
        deed = "hang" if path == HANGS and dice.random() < 0.05 else dice.choice(DEEDS)
        ref = self._refs[path]  # of a path that may be gone, or be another's of its name
        if dice.random() < 0.5:
            for _ in range(dice.randint(1, 5)):
                ref.tell(self.books.tell(path, deed, other))
            return
        note = self.books.ask(path, deed, other)
        try:
            if ref.ask(note, timeout=self._ask_s(path)) != note.number:
                self.problems.append(f"{path}: ask {note.number} got the answer of another")
            self.books.answered.add(note.number)
        except ReplyTimeoutError:
            self.problems.append(
                f"{path}: ask {note.number} was not answered within {self._ask_s(path):g} s\n{tree.dump()}"
            )
        except (ActorsError, ValueError):
            pass  # what the worker died of is an answer, too
        self.books.ended.add(note.number)

    def _ask_s(self, *paths: str) -> float:
        return far.ASK_S if set(paths) & set(far.TARGETS) else ASK_S

    def _submit(self, tree: Tree, dice: random.Random) -> None:
        """A task, now and then."""
        self.tasks.append(tree.submit(Task("go"), "k/team"))
        time.sleep(dice.uniform(0.05, 0.2))

    def _strike(self, striker: Striker) -> None:
        time.sleep(random.uniform(0.0, 2 * BETWEEN_S))  # noqa: S311 - a pause
        striker.strike()

    # -- the end -------------------------------------------------------------------------------------------

    def _unfinished(self) -> list[str]:
        """Tasks that have not ended well: each attempt that was lost is tried again."""
        found, until = [], time.monotonic() + PATIENCE_S
        for each in self.tasks:
            try:
                each.result(max(0.01, until - time.monotonic()))
            except Exception as error:  # noqa: BLE001 - whatever it is, it is one for the verdict
                found.append(f"task {each.id} ended with {error!r}")
        return found

    def _down(self, tree: Tree) -> list[str]:
        """What does not stand, or does not answer, though nobody strikes any more."""
        until = time.monotonic() + self._ask_s(*self._targets)
        found = []
        for path in self._targets:
            note = self.books.ask(path, "work", path)
            while True:
                try:
                    tree.ref(path).ask(note, timeout=max(0.01, until - time.monotonic()))
                    self.books.answered.add(note.number)
                except (ActorsError, ValueError) as error:
                    if time.monotonic() < until and not isinstance(error, ReplyTimeoutError):
                        self.books.ended.add(note.number)
                        note = self.books.ask(path, "work", path)
                        time.sleep(FORWARD_S / 100)
                        continue
                    found.append(f"{path}: does not answer in the end: {error!r}\n{tree.dump()}")
                self.books.ended.add(note.number)
                break
        while (down := self._without_a_process(tree)) and time.monotonic() < until:
            time.sleep(FORWARD_S / 100)
        return [*found, *(f"{path}: has no process in the end\n{tree.dump()}" for path in down)]

    def _without_a_process(self, tree: Tree) -> list[str]:
        down = [path for path in VICTIMS if not _stands(tree, path)]
        if self.cluster is not None:
            down += [path for path in far.WORKERS if tree.child(path).state != "running"]
        return down

    def _left_in_the_cluster(self) -> list[str]:
        """Processes of workers in the cluster that outlive the tree."""
        until = time.monotonic() + PATIENCE_S
        while (left := far.processes(str(self.books.notes))) and time.monotonic() < until:
            time.sleep(0.05)
        return [f"process {pid} is left in the cluster: {_command(pid)}" for pid in left]

    def _ours_left(self) -> list[int]:
        """Those that were not there before, without Ray's own nodes and Python's resource tracker."""
        left = set(all_marked()) - self._others
        return [
            pid for pid in left if not any(word in _command(pid) for word in ("resource_tracker", "ray::", "/ray/"))
        ]

    def _left(self, before: set[threading.Thread]) -> list[str]:
        """Processes and threads that outlive the tree; the fork servers are let go first."""
        SERVERS.dismiss()
        until = time.monotonic() + PATIENCE_S
        while (left := self._ours_left()) and time.monotonic() < until:
            time.sleep(0.05)
        found = [f"process {pid} is left: {_command(pid)}" for pid in left]
        new = [each for each in threading.enumerate() if each not in before]
        for each in new:
            each.join(max(0.0, until - time.monotonic()))
        return found + [f"thread {each.name} is left" for each in new if each.is_alive()]


def _stands(tree: Tree, path: str) -> bool:
    try:
        return tree.child(path).pid is not None
    except ActorsError:
        return False


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return "gone meanwhile"
