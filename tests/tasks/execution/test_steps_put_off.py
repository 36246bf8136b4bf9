"""Steps of an attempt that is put off: they are made again, but where its code goes on after them."""

from __future__ import annotations

from typing import Any

from actors import Later
from tests.support.attempts import LONG_S
from trees import Report, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, WorkerSpec, start


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


def test_a_function_that_polls_in_a_step_polls_again() -> None:
    code = Code(Later(0.001), {"poll": 1}, {"poll": 1})

    assert code.report().results == {"x": [2]}
    assert code.calls == [("poll", 1)] * 2
