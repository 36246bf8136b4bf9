"""A tree as a unit of work: it ends by itself when its significant children have done theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable

import actors
from actors import ChildExited, Event
from actors.testing import settle
from trees import SupervisorSpec, WorkerSpec, start

PATIENCE_S = 60.0


def part(work: Callable[[], object], *, id: str = "part", restart: str = "transient") -> WorkerSpec:
    return WorkerSpec(id=id, run=work, restart=restart, significant=True)


def waits_for(gate: threading.Event) -> Callable[[], None]:
    def work() -> None:
        gate.wait(PATIENCE_S)

    return work


def test_a_tree_ends_by_itself_when_the_last_part_of_its_work_is_done() -> None:
    first, second, one_ended = threading.Event(), threading.Event(), threading.Event()
    unit = SupervisorSpec(
        id="job",
        auto_shutdown="any_significant",
        children=[
            SupervisorSpec(
                id="parts",
                restart="transient",
                significant=True,
                auto_shutdown="all_significant",
                children=[
                    part(waits_for(first), id="one"),
                    part(waits_for(second), id="two"),
                    WorkerSpec(id="helper", handle=str),
                ],
            ),
            WorkerSpec(id="log", handle=str),
        ],
    )
    events: list[Event] = []
    with start(unit) as tree:
        tree.subscribe(events.append)
        tree.subscribe(lambda event: isinstance(event, ChildExited) and one_ended.set())
        first.set()
        assert one_ended.wait(PATIENCE_S)
        assert tree.ref("job/parts/helper").ask(1) == "1"

        second.set()

        assert tree.wait(PATIENCE_S)
    exits = {event.path: str(event.reason) for event in events if isinstance(event, ChildExited)}
    assert exits == {
        "job/parts/one": "normal",
        "job/parts/two": "normal",
        "job/parts/helper": "shutdown",
        "job/parts": "shutdown",
        "job/log": "shutdown",
    }


def test_a_part_that_crashes_is_done_again_before_the_tree_ends() -> None:
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise OSError

    with start(SupervisorSpec(id="job", auto_shutdown="all_significant", children=[part(work)])) as tree:
        assert tree.wait(PATIENCE_S)

    assert len(tries) == 3


def test_a_part_that_was_terminated_by_hand_does_not_end_the_tree() -> None:
    def work() -> None:
        while not actors.sleep(60.0):
            pass

    unit = SupervisorSpec(id="job", auto_shutdown="any_significant", children=[part(work)])
    with start(unit) as tree:
        tree.terminate_child("job/part")
        settle(tree)

        assert tree.is_alive
        assert tree.child("job/part").state == "stopped"
