"""One round: start a tree, let the load loose on it, audit it now and then and at its end."""

from __future__ import annotations

import faulthandler
import gc
import io
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from actors import StartError
from tests.faults.chaos.audit import ANSWER_S, at_rest, come_to_rest, when_down
from tests.faults.chaos.load import Load
from tests.faults.chaos.shape import Shape
from tests.faults.chaos.workers import Ground
from trees import start

BURSTS = 3
"""Times that the load runs in a round, with an audit after each."""
TICK_S = 0.1
"""How often a round looks whether something has been noticed."""
DEFAULT_SWITCH_S = 0.005


@dataclass
class Round:
    """One tree and its end."""

    seed: int
    number: int
    seconds: float
    switch_interval: float
    problems: list[str] = field(init=False)
    """What is not true, in the order in which it was noticed."""
    dump: str = ""
    skipped: bool = False
    hangs: bool = False
    """True where threads of the round cannot be ended: the process must be."""
    load: Load | None = None

    def __post_init__(self) -> None:
        self.ground = Ground(f"{self.seed} {self.number}")
        self.problems = self.ground.ledger.violations
        self.dice = self.ground.dice("round")

    def run(self) -> bool:
        """True where every invariant held."""
        sys.setswitchinterval(self.switch_interval)
        before = set(threading.enumerate())
        try:
            self._run()
        finally:
            sys.setswitchinterval(DEFAULT_SWITCH_S)
        if not self.hangs:
            self.problems += _leaked(before)
        gc.collect()
        return not self.problems

    def _run(self) -> None:
        ground, shape = self.ground, Shape(self.ground, self.dice)
        spec = shape.tree()
        try:
            tree = ground.tree = start(spec, seed=self.seed)
        except StartError as late:  # the machine has other things to do
            self.skipped = True
            print(f"round {self.number} could not be started: {late}")
            return
        tree.subscribe(ground.ledger.hear)
        for info in tree.which_children("r"):
            self._is_up(info)
        self.load = Load(ground, tree, shape, self.dice)
        ground.arm(armed=True)
        self.load.start()
        for _ in range(BURSTS):
            if not self._burst(self.load):
                break
        self._end(self.load)

    def _is_up(self, info: Any) -> None:
        """What was up before anybody listened."""
        if info.state == "running":
            self.ground.ledger.record(info.path).up = info.incarnation
            self.ground.ledger.record(info.path).started = 1
        if info.kind == "supervisor":
            for below in self.ground.tree.which_children(info.path):
                self._is_up(below)

    def _burst(self, load: Load) -> bool:
        """Let the load run, bring the tree to rest and audit it; False where something was wrong."""
        until = time.monotonic() + self.seconds / BURSTS
        while time.monotonic() < until and not self.problems and not self._stuck(load):
            load.threads[0].join(TICK_S)
        if not load.gate.shut(ANSWER_S if not self.problems else 1.0) and not self.problems:
            self._stuck(load, 0.0)
        if self._found(load):
            return False
        self.ground.arm(armed=False)
        if not self.ground.tree.is_alive:
            self.problems.append("the root went down")
            return False
        self.problems += self._within(2 * ANSWER_S, "the tree comes to rest", lambda: come_to_rest(self.ground))
        if not self.problems:
            self.problems += self._within(2 * ANSWER_S, "the audit ends", lambda: at_rest(self.ground))
        if self._found(load):
            return False
        self.ground.arm(armed=True)
        load.gate.open()
        return True

    def _found(self, load: Load) -> bool:
        if self.problems and not self.dump:
            self.dump = self._picture(load)
        return bool(self.problems)

    def _stuck(self, load: Load, patience_s: float = ANSWER_S) -> bool:
        """Whether some thread has been doing one thing for too long."""
        now = time.monotonic()
        for name, (since, what) in load.doing.copy().items():
            if now - since > patience_s:
                self.problems.append(f"{name} does not get on with {what} for {now - since:.0f} s")
        return bool(self.problems)

    def _end(self, load: Load) -> None:
        """Stop the tree: at rest, under load, or by killing it; then the books must balance."""
        tree = self.ground.tree
        patience_s = self.dice.choice((None, None, None, 0.0))
        if self.problems or self.dice.random() < 0.5:
            load.gate.end()
        self.problems += self._within(
            5.0 if self.problems else 3 * ANSWER_S, "the tree stops", lambda: self._stop(patience_s)
        )
        load.gate.end()
        for thread in load.threads:
            thread.join(ANSWER_S if not self.problems else 1.0)
            if thread.is_alive():
                what = load.doing.get(thread.name, (0.0, "its job"))[1]
                self.problems.append(f"{thread.name} hangs after the end of the tree, in {what}")
                self.hangs = True
        self._found(load)
        if not self.hangs and not tree.is_alive:
            tree._system.bus.flush(ANSWER_S)
            self.problems += when_down(self.ground)
            self._found(load)

    def _stop(self, patience_s: float | None) -> list[str]:
        self.ground.tree.stop(timeout=patience_s)
        return []

    def _within(self, limit_s: float, what: str, act: Callable[[], list[str]]) -> list[str]:
        """What ``act`` finds; or that it does not end."""
        found: list[str] = []

        def run() -> None:
            try:
                found.extend(act())
            except BaseException as error:
                found.append(f"it is not so that {what}: {error!r}")
                raise

        thread = threading.Thread(target=run, name="chaos-within", daemon=True)
        thread.start()
        thread.join(limit_s)
        if not thread.is_alive():
            return found
        self.hangs = True
        return [f"it is not so that {what} within {limit_s:g} s"]

    def _picture(self, load: Load) -> str:
        """The tree, what the threads of the load do, and where everybody stands."""
        lines = [self.ground.tree.dump(verbose=True, stacks=True)]
        now = time.monotonic()
        lines += [f"{name}: {what} for {now - since:.1f} s" for name, (since, what) in load.doing.copy().items()]
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file=file, all_threads=True)
            file.seek(0)
            lines.append(file.read())
        return "\n".join(lines)

    def report(self) -> str:
        """What is printed where an invariant was broken."""
        out = io.StringIO()
        print(f"seed {self.seed}, round {self.number}, switch interval {self.switch_interval:g} s:", file=out)
        for problem in dict.fromkeys(self.problems):
            print(f"  BROKEN: {problem}", file=out)
        print(f"{self.dump}\nthe last events:", file=out)
        for line in self.ground.ledger.last:
            print(f"  {line}", file=out)
        return out.getvalue()


def _leaked(before: set[threading.Thread]) -> list[str]:
    """Threads that the round has left behind."""
    until = time.monotonic() + ANSWER_S
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(max(0.0, until - time.monotonic()))
    return [f"thread {thread.name} is left" for thread in new if thread.is_alive()]


def dice_of(seed: int, number: int) -> random.Random:
    """For what the rounds of a run differ in."""
    return random.Random(f"{seed} {number}")  # noqa: S311 - for faults, not for secrets
