"""Whoever has seen the events of a task up to one reads on behind it."""

from __future__ import annotations

import pytest

from trees import StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


@pytest.mark.parametrize("at", [0, 2, -2])
def test_events_after_one_that_was_seen_begin_with_the_next(at: int) -> None:
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w"), Subtask("b", worker="w")]))
    spec = SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=lambda task: task)])
    with start(spec) as tree:
        handle = tree.submit("go")
        handle.result(60.0)
        numbers = [event.seq for event in handle.events()]
        seen = numbers[at]

        assert [event.seq for event in handle.events(after=seen)] == [each for each in numbers if each > seen]
        assert numbers == sorted(set(numbers))
