"""The names of the contract: what they are called with, what they are by default, and who is a kind of whom."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import trees
from actors import ActorsError, ConfigError, Problem
from trees import (
    Approve,
    AttemptTimeoutError,
    Budget,
    BudgetExceededError,
    EscalationError,
    NoCapableWorkerError,
    PlanError,
    Retry,
    StoreError,
    Subtask,
    SubtaskFailedError,
    Task,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    Tasks,
    TaskTimeoutError,
    UnknownTaskError,
)


class Array:
    """As of numpy."""

    def __bool__(self) -> bool:
        raise ValueError("the truth of an array is ambiguous")


@pytest.mark.parametrize("kind", [Task, Subtask])
def test_inputs_that_are_no_dict_are_asked_nothing(kind: Any) -> None:
    with pytest.raises(ConfigError, match="inputs: expected a dict, got an Array"):
        kind("a", inputs=Array())


@pytest.mark.parametrize(
    ("word", "where"),
    [
        (lambda: Task(""), "goal"),
        (lambda: Task("g", deadline_s=-1), "deadline_s"),
        (lambda: Task("g", deadline_s=float("nan")), "deadline_s"),
        (lambda: Task("g", priority="high"), "priority"),
        (lambda: Task("g", id="a b"), "id"),
        (lambda: Task("g", ghost=1), "ghost"),
        (lambda: Budget(tokens=-1), "tokens"),
        (lambda: Tasks(max_parallel=0), "max_parallel"),
        (lambda: Tasks(planner=7), "planner"),
        (lambda: Tasks(planner=None), "planner"),
        (lambda: Tasks(reviewer="x"), "reviewer"),
        (lambda: Tasks(on_failure=[Approve()]), "on_failure"),
        (lambda: Subtask(""), "id"),
        (lambda: Subtask("a/b"), "id"),
        (lambda: Subtask("a", timeout_s=0), "timeout_s"),
        (lambda: Retry(0), "max_attempts"),
        (lambda: Retry(jitter=2), "jitter"),
        (lambda: trees.Breaker(0), "failure_threshold"),
    ],
)
def test_a_word_that_is_wrong_is_refused_where_it_is_written(word: Any, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        word()


PROBLEM = Problem("task t", "is wrong", "Mend it.")
ERRORS = [
    TaskFailedError("t", "why"),
    PlanError("t", (PROBLEM, PROBLEM), 3),
    NoCapableWorkerError("fly", ("read",), task="t"),
    BudgetExceededError("t", "tokens 3 of 2"),
    TaskDeadlineError("t", "late"),
    TaskCancelledError("t", "not wanted"),
    TaskTimeoutError("t", 1.0),
    SubtaskFailedError("t", "a", "why"),
    AttemptTimeoutError("a", 1, "running", 2.0),
    EscalationError("e", "closed"),
    UnknownTaskError("t"),
    StoreError("memory", "full"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_task_errors_say_what_happened_and_can_be_pickled(error: TaskError) -> None:
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own

    assert isinstance(error, TaskError)
    assert isinstance(error, ActorsError)
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
    assert len(str(error)) > 10
    assert error.report is None
