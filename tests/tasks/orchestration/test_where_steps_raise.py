"""A task's records have the type and text of an error; where the code of a step raised it stands in the log."""

from __future__ import annotations

import traceback
from typing import Any, Final

import pytest

from actors import RequestFailed
from actors.runtime.event_log import describe
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Tasks, WorkerSpec, start

PLAN: Final = StaticPlan([Subtask("a"), Subtask("b", depends_on=["a"])])
ONCE: Final = Retry(max_attempts=1)


def broken(*_: Any) -> Any:
    raise KeyError("nope")


async def broken_too(*_: Any) -> Any:
    broken()


def refund(task: Subtask, result: Any, context: Any) -> Any:
    broken()


def spec_of(b: Any = lambda words: words, undo: Any = None, **tasks: Any) -> SupervisorSpec:
    given = {"planner": PLAN, "step_retry": ONCE, "on_failure": [], **tasks}
    children = [WorkerSpec(id="a", execute=lambda words: words, undo=undo), WorkerSpec(id="b", execute=b)]
    return SupervisorSpec(id="p", tasks=Tasks(**given), children=children)


def said_by(spec: SupervisorSpec, last: str) -> list[RequestFailed]:
    """What was told of failed requests of others than workers, up to an event of the task."""
    seen = list[RequestFailed]()
    with start(spec) as tree:
        tree.subscribe(lambda event: seen.append(event) if isinstance(event, RequestFailed) else None)
        assert next(event for event in tree.submit("do it").events() if event.name == last)
    return [event for event in seen if event.path != "p/b"]


@pytest.mark.parametrize("code", [broken, broken_too])
@pytest.mark.parametrize(("role", "step"), [("planner", "plan"), ("reviewer", "review"), ("synthesizer", "combine")])
def test_the_log_says_in_which_line_a_planner_reviewer_or_synthesizer_has_raised(
    role: str, step: str, code: Any
) -> None:
    said = said_by(spec_of(**{role: code}), "task_finished")

    assert [event.path for event in said] == [f"p/{step}"]
    assert traceback.extract_tb(said[0].error.__traceback__)[-1].name == "broken"
    assert "in broken" in describe(said[0])


def test_the_log_says_in_which_line_an_undo_has_raised() -> None:
    said = said_by(spec_of(broken, undo=refund), "escalation_raised")

    assert [event.path for event in said] == ["p/a"]
    assert "in refund" in describe(said[0])
