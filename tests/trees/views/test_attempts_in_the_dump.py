"""The dump says of a subtask that runs whether it is its first attempt."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start


@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_attempt_after_the_first_is_named(number: int) -> None:
    runs, go_on = threading.Event(), threading.Event()

    def work(_task: str, context: Any) -> str:
        if context.attempt < number:
            raise OSError("no")
        runs.set()
        assert go_on.wait(60.0)
        return "done"

    worker = WorkerSpec(id="w", execute=work, on_failure=[Retry(max_attempts=3, initial_s=0.0)])
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    with start(SupervisorSpec(id="t", tasks=tasks, children=[worker])) as tree:
        handle = tree.submit("go")
        assert runs.wait(60.0)
        shown = tree.dump()
        go_on.set()
        handle.result(60.0)

    assert ("attempt" in shown, f"attempt {number}" in shown) == (number > 1, number > 1)


def test_what_an_attempt_streams_is_in_the_dump_only_if_that_is_asked_for() -> None:
    runs, go_on = threading.Event(), threading.Event()

    def work(_task: str, context: Any) -> str:
        context.stream("one\nmy secret")
        runs.set()
        assert go_on.wait(60.0)
        return "done"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]))
    spec = SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=work)])
    with start(spec) as tree:
        handle = tree.submit("go")
        assert runs.wait(60.0)
        shown, streamed = tree.dump(verbose=True), tree.dump(streams=True)
        go_on.set()
        handle.result(60.0)

    assert "secret" not in shown
    assert "says: my secret" in streamed
