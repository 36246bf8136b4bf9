"""A person's answer to an open question: it is checked, and given to the orchestrator that asks.

Comes in: the id of a question and an answer, from a host, a console, a page or another process. Goes out: an order for
the orchestrator, or an error that says why this is no answer.
"""

from __future__ import annotations

from typing import Any, Final

from actors.model.errors import ConfigError
from actors.model.raised import is_a
from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.policy import ANSWERS, Answer
from actors.tasks.model.task_errors import EscalationError
from actors.tasks.orchestration.messages import EscalationResponse
from actors.tasks.orchestration.task_runtime import OrchestratorPort
from actors.tasks.recovery.next_step import looked_at
from actors.tasks.results.review import as_verdict, problems_of_person
from actors.validation.json_form import json_form
from actors.validation.validation_messages import not_json_phrase, type_phrase, value_phrase

_ANSWERS: Final = {kind: (word, field) for word, (kind, field) in ANSWERS.items()}
"""By the class of an answer: its word in a record, and its field, where it has one."""
_NOT_OPEN: Final = "no such question is open. It was answered, its time is up, or its task has ended"


def require_question(id_: object) -> None:
    """Refuse what cannot be the id of a question.

    Raises:
        EscalationError: it is no text.
    """
    if not is_a(id_, str):
        raise EscalationError(value_phrase(id_), "this is not the id of a question. Give escalation.id")


def respond(
    port: OrchestratorPort, id_: str, answer: Answer, given: float | None = None, by: RemoteCommand | None = None
) -> None:
    """Answer an open question of an orchestrator; ``given`` is when, by the store's clock, where that was not just now.

    Raises:
        EscalationError: there is none, or this is no answer.
        TreeDownError: the tree has ended, and the next process asks this.
    """
    kind = _ANSWERS.get(type(answer))
    if kind is None:
        what = f"{type_phrase(answer)} is not an answer. Use Approve(), Edit(value), Respond(text) or Reject(reason)"
        raise EscalationError(id_, what, is_unfit=True)
    found, now = port.answers.question(id_), port.runtime.time()
    if found is None or (given is None and found.due is not None and now >= found.due):
        raise EscalationError(id_, _NOT_OPEN)
    word, field = kind
    try:
        value = storable(getattr(answer, field) if field is not None else None)
    except ValueError as error:
        raise EscalationError(id_, str(error), is_unfit=True) from None
    if word == "edit" and found.step == "review":
        problem = problem_of_verdict(port.states.get(found.task), found, value)
        if problem:
            raise EscalationError(id_, f"an Edit of a review takes a verdict: {problem}", is_unfit=True)
    if not port.answers.note(id_):  # last: all that runs code of the user's, and takes its time, is done
        raise EscalationError(id_, _NOT_OPEN)
    order = EscalationResponse(found.task, id_, word, value, now if given is None else given, by)
    try:
        port.order(order)
    except BaseException:
        if not any(each is order for each in port.orders.copy()):
            port.answers.forget(id_)
        raise


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


def problem_of_verdict(state: TaskState | None, question: Escalation, value: object) -> str:
    """Say what is wrong with a person's verdict about a task, or nothing."""
    seen = looked_at(state, question.subtasks) if state is not None else question.subtasks
    try:
        return "; ".join(map(str, problems_of_person(as_verdict(value, seen), seen)))
    except ConfigError as error:
        return str(error)
