"""A team whose review has said no for good, and that the ladder above tries again: it is reviewed again, once."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.support.asking import LONG_S, does, shop
from tests.tasks.teams import AT_ONCE
from trees import Check, Failover, StaticPlan, Subtask, SupervisorSpec, TaskFailedError, Tasks, WorkerSpec, start


class Reviewer:
    """Says no so often, and names what has not passed."""

    def __init__(self, noes: int) -> None:
        self.noes, self.calls = noes, 0

    def __call__(self, task: Any, plan: Any, results: dict[str, Any]) -> list[Check]:
        self.calls += 1
        return [Check(id_, self.calls > self.noes, "it is wrong") for id_ in results]


def reviewed(reviewer: Reviewer, review: Literal["end", "each"]) -> SupervisorSpec:
    tasks = Tasks(
        planner=StaticPlan([Subtask("one", worker="m"), Subtask("two", worker="m", depends_on=["one"])]),
        reviewer=reviewer,
        review=review,
        max_iterations=1,
        on_rejected="fail",
    )
    team = SupervisorSpec(id="team", tasks=tasks, children=[WorkerSpec(id="m", execute=does)])
    return shop(team, on_failure=[AT_ONCE, Failover()])


@pytest.mark.parametrize(("review", "calls"), [("end", 2), ("each", 3)])
def test_what_passes_then_is_the_result(review: Literal["end", "each"], calls: int) -> None:
    reviewer = Reviewer(noes=1)
    with start(reviewed(reviewer, review)) as tree:
        report = tree.submit("the goal").result(LONG_S)

    assert report.results == {"only": {"one": "did the first thing", "two": "did the first thing"}}
    assert reviewer.calls == calls


@pytest.mark.parametrize("review", ["end", "each"])
def test_what_never_passes_has_failed_after_as_many_reviews_as_there_are_tries(review: Literal["end", "each"]) -> None:
    reviewer = Reviewer(noes=1000)
    with start(reviewed(reviewer, review)) as tree, pytest.raises(TaskFailedError, match="rejected after review"):
        tree.submit("the goal").result(LONG_S)

    assert reviewer.calls == AT_ONCE.max_attempts
