"""Steps of an attempt that is put off: they are made again, but where its code goes on after them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import Later
from actors.tasks.model.outcome import PutOff
from tests.support.attempts import LONG_S
from tests.tasks.resuming import NotingStore
from trees import Report, StaticPlan, Subtask, SubtaskRetrying, SupervisorSpec, Task, Tasks, WorkerSpec, start


class Code:
    """Makes steps with these arguments in its first run, and with those in its second; is put off between them."""

    def __init__(self, error: Exception, first: dict[str, Any], second: dict[str, Any], keep: str = "attempt") -> None:
        self.runs = [first, second]
        self.error, self.keep = error, keep
        self.calls: list[tuple[str, Any]] = []

    def call(self, name: str, said: Any) -> int:
        self.calls.append((name, said))
        return len(self.calls)

    async def __call__(self, _: Any, context: Any) -> list[Any]:
        said = self.runs.pop(0)
        made = [await context.step(name, self.call, name, each, keep=self.keep) for name, each in said.items()]
        if self.runs:
            raise self.error
        return made

    def spec(self) -> SupervisorSpec:
        tasks = Tasks(planner=StaticPlan([Subtask("x")]), on_failure=[])
        return SupervisorSpec(id="p", tasks=tasks, children=[WorkerSpec(id="x", execute=self)])

    def report(self, store: Any = None) -> Report:
        with start(self.spec(), store=store) as tree:
            handle = tree.submit(Task("go"))
            return handle.result(timeout=LONG_S)


@pytest.mark.parametrize("is_durable", [False, True], ids=["memory", "SQLite"])
def test_code_that_goes_on_after_its_steps_has_them(tmp_path: Path, *, is_durable: bool) -> None:
    same = {"a": 1, "b": 2}
    code = Code(PutOff(0.001), same, {**same, "c": 3})

    report = code.report(f"sqlite:///{tmp_path}/s.db" if is_durable else None)

    assert report.results == {"x": [1, 2, 3]}
    assert code.calls == [("a", 1), ("b", 2), ("c", 3)]
    assert report.graph[0].attempts == 1


def test_a_function_that_polls_in_a_step_polls_again() -> None:
    code = Code(Later(0.001), {"poll": 1}, {"poll": 1})

    assert code.report().results == {"x": [2]}
    assert code.calls == [("poll", 1)] * 2


def test_code_that_takes_another_way_begins_anew_from_there() -> None:
    """As it would have without its steps: what it had done after that point does not hold any more."""
    code = Code(PutOff(0.001), {"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 20, "c": 3})

    assert code.report().results == {"x": [1, 4, 5]}


def test_what_it_has_done_on_another_way_is_there_for_the_next_run() -> None:
    code = Code(PutOff(0.001), {"a": 1}, {"a": 10})
    code.runs.append({"a": 10})

    assert code.report().results == {"x": [2]}


def test_a_step_of_the_subtask_is_no_other_one_then() -> None:
    code = Code(PutOff(0.001), {"a": 1}, {"a": 2}, keep="subtask")
    with start(code.spec()) as tree:
        handle = tree.submit(Task("go"))
        with pytest.raises(Exception, match="StepMismatchError"):
            handle.result(timeout=LONG_S)


def test_a_process_that_ends_while_it_is_put_off_leaves_them_to_the_next_one() -> None:
    code, store = Code(PutOff(0.001), {"a": 1}, {"a": 1, "b": 2}), NotingStore()
    with start(code.spec(), store=store) as tree:
        tree.submit(Task("go", id="t")).result(timeout=LONG_S)
    left = NotingStore(store.changes_when(SubtaskRetrying, "t"))
    after = Code(PutOff(0.001), {"a": 1, "b": 2}, {})
    after.runs = [{"a": 1, "b": 2}]

    with start(after.spec(), store=left) as tree:
        report = tree.task("t").result(timeout=LONG_S)

    assert report.results == {"x": [1, 1]}
    assert after.calls == [("b", 2)]
