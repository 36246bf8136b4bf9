"""Each child waits for its own backoff: one of a minute holds up nobody who comes back sooner."""

from __future__ import annotations

import threading

from actors import ChildRestarting, ChildStarted, Event
from trees import Backoff, SupervisorSpec, WorkerSpec, start


def test_a_child_with_a_short_backoff_is_back_while_another_waits_for_a_minute() -> None:
    waits, is_back = threading.Event(), threading.Event()

    def look(event: Event) -> None:
        if isinstance(event, ChildRestarting) and event.path == "t/slow":
            waits.set()
        if isinstance(event, ChildStarted) and event.path == "t/quick" and event.incarnation == 2:
            is_back.set()

    def crash(_: object) -> None:
        raise OSError("no")

    children = [
        WorkerSpec(id=id_, handle=crash, backoff=Backoff(initial_s=seconds, jitter=0.0))
        for id_, seconds in (("slow", 60.0), ("quick", 0.05))
    ]
    with start(SupervisorSpec(id="t", children=children)) as tree:
        tree.subscribe(look)
        tree.ref("t/slow").tell("crash")
        assert waits.wait(30.0)
        tree.ref("t/quick").tell("crash")
        assert is_back.wait(30.0)
