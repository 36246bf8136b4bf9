"""A person's answer to an open question: it is checked, and given to the orchestrator that asks.

Comes in: the id of a question and an answer, from a host, a console, a page or another process. Goes out: an order for
the orchestrator, or an error that says why this is no answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from actors.model.errors import ActorsError, ConfigError, Problem
from actors.tasks.decide.task import looked_at
from actors.tasks.decide.verdict import as_verdict, problems_of_person
from actors.tasks.engine.orders import RESPOND, Order
from actors.tasks.engine.service import TaskService
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.journal.unit import Escalation
from actors.tasks.model import ANSWERS, Answer, EscalationAnswered, EscalationError
from actors.tasks.planning.planners import as_plan
from actors.validation.json_form import json_form
from actors.validation.validation_messages import not_json_phrase, type_phrase, value_phrase

_ANSWERS: Final = {kind: (word, field) for word, (kind, field) in ANSWERS.items()}
"""By the class of an answer: its word in a record, and its field, where it has one."""


def open_question(service: TaskService, id_: str) -> Escalation | None:
    """Return an open question that nobody has answered; None: there is none of this id."""
    run = service.run_of(_task_of(id_))
    return None if run is None or id_ in service.answers else run.state.questions.get(id_)


def open_questions(service: TaskService, task: str | None = None) -> list[Escalation]:
    """Return all questions of a task (None: of all tasks) that nobody has answered, the oldest first."""
    runs = service.runs() if task is None else [service.run_of(task)]
    found = [each for run in runs if run is not None for each in list(run.state.questions.values())]
    return sorted((each for each in found if each.id not in service.answers), key=lambda each: each.raised_at)


def respond_to(
    service: TaskService,
    question: str | Escalation,
    answer: Answer,
    task: str = "",
    given: float | None = None,
    by: RemoteCommand | None = None,
) -> bool:
    """Answer a question, wherever in a tree it was asked; False: it was answered with an equal answer before.

    Args:
        service: the tasks of the tree.
        question: the question, or its id.
        answer: the answer.
        task: only a question of this task. Empty: of any.
        given: when the answer was given, by the store's clock. None: just now.
        by: the command of another process that is carried out so.

    Raises:
        EscalationError: no such question is open, it was answered otherwise, or this is no answer.
        TreeDownError: the tree has ended, and the next process asks this.
    """
    id_ = question.id if isinstance(question, Escalation) else question
    if not isinstance(id_, str):
        raise EscalationError(value_phrase(id_), "this is not the id of a question. Give escalation.id")
    if task and _task_of(id_) != task:
        raise EscalationError(id_, f"task {task} has no such open question. Look at handle.escalations")
    if type(answer) not in _ANSWERS:
        what = f"{type_phrase(answer)} is not an answer. Use Approve(), Edit(value), Respond(text) or Reject(reason)"
        raise EscalationError(id_, what, is_unfit=True)
    word, field = _ANSWERS[type(answer)]
    found, run, now = open_question(service, id_), service.run_of(_task_of(id_)), service.time()
    value = getattr(answer, field) if field is not None else None
    try:
        said = word, fitting(word, value, found, run.state if run is not None else None)
    except ValueError as error:
        raise EscalationError(id_, str(error), is_unfit=True) from None
    is_late = given is None and found is not None and found.due is not None and now >= found.due
    if found is not None and run is not None and not is_late and service.answers.setdefault(id_, said) is said:
        body = {"escalation": id_, "answer": word, "value": said[1]}
        try:
            run.engine.port.order(Order(found.task, RESPOND, body, given_by=by, given=now if given is None else given))
        except ActorsError:  # the tree is down
            service.answers.pop(id_, None)
            raise
        return True
    before = service.answers.get(id_) or _recorded(service, id_)
    if before is None:
        what = "no such open question: its time is up, its task has ended, or it never was. Look at handle.escalations"
        raise EscalationError(id_, what)
    if before != said:
        raise EscalationError(id_, f"it was answered before, and otherwise: {before[0]}. Look at handle.escalations")
    return False


def _recorded(service: TaskService, id_: str) -> tuple[str, Any] | None:
    """Return the recorded answer to a question; None: there is none."""
    for event in service.store.read(_task_of(id_)):
        if isinstance(event, EscalationAnswered) and event.escalation == id_:
            return event.answer, event.value
    return None


def _task_of(id_: str) -> str:
    """Return the id of the task that a question is about: the question's begins with it."""
    return id_.rpartition(":")[0].rpartition(":")[0]


def fitting(word: str, value: object, question: Escalation | None = None, state: TaskState | None = None) -> Any:
    """Return the value of an answer as a journal keeps it.

    Args:
        word: of the answer, as in a record.
        value: of the answer.
        question: that it answers, if it is known: an edit of a plan is a plan, one of a review is a verdict.
        state: of the task that asks.

    Raises:
        ValueError: it cannot be kept, or does not fit; the text says why.
    """
    try:
        kept = json_form(value)
    except Exception as error:  # noqa: BLE001 - a serializer of the user's, or an iterator within it, may raise anything
        what = f"{not_json_phrase(value, error)} cannot be stored"
        raise ValueError(f"{what}: answers are JSON (dicts, lists, str, numbers, models)") from None
    problems: Iterable[Problem] = ()
    step = question.step if question is not None and word == "edit" else ""
    try:
        if step == "plan":
            as_plan(kept)
        elif step == "review" and question is not None and state is not None:
            unit = state.units.get(question.about)
            course = unit.course if unit is not None else state.root.course
            seen = looked_at(course, question.subtasks) if course is not None else question.subtasks
            problems = problems_of_person(as_verdict(kept, seen), seen)
    except ConfigError as error:
        problems = error.problems
    if problems:
        what = "an Edit of a plan takes a plan" if step == "plan" else "an Edit of a review takes a verdict"
        raise ValueError(f"{what}: {'; '.join(map(str, problems))}")
    return kept
