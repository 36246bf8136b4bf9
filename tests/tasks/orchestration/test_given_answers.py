"""An answer that is on its way: its question is answered once, and is not shown as open any more, in every order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel, model_serializer

from actors import Escalated
from actors.tasks.orchestration.given_answers import GivenAnswers
from actors.tasks.orchestration.open_questions import OpenQuestions
from actors.testing import ManualClock, settle
from tests.support.attempts import LONG_S
from trees import (
    Approve,
    Edit,
    Escalate,
    EscalationError,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    TaskFailedError,
    Tasks,
    WorkerSpec,
    start,
)

ID = "t:a:1"
QUESTION: Any = SimpleNamespace(id=ID, raised_at=1.0)


class Questions(dict[str, Any]):
    """Open questions of a task, at which something happens once, just after somebody has looked."""

    def __init__(self) -> None:
        super().__init__({ID: QUESTION})
        self.then: Callable[[], object] | None = None

    def _now(self) -> None:
        then, self.then = self.then, None
        if then is not None:
            then()

    def values(self) -> Any:
        found = list(super().values())
        self._now()
        return found

    def get(self, id_: str, default: Any = None) -> Any:
        found = super().get(id_, default)
        self._now()
        return found


@pytest.fixture
def questions() -> Questions:
    return Questions()


@pytest.fixture
def answers(questions: Questions) -> GivenAnswers:
    state: Any = SimpleNamespace(escalations=questions)
    return GivenAnswers(lambda: {"t": state})


def record(answers: GivenAnswers, questions: Questions) -> None:
    """What the orchestrator does with an answer."""
    del questions[ID]
    answers.forget(ID)


def test_an_answered_question_is_not_shown_also_where_that_is_recorded_while_somebody_looks(
    answers: GivenAnswers, questions: Questions
) -> None:
    assert answers.open_questions() == [QUESTION]
    assert answers.note(ID)
    questions.then = lambda: record(answers, questions)

    assert answers.open_questions() == []
    assert not questions
    assert ID not in answers


def test_of_two_who_answer_the_first_one_counts(answers: GivenAnswers) -> None:
    assert answers.note(ID)
    assert not answers.note(ID)
    answers.forget(ID)
    assert answers.note(ID)


def test_a_second_answer_that_comes_once_the_first_one_is_recorded_is_refused_and_leaves_no_note(
    answers: GivenAnswers, questions: Questions
) -> None:
    def first_one() -> None:
        assert answers.note(ID)
        record(answers, questions)

    questions.then = first_one
    assert answers.question(ID) is QUESTION  # the second one has looked, and the first one answers just after that

    assert not answers.note(ID)
    assert ID not in answers


def asks(_: Any, context: Any) -> str:
    if not context.answers:
        raise Escalated("may I?")
    return "done"


TREE = SupervisorSpec(
    id="shop",
    tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[Escalate()]),
    children=[WorkerSpec(id="w", execute=asks)],
)


def test_whoever_has_answered_never_sees_the_question_again_and_many_who_answer_answer_once() -> None:
    accepted: list[str] = []
    seen: list[str] = []
    with start(TREE) as tree:

        def answer(handle: Any, asked: str, turn: threading.Barrier) -> None:
            turn.wait(LONG_S)
            try:
                tree.respond(asked, Approve())
            except EscalationError:
                return
            accepted.append(asked)
            while handle.report is None:
                seen.extend(each.id for each in tree.escalations() if each.id == asked)

        for _ in range(30):
            handle = tree.submit("go")
            for event in handle.events():
                if event.name == "escalation_raised":
                    break
            [question] = handle.escalations
            turn = threading.Barrier(3)
            threads = [threading.Thread(target=answer, args=(handle, question.id, turn)) for _ in range(3)]
            for thread in threads:
                thread.start()
            assert str(handle.result(LONG_S).status) == "succeeded"
            for thread in threads:
                thread.join(LONG_S)

    assert len(accepted) == len(set(accepted)) == 30
    assert not seen


def test_the_note_goes_once_the_answer_is_recorded() -> None:
    with start(TREE) as tree:
        handle = tree.submit("go")
        next(event for event in handle.events() if event.name == "escalation_raised")
        answers: GivenAnswers = tree._system.services["tasks"].ports["shop"].answers
        forget, still_there = answers.forget, []

        def noted(question: str) -> None:
            still_there.append(answers._in_task(question))
            forget(question)

        answers.forget = noted  # type: ignore[method-assign]
        handle.respond(handle.escalations[0].id, Approve())
        assert str(handle.result(LONG_S).status) == "succeeded"

    assert still_there == [None]


def test_the_note_stays_where_the_orchestrator_dies_of_the_answer_and_goes_with_the_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[Any] = []
    responded = OpenQuestions.responded

    def dies_once(questions: OpenQuestions, state: Any, order: Any) -> None:
        if not seen:
            seen.append("died")
            raise RuntimeError("a bug")
        seen.append(list(handle.escalations))  # the next incarnation: the order is still to be carried out
        with pytest.raises(EscalationError, match="no such open question"):
            handle.respond(order.escalation, Approve())
        responded(questions, state, order)

    monkeypatch.setattr(OpenQuestions, "responded", dies_once)
    with start(TREE) as tree:
        handle = tree.submit("go")
        next(event for event in handle.events() if event.name == "escalation_raised")
        question = handle.escalations[0].id
        handle.respond(question, Approve())
        assert str(handle.result(LONG_S).status) == "succeeded"
        settle(tree)
        assert question not in tree._system.services["tasks"].ports["shop"].answers

    assert seen == ["died", []]


def test_the_note_of_an_answer_that_is_given_up_goes_with_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def dies(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(OpenQuestions, "responded", dies)
    with start(TREE.model_copy(update={"max_restarts": 100})) as tree:
        handle = tree.submit("go")
        next(event for event in handle.events() if event.name == "escalation_raised")
        question = handle.escalations[0].id
        handle.respond(question, Approve())
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)
        settle(tree)
        assert question not in tree._system.services["tasks"].ports["shop"].answers


class Interrupts(BaseModel):
    """An answer during whose serialization somebody presses Ctrl-C."""

    value: int = 1

    @model_serializer
    def text(self) -> Any:
        raise KeyboardInterrupt


def test_a_question_stays_open_where_ctrl_c_comes_while_its_answer_is_made_storable() -> None:
    with start(TREE) as tree:
        handle = tree.submit("go")
        next(event for event in handle.events() if event.name == "escalation_raised")
        [question] = handle.escalations
        with pytest.raises(KeyboardInterrupt):
            handle.respond(question.id, Edit(Interrupts()))

        assert handle.escalations == [question]
        handle.respond(question.id, Approve())
        assert str(handle.result(LONG_S).status) == "succeeded"


def test_a_question_whose_time_is_up_while_its_answer_is_made_storable_ends_and_is_not_polled_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, looks, look = ManualClock(), list[str](), OpenQuestions._hear_answers

    class Slow(BaseModel):
        value: int = 1

        @model_serializer
        def text(self) -> Any:
            clock.advance(5.0)
            settle(tree)
            return {"value": self.value}

    def counted(questions: OpenQuestions, state: Any, then: Any) -> None:
        looks.append(state.id)
        look(questions, state, then)

    monkeypatch.setattr(OpenQuestions, "_hear_answers", counted)
    tasks = Tasks(planner=StaticPlan([Subtask("a", worker="w")]), on_failure=[Escalate(timeout_s=5.0)])
    with start(TREE.model_copy(update={"tasks": tasks}), clock=clock) as tree:
        handle = tree.submit("go")
        next(event for event in handle.events() if event.name == "escalation_raised")
        with pytest.raises(EscalationError, match="its time is up"):
            handle.respond(handle.escalations[0].id, Edit(Slow()))
        with pytest.raises(TaskFailedError):
            handle.result(LONG_S)

    assert len(looks) == 1
