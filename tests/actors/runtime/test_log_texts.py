"""Each kind of event in a log line, and each way in which a text comes into an error: what is shown of it."""

from __future__ import annotations

import dataclasses
import io
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pytest
from loguru import logger
from pydantic import BaseModel

import actors.model.event_metadata
import actors.model.events
import actors.tasks.model.store_events
import actors.tasks.model.task_events
from actors import Escalated, Failed, Problem, Worker
from actors.model.events import Event
from actors.model.worker_events import CommandOutput
from actors.runtime.event_log import ErrorsInLog, describe
from actors.tasks.model.task_errors import StoreError
from actors.testing import settle
from actors.validation.error_text import described
from tests.support.attempts import LONG_S
from tests.support.event_kinds import OUR_KINDS
from trees import (
    Escalate,
    EscalationRaised,
    Plan,
    Reject,
    Respond,
    Retry,
    Subtask,
    SupervisorSpec,
    Task,
    TaskError,
    Tasks,
    WorkerSpec,
    start,
)

SECRET = "sk-SECRET"  # noqa: S105 - that is what is looked for
BOTH = pytest.mark.parametrize("mode", ["text", "type"])

# -- every kind of event -----------------------------------------------------------------------------------------

NAMES = {"path", "task", "subtask", "worker", "sender", "message_type", "subscriber", "child", "chain", "part"}
NAMES |= {"failed", "subtasks", "rejected", "review", "role", "act", "by", "about", "alert"}
NAMES |= {"escalation", "parent", "target", "kind", "answer", "step", "reason", "state", "stack", "ask"}
"""Fields with names and words of ours; ``reason`` not where it is marked. All others may hold what users wrote."""


