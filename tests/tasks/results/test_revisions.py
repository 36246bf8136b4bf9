"""A revising worker sees its work: its last result, what is to be better, what was said before; in teams as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from tests.support.asking import run
from tests.support.attempts import AT_ONCE
from trees import (
    Check,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Task,
    Tasks,
    Verdict,
    WorkerSpec,
)


class Seen(NamedTuple):
    """What an attempt saw of its revisions."""

    revision: int
    previous: Any
    feedback: str
    history: list[str]


FIRST = Seen(0, None, "", [])


class Writer:
    """Writes a draft, the next one at each revision, and notes what it saw."""

    def __init__(self, *, large: bool = False) -> None:
        self.seen: dict[str, list[Seen]] = {}
        self._padding = "x" * 4000 if large else ""

    def __call__(self, task: Any, context: Any) -> str:
        seen = self.seen.setdefault(task.id, [])
        seen.append(Seen(context.revision, context.previous, context.feedback, context.history))
        return f"{task.id} {len(seen)}{self._padding}"


def sends_back(*texts: str, subtask: str = "writer") -> Callable[..., Verdict]:
    """Reviewer that finds something about a subtask as often as there are texts, and then nothing."""
    left = list(texts)

    def review(_: Any, __: Any, ___: Any) -> Verdict:
        if not left:
            return Verdict(passed=True)
        return Verdict(passed=False, checks=[Check(subtask, passed=False, feedback=left.pop(0))])

    return review


def tree(*plan: Subtask, code: Any, reviewer: Any, more: tuple[Any, ...] = (), **tasks: Any) -> SupervisorSpec:
    settings = Tasks(planner=StaticPlan(list(plan)), reviewer=reviewer, **{"on_failure": [AT_ONCE], **tasks})
    return SupervisorSpec(id="p", tasks=settings, children=[WorkerSpec(id="w", execute=code, breaker=None), *more])


RESEARCH, WRITER = Subtask("research", worker="w"), Subtask("writer", worker="w", depends_on=["research"])


def test_a_revising_worker_sees_its_last_result_the_feedback_and_the_number_of_its_revision() -> None:
    code = Writer()

    run(tree(RESEARCH, WRITER, code=code, reviewer=sends_back("Too short: add numbers.")))

    assert code.seen["writer"] == [FIRST, Seen(1, "writer 1", "Too short: add numbers.", [])]
    assert code.seen["research"] == [FIRST]


def test_history_holds_the_earlier_feedbacks_the_oldest_first() -> None:
    code = Writer()

    run(tree(RESEARCH, WRITER, code=code, reviewer=sends_back("one", "two", "three"), max_iterations=4))

    assert [seen.history for seen in code.seen["writer"]] == [
        [],
        [],
        ["one"],
        ["one", "two"],
    ]
    assert [seen.previous for seen in code.seen["writer"]] == [None, "writer 1", "writer 2", "writer 3"]
    assert [seen.feedback.rpartition(" ")[2] for seen in code.seen["writer"]] == ["", "one", "two", "three"]
    assert [seen.revision for seen in code.seen["writer"]] == [0, 1, 2, 3]


def test_an_attempt_that_is_tried_again_is_the_same_revision() -> None:
    seen: list[Seen] = []

    def flaky(_: Any, context: Any) -> str:
        seen.append(Seen(context.revision, context.previous, context.feedback, context.history))
        if context.revision and context.attempt < 3:
            raise OSError("down")
        return f"draft {len(seen)}"

    run(tree(Subtask("writer", worker="w"), code=flaky, reviewer=sends_back("better")))

    assert seen == [FIRST, *[Seen(1, "draft 1", "better", [])] * 3]


def test_a_result_that_did_not_fit_is_feedback_and_no_revision() -> None:
    class Found(BaseModel):
        number: int

    seen: list[Seen] = []

    def counts(_: Any, context: Any) -> Any:
        seen.append(Seen(context.revision, context.previous, context.feedback, context.history))
        return {"number": 1} if context.feedback else {"number": "many"}

    plan = StaticPlan([Subtask("x", worker="w")])
    spec = SupervisorSpec(
        id="p",
        tasks=Tasks(planner=plan, on_failure=[AT_ONCE]),
        children=[WorkerSpec(id="w", execute=counts, output=Found)],
    )
    run(spec)

    assert seen[0] == FIRST
    assert (seen[1].revision, seen[1].previous, seen[1].history) == (0, None, [])
    assert "number" in seen[1].feedback


# -- in teams ------------------------------------------------------------------------------------------------------


def of_team(code: Any, *, reviewer: Any = None, planner: Any = None, **fields: Any) -> SupervisorSpec:
    members = StaticPlan([Subtask("draft", worker="m"), Subtask("polish", worker="m", depends_on=["draft"])])
    return SupervisorSpec(
        id="team",
        tasks=Tasks(planner=planner or members, reviewer=reviewer, on_failure=[]),
        children=[WorkerSpec(id="m", execute=code, breaker=None)],
        **fields,
    )


TEAM = Subtask("writer", "write it", worker="team", depends_on=["research"])


def test_inside_a_team_feedback_is_the_teams_feedback_and_previous_the_members_own_work() -> None:
    code = Writer()

    run(tree(RESEARCH, TEAM, code=code, reviewer=sends_back("Too short", "Too long"), more=(of_team(code),)))

    assert code.seen["draft"] == [
        FIRST,
        Seen(1, "draft 1", "Too short", []),
        Seen(2, "draft 2", "Too long", ["Too short"]),
    ]
    assert [seen.previous for seen in code.seen["polish"]] == [None, "polish 1", "polish 2"]


def test_a_member_that_is_sent_back_in_a_team_that_was_sent_back_sees_both_feedbacks() -> None:
    code, inner = Writer(), iter([True, False, True])

    def strict(_: Any, __: Any, ___: Any) -> Verdict:
        is_good = next(inner)
        return Verdict(passed=is_good, checks=[Check("draft", passed=is_good, feedback="no numbers")])

    inside = of_team(code, reviewer=strict)
    run(tree(RESEARCH, TEAM, code=code, reviewer=sends_back("Too short"), more=(inside,)))

    assert code.seen["draft"] == [
        FIRST,
        Seen(1, "draft 1", "Too short", []),
        Seen(2, "draft 2", "no numbers", ["Too short"]),
    ]


def test_a_teams_inputs_never_overwrite_a_users() -> None:
    seen: list[Any] = []

    def member(task: Any, context: Any) -> str:
        seen.append((task.id, context.inputs, context.results, context.feedback))
        return f"{task.id} done"

    inputs = {"results": "the user's", "feedback": "the user's, too"}
    spec = tree(RESEARCH, TEAM, code=Writer(), reviewer=sends_back("Too short"), more=(of_team(member),))
    run(spec, Task("the goal", inputs=inputs))

    assert [each[1] for each in seen] == [inputs] * 4
    assert seen[2] == ("draft", inputs, {"research": "research 1"}, "Too short")
    assert seen[3][2] == {"research": "research 1", "draft": "draft done"}


# -- from every change ---------------------------------------------------------------------------------------------
