"""What is parked waits for a person, however long ago it crashed."""

from __future__ import annotations

from actors.testing import ManualClock, settle
from trees import SupervisorSpec, WorkerSpec, start


def test_a_child_that_parked_an_hour_ago_is_shown_as_troubled() -> None:
    def crash(_: object) -> None:
        raise OSError("no")

    clock = ManualClock()
    children = [
        WorkerSpec(id="broken", handle=crash, on_exhausted="park"),
        WorkerSpec(id="well", handle=lambda _: None),
    ]
    with start(SupervisorSpec(id="t", max_restarts=0, children=children), clock=clock) as tree:
        tree.ref("t/broken").tell("crash")
        settle(tree)
        clock.advance(3600.0)
        shown = tree.dump(only="troubled")

    assert "broken" in shown
    assert "well" not in shown
