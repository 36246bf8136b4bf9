"""Orders to a supervisor are meant for one incarnation of it, and what a restart waits for is looked at again."""

from __future__ import annotations

from typing import Any

from actors.testing import ManualClock, settle
from trees import Backoff, SupervisorSpec, WorkerSpec, start


def handle(message: Any) -> Any:
    if message == "crash":
        raise ValueError(message)
    return message


def test_a_group_goes_on_at_once_when_the_child_whose_backoff_it_waits_for_is_terminated() -> None:
    clock = ManualClock()
    slow = Backoff(initial_s=60.0, max_s=60.0, jitter=0.0)
    children = [WorkerSpec(id="slow", handle=handle, backoff=slow), WorkerSpec(id="quick", handle=handle)]
    with start(SupervisorSpec(id="top", strategy="one_for_all", children=children), clock=clock) as tree:
        tree.ref("top/slow").tell("crash")
        settle(tree)
        tree.start_child("top", WorkerSpec(id="late", handle=handle))
        tree.ref("top/late").tell("crash")  # the newest culprit has no backoff of its own
        settle(tree)
        waiting = [info.state for info in tree.which_children("top")]
        tree.terminate_child("top/slow")
        settle(tree)

        assert waiting == ["restarting"] * 3
        assert [info.state for info in tree.which_children("top")] == ["stopped", "running", "running"]


def test_a_backoff_begins_anew_after_a_long_time_up_even_when_a_sibling_ended_it() -> None:
    clock = ManualClock()
    backoff = Backoff(initial_s=1.0, factor=10.0, max_s=100.0, jitter=0.0, reset_after_s=30.0)
    children = [WorkerSpec(id="slow", handle=handle, backoff=backoff), WorkerSpec(id="quick", handle=handle)]
    with start(SupervisorSpec(id="top", strategy="one_for_all", children=children), clock=clock) as tree:
        tree.ref("top/slow").tell("crash")
        settle(tree)
        clock.advance(1.0)
        settle(tree)
        clock.advance(30.0)
        tree.ref("top/quick").tell("crash")
        settle(tree)
        tree.ref("top/slow").tell("crash")
        settle(tree)
        clock.advance(1.0)
        settle(tree)

        assert tree.child("top/slow").state == "running"
