"""A person's yes is a yes: what the next attempt sees of an answer, and how often one rung asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import Escalated
from actors.testing import settle
from tests.support.attempts import AT_ONCE, LONG_S, Shop, shop
from trees import (
    Approve,
    Escalate,
    Reject,
    Respond,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    WorkerSpec,
    start,
)

ONE = (Subtask("x", worker="a"),)


class Careful:
    """Asks a person before it does something: each of its questions, until it has as many answers as questions."""

    def __init__(self, *questions: str) -> None:
        self.questions = questions
        self.seen: list[list[Any]] = []

    def __call__(self, task: Any, context: Any) -> str:
        self.seen.append(context.answers)
        if len(context.answers) < len(self.questions):
            raise Escalated(self.questions[len(context.answers)])
        return f"did {task.id}"


def stubborn(_: Any, __: Any) -> None:
    """Worker that never looks at what it was answered."""
    raise Escalated("Publish?")


def asks(code: Callable[..., Any], *rungs: Any, id: str = "a") -> WorkerSpec:
    return WorkerSpec(id=id, execute=code, on_failure=list(rungs) or [Escalate()])


def answer(it: Shop, answer: Any) -> str:
    """Answer the only open question; its text."""
    [question] = it.handle.escalations
    it.handle.respond(question.id, answer)
    settle(it.tree)
    return question.question


# -- what an attempt sees of it ----------------------------------------------------------------------------------


def test_an_approved_attempt_runs_again_and_sees_the_approve() -> None:
    careful = Careful("Publish?")
    with shop(ONE, asks(careful)) as it:
        it.submit()
        answer(it, Approve())

        assert it.report().results == {"x": "did x"}
    assert careful.seen == [[], [Approve()]]


def test_context_answers_holds_all_answers_in_order() -> None:
    careful = Careful("Where to?", "At night?", "Publish?")
    with shop(ONE, asks(careful)) as it:
        it.submit()
        for each in (Respond("Bonn"), Respond("no"), Approve()):
            answer(it, each)

        assert it.report().results == {"x": "did x"}
    assert careful.seen[-1] == [Respond("Bonn"), Respond("no"), Approve()]
    assert [len(answers) for answers in careful.seen] == [0, 1, 2, 3]


# -- the same question, after a yes ------------------------------------------------------------------------------


def test_escalated_twice_the_same_way_after_an_approval_is_an_error_that_says_so() -> None:
    with shop(ONE, asks(stubborn)) as it:
        it.submit()
        answer(it, Approve())
        report = it.report()

    text = report.failed["x"]
    assert "Publish?" in text
    assert "again after a person had approved it" in text
    assert "context.answers" in text


def test_a_denied_question_is_a_failure_and_nobody_is_called_again() -> None:
    careful = Careful("Publish?")
    with shop(ONE, asks(careful)) as it:
        it.submit()
        answer(it, Reject("never"))

        assert "never" in it.report().failed["x"]
    assert careful.seen == [[]]


# -- how often one rung asks ---------------------------------------------------------------------------------------


def test_two_questions_of_one_attempt_need_one_escalate_rung() -> None:
    careful = Careful("Where to?", "Publish?")
    with shop(ONE, asks(careful, Escalate())) as it:
        it.submit()

        assert [answer(it, each) for each in (Respond("Bonn"), Approve())] == ["Where to?", "Publish?"]
        assert it.report().results == {"x": "did x"}


@pytest.mark.parametrize(("rung", "most"), [(Escalate(), 5), (Escalate(max_questions=2), 2)], ids=["default", "2"])
def test_one_rung_asks_at_most_max_questions_about_a_subtask(rung: Escalate, most: int) -> None:
    careful = Careful(*(f"question {n}?" for n in range(20)))
    with shop(ONE, asks(careful, rung)) as it:
        it.submit()
        asked = 0
        while it.handle.escalations:
            answer(it, Approve())
            asked += 1
        text = it.report().failed["x"]

    assert asked == most
    assert "max_questions" in text
    assert f"question {most}?" in text


# -- nobody to ask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rungs", [[], [AT_ONCE], None], ids=["none", "retry", "default"])
def test_escalated_without_any_escalate_rung_says_which_rung_is_missing(rungs: list[Any] | None) -> None:
    worker = WorkerSpec(id="a", execute=stubborn, on_failure=rungs)
    with shop(ONE, worker) as it:
        it.submit()
        text = it.report().failed["x"]

    assert text.startswith("Publish? (")
    assert "no Escalate rung left. Add Escalate() to on_failure= of 'a' or of Tasks" in text


# -- in teams ------------------------------------------------------------------------------------------------------


def team(member: Callable[..., Any], rungs: list[Any], above: list[Any]) -> SupervisorSpec:
    """Team of one member, with a ladder of its own."""
    return SupervisorSpec(
        id="team",
        on_failure=above,
        tasks=Tasks(planner=StaticPlan([Subtask("m", worker="m")]), on_failure=rungs),
        children=[WorkerSpec(id="m", execute=member)],
    )


def test_a_member_of_a_team_sees_the_answers_to_its_own_questions() -> None:
    careful = Careful("Where to?", "Publish?")
    with shop((Subtask("x", worker="team"),), team(careful, [Escalate()], [])) as it:
        it.submit()
        answer(it, Respond("Bonn"))
        answer(it, Approve())

        assert it.report().results == {"x": {"m": "did m"}}
    assert careful.seen[-1] == [Respond("Bonn"), Approve()]


def test_a_member_of_a_team_sees_what_a_person_has_said_about_the_team() -> None:
    careful = Careful("Publish?")
    with shop((Subtask("x", worker="team"),), team(careful, [], [Escalate()])) as it:
        it.submit()
        answer(it, Approve())

        assert it.report().results == {"x": {"m": "did m"}}
    assert careful.seen == [[], [Approve()]]


# -- when processes and orchestrators end --------------------------------------------------------------------------


def test_a_planner_that_has_asked_is_told_the_answer_and_not_that_it_has_failed() -> None:
    told = list[str]()

    def plan(_task: object, _catalogue: object, feedback: str) -> list[str]:
        told.append(str(feedback))
        if len(told) == 1:
            raise Escalated("Which city?")
        return ["w"]

    children = [WorkerSpec(id="w", execute=lambda _: "done")]
    with start(SupervisorSpec(id="shop", tasks=Tasks(planner=plan), children=children)) as tree:
        handle = tree.submit("go")
        for question in handle.questions():
            handle.respond(question.id, Respond("Rome"))
        handle.result(LONG_S)

    assert told == ["", "Rome"]