def value_of(hint: Any) -> Any:  # noqa: C901, PLR0911 - a table
    """A value of this type with the secret in each text of it."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in {types.UnionType, typing.Union}:
        return value_of(next(part for part in parts if part is not type(None)))
    if origin is typing.Literal:
        return parts[0]
    if origin is tuple:
        return (value_of(parts[0]),)
    if origin in {dict, Mapping}:
        return {SECRET: value_of(parts[1])}
    if hint in {str, Any}:
        return SECRET
    if hint in {int, float, bool}:
        return hint(1)
    if hint is types.TracebackType:
        return None
    if hint is StoreError:
        return StoreError(SECRET, SECRET)
    if hint is BaseException:
        return chained()
    if hint is Problem:
        return Problem(SECRET, SECRET, SECRET)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return next(iter(hint))
    if isinstance(hint, type) and issubclass(hint, BaseModel):
        return {"Task": Task(SECRET), "Subtask": Subtask(id="a", instruction=SECRET), "Plan": Plan([])}.get(
            hint.__name__, hint.model_construct()
        )
    return hint()  # a record whose fields have defaults


def chained() -> BaseException:
    """An error with a cause, a context, a group and notes."""
    try:
        try:
            try:
                raise KeyError(SECRET)  # noqa: TRY301
            except KeyError:
                raise ExceptionGroup(SECRET, [ValueError(SECRET), OSError(2, SECRET, SECRET)])  # noqa: B904 - the context
        except ExceptionGroup as group:
            raise RuntimeError(SECRET) from group
    except RuntimeError as error:
        error.add_note(SECRET)
        return error


def is_text(form: Any) -> bool:
    return bool(form.metadata == actors.model.event_metadata.LOGGED_ERROR)


def is_brief(form: Any) -> bool:
    """An event before it has the traceback."""
    return bool(form.metadata == actors.model.event_metadata.IN_BRIEF)


def fields_of(kind: type[Event]) -> tuple[Any, ...]:
    return dataclasses.fields(kind)


def instance(kind: type[Event]) -> Event:
    hints = typing.get_type_hints(kind)
    made = {each.name: value_of(hints[each.name]) for each in dataclasses.fields(kind)}
    for each in dataclasses.fields(kind):
        if each.name in NAMES and not is_text(each):
            made[each.name] = ("name",) if isinstance(made[each.name], tuple) else "name"
    if kind is CommandOutput:
        made["line"] = "name"  # what a command writes is meant for the log
    if kind is actors.tasks.model.task_events.TaskEnding:
        made["kind"] = "deadline"  # else the reason may be what a person has said
    if "reason" in made and not isinstance(made["reason"], str):
        made["reason"] = "name"
    return kind(**made)


@pytest.mark.parametrize("kind", OUR_KINDS, ids=lambda kind: kind.__name__)
def test_no_text_of_an_exception_and_no_payload_is_in_the_line_of_any_event(kind: type[Event]) -> None:
    line = describe(instance(kind), "type")

    assert SECRET not in line
    assert kind.__name__ in line
    if any(each.name == "error" and "Exception" in str(each.type) for each in dataclasses.fields(kind)):
        assert "RuntimeError" in line
    if any(each.name == "error" and "Exception" in str(each.type) and not is_brief(each) for each in fields_of(kind)):
        assert "KeyError" in line
        assert "ExceptionGroup of ValueError, FileNotFoundError" in line
        assert "in chained" in line


@pytest.mark.parametrize("kind", OUR_KINDS, ids=lambda kind: kind.__name__)
def test_by_default_an_exception_says_what_it_has_to_say(kind: type[Event]) -> None:
    line = describe(instance(kind))
    tells = any(is_text(each) for each in dataclasses.fields(kind))
    tells |= any(isinstance(getattr(instance(kind), each.name), BaseException) for each in dataclasses.fields(kind))

    assert (SECRET in line) >= tells


@pytest.mark.parametrize("how", ["itself", "cause", "context", "group"])
def test_a_question_is_told_by_no_traceback_however_it_comes_into_it(how: str) -> None:
    question: BaseException = Escalated(SECRET)
    outer = RuntimeError("the rest is told")
    if how == "itself":
        outer = question  # type: ignore[assignment]
    elif how == "cause":
        outer.__cause__ = question
    elif how == "context":
        outer.__context__ = question
    else:
        outer = ExceptionGroup("the rest is told", [question])  # type: ignore[assignment, list-item]
    text = described(outer, None)

    assert SECRET not in text
    assert "Escalated" in text
    assert ("the rest is told" in text) is (how in {"cause", "context"})


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert described(first, None, texts=False).count("ValueError") == 2


# -- a whole run -------------------------------------------------------------------------------------------------


def planner(task: Task, catalogue: Any, feedback: str = "") -> Plan:
    key = f"{SECRET}-local"
    if task.goal.startswith("plan"):
        raise ValueError(f"401 for the key {SECRET}-planner of {key}")
    return Plan([Subtask("a", worker=task.goal.split()[0], inputs={"key": f"{SECRET}-inputs"})])


class Crash(Worker):
    """Dies with a secret in a variable and one in its error."""

    def execute(self, task: Any, context: Any) -> None:
        token = context.inputs["key"]
        raise RuntimeError(f"bad token {SECRET}-crash") from KeyError(len(token), f"{SECRET}-cause")


def fails(task: Any, context: Any) -> None:
    raise OSError(f"no route with {SECRET}-fail")


def asks(task: Any, context: Any) -> str:
    if context.attempt > 1:
        return f"{SECRET}-result"
    raise Escalated(f"is {SECRET}-question right?")


async def delegates(task: Any, context: Any) -> Any:
    return await context.ask("asks", f"{SECRET}-instruction")


def undone(task: Any, result: Any, context: Any) -> None:
    raise Failed(f"cannot undo {SECRET}-undo", retryable=False)


def reviewer(task: Any, plan: Any, results: Any) -> Any:
    raise ValueError(f"no verdict with {SECRET}-review")


def synthesizer(task: Any, results: Any) -> Any:
    raise ValueError(f"no text with {SECRET}-synthesis")


TREE = SupervisorSpec(
    id="p",
    tasks=Tasks(
        planner=planner,
        reviewer=reviewer,
        synthesizer=synthesizer,
        on_step_failure="best_effort",
        on_failure=[Retry(max_attempts=2, initial_s=0.0, max_s=0.0)],
    ),
    children=[
        WorkerSpec(id="crash", actor=Crash),
        WorkerSpec(id="fails", execute=fails),
        WorkerSpec(id="asks", execute=asks, on_failure=[Escalate()]),
        WorkerSpec(id="delegates", execute=delegates),
        WorkerSpec(id="returns", execute=lambda task, context: f"{SECRET}-result"),
    ],
)
OF_EXCEPTIONS = {"planner", "crash", "cause", "fail", "review", "synthesis"}


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """What loguru writes of everything, with the values of variables, where it is given an error to show."""
    text = io.StringIO()
    sink = logger.add(text, level=0, backtrace=True, diagnose=True, format="{message}\n{exception}")
    try:
        yield text
    finally:
        logger.remove(sink)


@BOTH
def test_a_run_logs_texts_of_exceptions_where_they_are_wanted_and_nothing_else(mode: ErrorsInLog) -> None:
    with logged() as text:
        with start(TREE, log_errors=mode) as tree:
            for goal in ("plan", "crash", "fails", "returns"):
                run(tree, goal)
            for goal, answer in (("delegates", Respond(f"{SECRET}-answer")), ("asks", Reject(f"{SECRET}-rejected"))):
                handle = tree.submit(Task(f"{goal} {SECRET}-goal", inputs={"k": f"{SECRET}-given"}))
                question = next(each for each in handle.events() if isinstance(each, EscalationRaised))
                handle.respond(question.escalation, answer)
                finish(handle)
        lines = text.getvalue()
    found = {part.split("-")[2].split("'")[0].split(" ")[0] for part in words(lines)}

    assert "EscalationAnswered" in lines
    assert "RuntimeError" in lines
    assert found - {"local"} == (OF_EXCEPTIONS if mode == "text" else set())
    assert "inputs" not in found


def words(lines: str) -> Iterator[str]:
    for word in lines.replace("\\n", " ").split():
        if SECRET in word and not word.startswith('f"') and "{" not in word:
            yield word[word.index(SECRET) :].rstrip("',\")?.;")


def run(tree: Any, goal: str) -> None:
    finish(tree.submit(Task(f"{goal} {SECRET}-goal", inputs={"k": f"{SECRET}-given"})))


def finish(handle: Any) -> None:
    try:
        handle.result(timeout=LONG_S)
    except TaskError:
        return


@BOTH
def test_what_an_undo_says_stands_in_the_log_as_far_as_that_is_wanted(mode: ErrorsInLog) -> None:
    plan = Plan([Subtask("a", worker="w"), Subtask("b", worker="fails", depends_on=["a"])])
    workers = [
        WorkerSpec(id="w", execute=lambda task, context: "done", undo=undone),
        WorkerSpec(id="fails", execute=fails),
    ]
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=lambda *_: plan, on_failure=[]), children=workers)
    with logged() as text, start(spec, log_errors=mode) as tree:
        handle = tree.submit("go")
        settle(tree)
        (question,) = handle.escalations
        handle.respond(question.id, Reject(f"{SECRET}-rejected"))
        finish(handle)
        tree.stop()
        lines = text.getvalue()

    assert f"{SECRET}-rejected" not in lines
    assert (SECRET in lines) <= (mode == "text")


@BOTH
def test_the_password_of_a_store_stands_in_no_line(mode: ErrorsInLog) -> None:
    with logged() as text, pytest.raises(Exception, match=r"store|port") as caught:
        start(TREE, store=f"postgresql://me:{SECRET}@127.0.0.1:1/none?password={SECRET}", log_errors=mode)

    assert SECRET not in f"{caught.value}{described(caught.value, None)}{text.getvalue()}"
