"""An attempt that is taken back as its worker takes it up has one end, and never a result of nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from actors.tasks.execution.attempt import Attempt, AttemptEnded
from tests.support.hardening import LONG_S, eventually
from trees import StaticPlan, Subtask, SupervisorSpec, Task, TaskCancelledError, Tasks, WorkerSpec, start


@pytest.mark.parametrize("first", ["worker", "orchestrator"])
def test_one_that_is_cancelled_as_it_begins_was_cancelled_whoever_is_first_to_end_it(
    first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, is_noted, ended = threading.Event(), threading.Event(), threading.Event()
    workers: set[int] = set()
    begin, fail = Attempt.begin, Attempt.fail

    def begins(self: Attempt, *args: Any) -> bool:
        workers.add(threading.get_ident())
        taken.set()
        assert is_noted.wait(LONG_S)
        if first == "orchestrator":
            assert ended.wait(LONG_S)
        return begin(self, *args)

    def fails(self: Attempt, error: BaseException) -> Any:
        if threading.get_ident() in workers or not isinstance(error, AttemptEnded):
            return fail(self, error)
        is_noted.set()  # withdrawn: why is known, and it has not ended yet
        if first == "worker":
            eventually(lambda: self.done)
        told = fail(self, error)
        ended.set()
        return told

    monkeypatch.setattr(Attempt, "begin", begins)
    monkeypatch.setattr(Attempt, "fail", fails)
    plan = StaticPlan([Subtask("a", worker="w")])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[WorkerSpec(id="w", execute=lambda *_: "done")])
    with start(spec) as tree:
        handle = tree.submit(Task("go"))
        assert taken.wait(LONG_S)
        handle.cancel()
        with pytest.raises(TaskCancelledError):
            handle.result(LONG_S)

        assert tree.child("p/orchestrator").incarnation == 1
