"""A person's answer to an open question: it is checked, and given to the orchestrator that asks.

Comes in: the id of a question and an answer, from a host, a console, a page or another process. Goes out: an order for
the orchestrator, or an error that says why this is no answer.
"""

from __future__ import annotations

from typing import Any, Final

from actors.model.errors import ConfigError
from actors.model.raised import is_a
from actors.tasks.journal.dropped import dropped_of
from actors.tasks.journal.questions import Escalation
from actors.tasks.journal.store import RemoteCommand
from actors.tasks.journal.task_state import TaskState
from actors.tasks.model.policy import ANSWERS, Answer
from actors.tasks.model.task_errors import EscalationError
from actors.tasks.model.task_events import EscalationAnswered
from actors.tasks.model.task_ids import is_part_of
from actors.tasks.orchestration.messages import EscalationResponse
from actors.tasks.orchestration.task_runtime import OrchestratorPort, TaskRuntime
from actors.tasks.recovery.next_step import looked_at
from actors.tasks.results.review import as_verdict, problems_of_person
from actors.validation.json_form import json_form
from actors.validation.validation_messages import not_json_phrase, type_phrase, value_phrase
from trees.host.journal_follower import whole_of

_ANSWERS: Final = {kind: (word, field) for word, (kind, field) in ANSWERS.items()}
"""By the class of an answer: its word in a record, and its field, where it has one."""
_NOT_OPEN: Final = (
    "no such open question: its time is up, its task has ended, or it never was. Look at handle.escalations"
)


def port_of_question(runtime: TaskRuntime, id_: str) -> OrchestratorPort | None:
    """Return the port of the orchestrator that asks an open question; None: the question is not open."""
    return next((each for each in list(runtime.ports.values()) if each.answers.question(id_) is not None), None)


def respond_to(runtime: TaskRuntime, question: str | Escalation, answer: Answer, task: str = "") -> None:
    """Answer a question, wherever in a tree it was asked.

    Args:
        runtime: of the tree.
        question: the question, or its id.
        answer: the answer.
        task: only a question of this task, or of a team's part of it. Empty: of any.

    Raises:
        EscalationError, TreeDownError: as ``respond``.
    """
    id_ = question.id if isinstance(question, Escalation) else question
    if not is_a(id_, str):
        raise EscalationError(value_phrase(id_), "this is not the id of a question. Give escalation.id")
    asked = _task_of(id_)
    if task and not (asked == task or is_part_of(asked, None, task)):
        raise EscalationError(id_, f"task {task} has no such open question. Look at handle.escalations")
    port = port_of_question(runtime, id_) or next(iter(runtime.ports.values()), None)
    if port is None:
        raise EscalationError(id_, _NOT_OPEN)
    respond(port, id_, answer)


def respond(
    port: OrchestratorPort, id_: str, answer: Answer, given: float | None = None, by: RemoteCommand | None = None
) -> None:
    """Answer an open question of an orchestrator; ``given`` is when, by the store's clock, where that was not just now.

    A question that was answered with an equal answer before is left as it is.

    Raises:
        EscalationError: there is none, it was answered otherwise, or this is no answer.
        TreeDownError: the tree has ended, and the next process asks this.
    """
    kind = _ANSWERS.get(type(answer))
    if kind is None:
        what = f"{type_phrase(answer)} is not an answer. Use Approve(), Edit(value), Respond(text) or Reject(reason)"
        raise EscalationError(id_, what, is_unfit=True)
    found, now = port.answers.question(id_), port.runtime.time()
    word, field = kind
    try:
        value = storable(getattr(answer, field) if field is not None else None)
    except ValueError as error:
        raise EscalationError(id_, str(error), is_unfit=True) from None
    if found is None or (given is None and found.due is not None and now >= found.due):
        return _refuse_another(port, id_, (word, value))
    if word == "edit" and found.step == "review":
        problem = problem_of_verdict(port.states.get(found.task), found, value)
        if problem:
            raise EscalationError(id_, f"an Edit of a review takes a verdict: {problem}", is_unfit=True)
    if not port.answers.note(id_, (word, value)):  # last: all that runs code of the user's, and takes its time, is done
        return _refuse_another(port, id_, (word, value))
    order = EscalationResponse(found.task, id_, word, value, now if given is None else given, by)
    try:
        port.order(order)
    except BaseException:
        if not any(each is order for each in port.orders.copy()):
            port.answers.forget(id_)
        raise


def _refuse_another(port: OrchestratorPort, id_: str, answer: tuple[str, Any]) -> None:
    """Return if a question that is not open was answered with the same answer: a loop that answers may begin anew.

    Raises:
        EscalationError: it was not.
    """
    before = port.answers.noted(id_) or _recorded(port.runtime, id_, answer[0])
    if before is None:
        raise EscalationError(id_, _NOT_OPEN)
    if before != answer:
        raise EscalationError(id_, f"it was answered before, and otherwise: {before[0]}. Look at handle.escalations")


def _recorded(runtime: TaskRuntime, id_: str, word: str) -> tuple[str, Any] | None:
    """Return the recorded answer to a question, its value only if the word is this one; None: there is none."""
    for event in runtime.outline(_task_of(id_)):
        if isinstance(event, EscalationAnswered) and event.escalation == id_:
            at, durable = dropped_of(event), runtime.durable
            if event.answer != word or at is None or durable is None:
                return event.answer, event.value
            return word, getattr(whole_of(event, durable.fetch(at.stream, (at.number,)).get()), event.large)
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


def problem_of_verdict(state: TaskState | None, question: Escalation, value: object) -> str:
    """Say what is wrong with a person's verdict about a task, or nothing."""
    seen = looked_at(state, question.subtasks) if state is not None else question.subtasks
    try:
        return "; ".join(map(str, problems_of_person(as_verdict(value, seen), seen)))
    except ConfigError as error:
        return str(error)
