"""Workers in a cluster of Ray, where it is installed: their part of the tree, strikes at their processes and nodes.

Their processes are started by Ray, so they carry no mark of this host. They are known by the file of notes, which
stands in their environment.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.faults.kill_workers import crew
from tests.support.clusters import RayCluster
from trees import Backoff, Ray, SupervisorSpec, WorkerSpec

TARGETS = ("k/far/pool", "k/far/async")
"""Whom messages are sent to."""
WORKERS = ("k/far/pool#0", "k/far/pool#1", "k/far/async")
SIDE = "side"
"""Resource of the nodes that may be lost: one of two has all of the workers, or each has some."""
LOSSES_S = 10.0
"""Seconds between two losses of a node: a new one takes seconds to come up."""
NODE_TRIES = 3
ASK_S = 240.0
"""An ask that takes longer was not answered. Ray waits 60 s for a process that is killed before it is an actor's."""
ACTOR = b"ray::RayWorker"
"""Title that Ray gives to the process of an actor."""
_SHARE = 0.01


def declare(notes: str) -> SupervisorSpec:
    """The part of the tree that runs in the cluster."""
    place = Ray(num_cpus=_SHARE, resources={SIDE: _SHARE}, runtime_env={"env_vars": {crew.NOTES: notes}})
    rules: dict[str, Any] = {
        "dispatch": place,
        "shutdown": 1.0,
        "start_timeout_s": ASK_S,
        "backoff": Backoff(initial_s=0.01, max_s=0.05),
    }
    return SupervisorSpec(
        id="far",
        max_restarts=10**9,
        period_s=1.0,
        children=[
            WorkerSpec(id="pool", handle=crew.act, pool=2, **rules),
            WorkerSpec(id="async", actor=crew.Async, **rules),
        ],
    )


def processes(notes: str) -> list[int]:
    """Processes of the cluster that run workers, are about to, or were started by them."""
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit() and _carries(each, notes)]


def _carries(process: Path, notes: str) -> bool:
    try:
        return f"{crew.NOTES}={notes}".encode() in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _runs_an_actor(process: Path, notes: str) -> bool:
    """True for the process of an actor, which it is once it is up."""
    try:
        return (process / "cmdline").read_bytes().startswith(ACTOR) and _carries(process, notes)
    except OSError:
        return False


class FarStriker:
    """Strikes at random."""

    def __init__(self, cluster: RayCluster, dice: random.Random, notes: str, stopped_s: float) -> None:
        self._cluster = cluster
        self._dice = dice
        self._notes = notes
        self._stopped_s = stopped_s
        self._nodes = [self._new_node(), self._new_node()]
        self.nodes_lost = 0

    def kinds(self) -> tuple[Callable[[], bool], ...]:
        """What may be done."""
        return self.kill_actor, self.stop_actor, self.stop_and_kill_actor

    def _send(self, *numbers: int) -> bool:
        """Send these signals to one process, with a pause between two; False where there is none."""
        found = [pid for pid in processes(self._notes) if _runs_an_actor(Path(f"/proc/{pid}"), self._notes)]
        if not found:
            return False
        pid = self._dice.choice(found)
        with _held(pid, self._notes) as fd:
            if fd is None:
                return False
            for count, number in enumerate(numbers):
                if count:
                    time.sleep(self._dice.uniform(0.0, self._stopped_s))
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(fd, number)
        return True

    def kill_actor(self) -> bool:
        """Kill the process of one actor."""
        return self._send(signal.SIGKILL)

    def stop_actor(self) -> bool:
        """Stop the process of one actor, and continue it."""
        return self._send(signal.SIGSTOP, signal.SIGCONT)

    def stop_and_kill_actor(self) -> bool:
        """Stop the process of one actor, and kill it."""
        return self._send(signal.SIGSTOP, signal.SIGKILL)

    def lose_nodes(self, until: float) -> None:
        """Lose a node with all that runs there, and have a new one in its place, again and again.

        On the main thread: Ray starts a node nowhere else.
        """
        due = time.monotonic() + LOSSES_S / 2
        while due < until:
            time.sleep(max(0.0, due - time.monotonic()))
            self._cluster.lose(self._nodes.pop(0))
            self.nodes_lost += 1
            self._nodes.append(self._new_node())
            due = time.monotonic() + LOSSES_S

    def _new_node(self) -> Any:
        """Have a node started. Ray gives it 30 s, which are not enough where the machine does much else: so again."""
        for left in reversed(range(NODE_TRIES)):
            try:
                return self._cluster.add(SIDE)
            except Exception:
                if not left:
                    raise
        raise AssertionError


@contextmanager
def _held(pid: int, notes: str) -> Iterator[int | None]:
    """A pidfd of a process of the cluster; None: it is gone."""
    fd = None
    with suppress(OSError):
        fd = os.pidfd_open(pid)
    try:
        yield fd if fd is not None and _runs_an_actor(Path(f"/proc/{pid}"), notes) else None
    finally:
        if fd is not None:
            os.close(fd)
