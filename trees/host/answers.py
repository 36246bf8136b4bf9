"""A person's answer to an open question: it is checked, and given to the orchestrator that asks.

Comes in: the id of a question and an answer, from a host, a console, a page or another process. Goes out: an order for
the orchestrator, or an error that says why this is no answer.
"""

from __future__ import annotations

from typing import Any, Final

from actors.model.errors import ConfigError
from actors.model.raised import is_a
from actors.tasks.decide.task import looked_at
from actors.tasks.decide.verdict import as_verdict, problems_of_person
from actors.tasks.engine.orders import RESPOND, Order
from actors.tasks.engine.service import TaskService
from actors.tasks.journal.fold import TaskState
from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.model.policy import ANSWERS, Answer
from actors.tasks.model.task_errors import EscalationError
from actors.tasks.model.task_events import EscalationAnswered
from actors.tasks.planning.planners import as_plan
from actors.validation.json_form import json_form
from actors.validation.validation_messages import not_json_phrase, type_phrase, value_phrase

_ANSWERS: Final = {kind: (word, field) for word, (kind, field) in ANSWERS.items()}
"""By the class of an answer: its word in a record, and its field, where it has one."""
_NOT_OPEN: Final = (
    "no such open question: its time is up, its task has ended, or it never was. Look at handle.escalations"
)


def open_question(service: TaskService, id_: str) -> Escalation | None:
    """Return an open question that nobody has answered; None: there is none of this id."""
    run = service.run_of(_task_of(id_))
    return None if run is None or id_ in service.answers else run.state.questions.get(id_)


def open_questions(service: TaskService) -> list[Escalation]:
    """Return all questions that nobody has answered, the oldest first."""
    found = [each for run in service.runs() for each in list(run.state.questions.values())]
    return sorted((each for each in found if each.id not in service.answers), key=lambda each: each.raised_at)


def respond_to(service: TaskService, question: str | Escalation, answer: Answer, task: str = "") -> None:
    """Answer a question, wherever in a tree it was asked.

    Args:
        service: the tasks of the tree.
        question: the question, or its id.
        answer: the answer.
        task: only a question of this task. Empty: of any.

    Raises:
        EscalationError, TreeDownError: as ``respond``.
    """
    id_ = question.id if isinstance(question, Escalation) else question
    if not is_a(id_, str):
        raise EscalationError(value_phrase(id_), "this is not the id of a question. Give escalation.id")
    if task and _task_of(id_) != task:
        raise EscalationError(id_, f"task {task} has no such open question. Look at handle.escalations")
    respond(service, id_, answer)


def respond(
    service: TaskService, id_: str, answer: Answer, given: float | None = None, by: RemoteCommand | None = None
) -> None:
    """Answer an open question; ``given`` is when, by the store's clock, where that was not just now.

    A question that was answered with an equal answer before is left as it is.

    Raises:
        EscalationError: there is none, it was answered otherwise, or this is no answer.
        TreeDownError: the tree has ended, and the next process asks this.
    """
    kind = _ANSWERS.get(type(answer))
    if kind is None:
        what = f"{type_phrase(answer)} is not an answer. Use Approve(), Edit(value), Respond(text) or Reject(reason)"
        raise EscalationError(id_, what, is_unfit=True)
    found, now = open_question(service, id_), service.time()
    word, field = kind
    try:
        value = storable(getattr(answer, field) if field is not None else None)
    except ValueError as error:
        raise EscalationError(id_, str(error), is_unfit=True) from None
    port = service.port_of(_task_of(id_))
    if found is None or port is None or (given is None and found.due is not None and now >= found.due):
        return _refuse_another(service, id_, (word, value))
    if word == "edit" and found.step in {"review", "plan"}:
        problem = _problem_of_edit(service, found, value)
        if problem:
            raise EscalationError(id_, problem, is_unfit=True)
    said = (word, value)
    if service.answers.setdefault(id_, said) is not said:
        return _refuse_another(service, id_, said)
    body = {"escalation": id_, "answer": word, "value": value}
    order = Order(found.task, RESPOND, body, given_by=by, given=now if given is None else given)
    try:
        port.order(order)
    except BaseException:
        if not any(each is order for each in port.orders.copy()):
            service.answers.pop(id_, None)
        raise
    return None


def _refuse_another(service: TaskService, id_: str, answer: tuple[str, Any]) -> None:
    """Return if a question that is not open was answered with the same answer: a loop that answers may begin anew.

    Raises:
        EscalationError: it was not.
    """
    before = service.answers.get(id_) or _recorded(service, id_)
    if before is None:
        raise EscalationError(id_, _NOT_OPEN)
    if before != answer:
        raise EscalationError(id_, f"it was answered before, and otherwise: {before[0]}. Look at handle.escalations")


def _recorded(service: TaskService, id_: str) -> tuple[str, Any] | None:
    """Return the recorded answer to a question; None: there is none."""
    for event in service.store.read(_task_of(id_)):
        if isinstance(event, EscalationAnswered) and event.escalation == id_:
            return event.answer, event.value
    return None


def _task_of(id_: str) -> str:
    """Return the id of the task that a question is about: the question's begins with it."""
    return id_.rpartition(":")[0].rpartition(":")[0]


def storable(value: object) -> Any:
    """Return the value of an answer as a journal keeps it.

    Raises:
        ValueError: it cannot be kept; the text says why.
    """
    try:
        return json_form(value)
    except Exception as error:  # noqa: BLE001 - a serializer of the user's, or an iterator within it, may raise anything
        what = (
            f"{not_json_phrase(value, error)} cannot be stored: answers are JSON (dicts, lists, str, numbers, models)"
        )
        raise ValueError(what) from None


def _problem_of_edit(service: TaskService, question: Escalation, value: object) -> str:
    """Say what is wrong with what a person gives for a verdict or a plan, or nothing."""
    run = service.run_of(question.task)
    what = "plan" if question.step == "plan" else "verdict"
    try:
        if question.step == "plan":
            as_plan(value)
            return ""
        wrong = problem_of_verdict(run.state, question, value) if run is not None else ""
    except ConfigError as error:
        wrong = str(error)
    return f"an Edit of a {question.step} takes a {what}: {wrong}" if wrong else ""


def problem_of_verdict(state: TaskState, question: Escalation, value: object) -> str:
    """Say what is wrong with what a person gives for a verdict, or nothing."""
    course = state.units[question.about].course if question.about in state.units else state.root.course
    seen = looked_at(course, question.subtasks) if course is not None else question.subtasks
    try:
        return "; ".join(map(str, problems_of_person(as_verdict(value, seen), seen)))
    except ConfigError as error:
        return str(error)
