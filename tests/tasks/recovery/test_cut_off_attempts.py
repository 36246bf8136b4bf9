"""An attempt whose worker is restarted with its group, and that hears so from a helper, was broken off: no failure."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import actors
from actors import Worker
from actors.testing import Hang
from tests.support.crew import LONG_S, Record, faulty, running
from tests.support.hardening import Gate, eventually
from trees import (
    Plan,
    Subtask,
    SubtaskStarted,
    SupervisorSpec,
    Task,
    Tasks,
    WorkerSpec,
)


def test_an_attempt_that_fails_of_a_helper_which_the_restart_of_its_group_has_stopped_first_runs_again() -> None:
    tries: list[int] = []
    with Hang(deaf=True) as gate:

        def work(_: Any, context: Any) -> Any:
            tries.append(context.attempt)
            gate.hold()
            return actors.ref("shop/helper").ask("hello", timeout=None)

        worker = WorkerSpec(id="work", execute=work, shutdown="infinity")
        helper = WorkerSpec(id="helper", handle=lambda message: message)
        children = [faulty("bad"), worker, helper]
        spec = SupervisorSpec(id="shop", strategy="rest_for_one", tasks=Tasks(on_failure=[]), children=children)
        with running(spec) as tree:
            handle = tree.submit("work")
            gate.wait_until_entered()
            tree.ref("shop/bad").tell("raise ValueError")
            eventually(lambda: tree.child("shop/helper").state != "running", "the end of the helper")
            gate.release()

            assert handle.result(timeout=LONG_S).results == {"work": "hello"}
    assert tries == [1, 1]


FIRST_PAUSE_S = 0.05


class Stopping:
    """A group that is being restarted: a helper is down, whoever asks it is up, and one between them still stops."""

    def __init__(self) -> None:
        self.at_work, self.slow = Gate(), Gate()
        gates = self.at_work, self.slow

        class Slow(Worker):
            def on_stop(self) -> None:
                if gates[0].reached.is_set():
                    gates[1]()

        self.others = [
            WorkerSpec(id="slow", actor=Slow, shutdown=LONG_S),
            WorkerSpec(id="helper", handle=lambda message: message),
        ]

    def asks(self, *_: Any) -> Any:
        if not self.at_work.open.is_set():
            self.at_work()
        return actors.ref("shop/helper").ask("hello", timeout=LONG_S)

    def spec(self, tasks: Tasks, *workers: WorkerSpec) -> SupervisorSpec:
        children = [faulty("bad"), *workers, *self.others]
        return SupervisorSpec(id="shop", strategy="rest_for_one", tasks=tasks, children=children)

    def begins(self, tree: Any) -> None:
        """The restart begins once the work is about to ask, which it does when the helper is down."""
        self.at_work.wait_reached()
        tree.ref("shop/bad").tell("raise ValueError")
        self.slow.wait_reached()
        self.at_work.open.set()


def assert_pauses_grow(times: list[float]) -> None:
    """Neither it nor its journal is kept busy as long as the restart takes."""
    for number, (before, after) in enumerate(pairwise(times)):
        assert after - before >= 0.9 * FIRST_PAUSE_S * 2**number


def test_an_attempt_that_is_cut_off_again_and_again_while_its_group_stops_begins_after_longer_pauses() -> None:
    group = Stopping()
    worker = WorkerSpec(id="work", execute=group.asks, shutdown="infinity")
    with running(group.spec(Tasks(on_failure=[]), worker)) as tree:
        record = Record(tree)
        handle = tree.submit(Task("work", plan=Plan([Subtask("work", worker="work")])))
        group.begins(tree)
        begun = record.wait_for(SubtaskStarted, count=4)
        group.slow.open.set()

        assert handle.result(timeout=LONG_S).results == {"work": "hello"}
    assert_pauses_grow([event.at for event in begun[:4]])
