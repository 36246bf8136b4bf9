"""A verdict with several checks of one subtask: whoever does it again is told of each that has failed."""

from __future__ import annotations

from typing import Any

from trees import Check, StaticPlan, Subtask, SupervisorSpec, Tasks, Verdict, WorkerSpec, start


class Strict:
    """Lets the second result pass."""

    def review(self, task: Any, plan: Any, results: dict[str, Any]) -> Verdict:
        good = results["a"] == "second"
        return Verdict(
            passed=good,
            checks=[
                Check("a", passed=good, feedback="" if good else "Name the source."),
                Check("a", passed=good, feedback="" if good else "Write less."),
            ],
        )


def test_each_check_that_failed_is_in_the_feedback() -> None:
    heard: list[str] = []

    def write(_task: str, context: Any) -> str:
        heard.append(context.feedback)
        return "first" if len(heard) == 1 else "second"

    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), reviewer=Strict())
    with start(SupervisorSpec(id="t", tasks=tasks, children=[WorkerSpec(id="w", execute=write)])) as tree:
        tree.run("write it", timeout=60.0)

    assert "Name the source." in heard[1]
    assert "Write less." in heard[1]
