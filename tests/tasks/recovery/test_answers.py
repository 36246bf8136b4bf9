"""A person's yes is a yes: what the next attempt sees of an answer, and how often one rung asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import Escalated, Failed
from actors.testing import settle
from tests.support.attempts import AT_ONCE, Shop, shop
from tests.tasks.resuming import Books, Scenario, people, same_from_every_change
from trees import (
    Approve,
    Check,
    Edit,
    Escalate,
    EscalationRaised,
    Failover,
    Reject,
    Respond,
    Retry,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    Tree,
    Verdict,
    WorkerSpec,
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


def test_an_answer_about_a_failure_is_among_them_too() -> None:
    seen: list[Any] = []

    def fails_once(_: Any, context: Any) -> str:
        seen.append(context.answers)
        if context.attempt == 1:
            raise Failed("not by itself", retryable=False)
        return "done"

    with shop(ONE, asks(fails_once)) as it:
        it.submit()
        answer(it, Respond("like this"))
        assert it.report().results == {"x": "done"}
    assert seen == [[], [Respond("like this")]]


def test_a_result_that_a_person_gave_and_a_reviewer_sent_back_is_among_them_too() -> None:
    seen: list[Any] = []

    def fails_once(_: Any, context: Any) -> str:
        seen.append((context.answers, context.previous, context.revision))
        if not context.revision:
            raise Failed("not by itself", retryable=False)
        return "done"

    def review(_: Any, __: Any, results: dict[str, Any]) -> Verdict:
        is_done = results["x"] == "done"
        return Verdict(passed=is_done, checks=[Check("x", passed=is_done, feedback="better")])

    with shop(ONE, asks(fails_once), reviewer=review) as it:
        it.submit()
        answer(it, Edit({"by": "hand"}))
        assert it.report().results == {"x": "done"}
    assert seen == [([], None, 0), ([Edit({"by": "hand"})], {"by": "hand"}, 1)]


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


def test_nobody_is_asked_about_that_error_and_it_is_not_tried_again() -> None:
    with shop(ONE, asks(stubborn, Escalate(), AT_ONCE, Escalate())) as it:
        it.submit()
        answer(it, Approve())

        assert it.report().failed.keys() == {"x"}
        assert len(it.events(EscalationRaised)) == 1


def test_another_worker_may_take_over_from_one_that_asks_again() -> None:
    plan = (Subtask("x", capability="publish"),)
    careful = Careful("Publish?")
    first = WorkerSpec(id="a", execute=stubborn, capabilities={"publish"}, on_failure=[Escalate(), Failover()])
    with shop(plan, first, WorkerSpec(id="b", execute=careful, capabilities={"publish"})) as it:
        it.submit()
        answer(it, Approve())

        assert it.report().results == {"x": "did x"}
    assert careful.seen == [[Approve()]]


def test_the_same_question_after_words_of_a_person_is_a_new_question() -> None:
    with shop(ONE, asks(stubborn)) as it:
        it.submit()

        assert [answer(it, Respond("not yet")) for _ in range(2)] == ["Publish?", "Publish?"]
        assert len(it.handle.escalations) == 1


def test_a_question_that_was_approved_may_be_asked_about_the_next_revision() -> None:
    questions: list[int] = []

    def publishes(_: Any, context: Any) -> str:
        if len(context.answers) <= context.revision:
            questions.append(context.revision)
            raise Escalated("Publish?")
        return f"revision {context.revision}"

    def review(_: Any, __: Any, results: dict[str, Any]) -> Verdict:
        is_good = results["x"] == "revision 1"
        return Verdict(passed=is_good, checks=[Check("x", passed=is_good, feedback="better")])

    with shop(ONE, asks(publishes), reviewer=review) as it:
        it.submit()
        answer(it, Approve())
        answer(it, Approve())

        assert it.report().results == {"x": "revision 1"}
    assert questions == [0, 1]


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


def test_when_nobody_has_answered_it_is_the_next_rungs_turn() -> None:
    with shop(ONE, asks(stubborn, Escalate(timeout_s=5), Retry(max_attempts=2, initial_s=0.0, max_s=0.0))) as it:
        it.submit()
        it.advance(5.0)

        assert len(it.events(EscalationRaised)) == 1
        assert "had their turn" in it.report().failed["x"]


def test_a_plain_failure_after_an_answer_is_the_next_rungs_turn() -> None:
    def fails(_: Any, __: Any) -> None:
        raise Failed("not by itself", retryable=False)

    with shop(ONE, asks(fails)) as it:
        it.submit()
        answer(it, Approve())

        assert it.report().failed == {"x": "not by itself"}
        assert len(it.events(EscalationRaised)) == 1


# -- nobody to ask -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rungs", [[], [AT_ONCE], None], ids=["none", "retry", "default"])
def test_escalated_without_any_escalate_rung_says_which_rung_is_missing(rungs: list[Any] | None) -> None:
    worker = WorkerSpec(id="a", execute=stubborn, on_failure=rungs)
    with shop(ONE, worker) as it:
        it.submit()
        text = it.report().failed["x"]

    assert text.startswith("Publish? (")
    assert "no Escalate rung. Add Escalate() to on_failure= of 'a' or of Tasks" in text


def test_the_default_ladder_stays_without_people() -> None:
    assert [type(rung) for rung in Tasks().on_failure] == [Retry, Failover]


def test_an_escalated_without_words_says_which_rung_is_missing_too() -> None:
    def asks_nothing(_: Any, __: Any) -> None:
        raise Escalated

    with shop(ONE, WorkerSpec(id="a", execute=asks_nothing, on_failure=[])) as it:
        it.submit()
        assert "no Escalate rung" in it.report().failed["x"]


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


class Careless(Scenario):
    """Three workers ask, one of them in a team; one asks again what was approved; another is denied something."""

    def spec(self, books: Books) -> SupervisorSpec:
        def careful(task: Any, context: Any) -> str:
            books.work(context, repr(context.answers))
            if len(context.answers) < 2:
                raise Escalated(f"{task.id} question {len(context.answers)}?")
            return f"{task.id} {context.answers!r}"

        def careless(_: Any, context: Any) -> None:
            books.work(context, repr(context.answers))
            raise Escalated("Publish?")

        plan = [
            Subtask("a", worker="careful"),
            Subtask("team", worker="team", depends_on=["a"]),
            Subtask("b", worker="careless", depends_on=["team"], required=False),
            Subtask("c", worker="careful", depends_on=["b"]),
        ]
        return SupervisorSpec(
            id="p",
            tasks=Tasks(planner=StaticPlan(plan), on_failure=[Escalate()]),
            children=[
                WorkerSpec(id="careful", execute=careful, breaker=None),
                WorkerSpec(id="careless", execute=careless, breaker=None),
                team(careful, [Escalate()], []),
            ],
        )

    def meanwhile(self, tree: Tree, books: Books) -> None:
        people(tree, lambda question: Respond("so") if "question 0" in question.question else Approve())


def test_answers_and_what_was_approved_go_on_from_every_change() -> None:
    _, reports = Careless().run()
    assert "again after a person had approved it" in reports["t"]["failed"]["b"]
    assert "Approve()" in reports["t"]["results"]["team"]["m"]

    assert same_from_every_change(Careless()) > 25


@pytest.mark.parametrize("end", [Shop.replace_orchestrator, Shop.crash_orchestrator], ids=["replaced", "crashed"])
def test_an_orchestrator_that_ends_between_two_questions_forgets_no_answer(end: Callable[[Shop], None]) -> None:
    careful = Careful("Where to?", "Publish?")
    with shop(ONE, asks(careful)) as it:
        it.submit()
        answer(it, Respond("Bonn"))
        end(it)
        answer(it, Approve())
        end(it)

        assert it.report().results == {"x": "did x"}
    assert careful.seen[-1] == [Respond("Bonn"), Approve()]
