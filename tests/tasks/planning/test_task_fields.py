"""The names of the contract: what they are called with, what they are by default, and who is a kind of whom."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import pytest

import actors
import trees
from actors import ActorsError, ConfigError, Problem
from trees import (
    Approve,
    AttemptTimeoutError,
    BreakerOpenError,
    Budget,
    BudgetExceededError,
    EscalationError,
    Failover,
    KeywordPlanner,
    NoCapableWorkerError,
    PlanError,
    Respond,
    Retry,
    StoreError,
    Subtask,
    SubtaskFailedError,
    SubtaskStatus,
    SupervisorSpec,
    Task,
    TaskCancelledError,
    TaskDeadlineError,
    TaskError,
    TaskFailedError,
    Tasks,
    TaskStatus,
    TaskTimeoutError,
    UnknownTaskError,
    WorkerSpec,
    start,
)

NAMES = [
    "Task",
    "Budget",
    "Tasks",
    "Subtask",
    "Plan",
    "StaticPlan",
    "KeywordPlanner",
    "CapabilityPlanner",
    "ModelPlanner",
    "Verdict",
    "Check",
    "Retry",
    "Failover",
    "Escalate",
    "Breaker",
    "Approve",
    "Edit",
    "Reject",
    "Respond",
    "Done",
    "Usage",
    "Report",
    "TaskHandle",
    "WorkerSpec",
    "SupervisorSpec",
    "start",
    "TaskError",
    "TaskFailedError",
    "PlanError",
    "NoCapableWorkerError",
    "TaskCancelledError",
    "SubtaskFailedError",
    "BudgetExceededError",
    "BreakerOpenError",
    "AttemptTimeoutError",
    "StoreError",
    "TaskStatus",
    "SubtaskStatus",
    "Last",
    "Verbatim",
    "ModelSynthesizer",
]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_contract_is_importable_from_trees(name: str) -> None:
    assert hasattr(trees, name)
    assert name in trees.__all__


@pytest.mark.parametrize("name", ["Failed", "Rejected", "Later", "Escalated"])
def test_the_signals_of_workers_are_importable_from_actors(name: str) -> None:
    assert issubclass(getattr(actors, name), Exception)
    assert name in actors.__all__


@pytest.mark.parametrize(
    ("word", "values"),
    [
        (Task("g"), {"inputs": {}, "priority": 0, "deadline_s": None, "budget": None, "id": None}),
        (Budget(), {"tokens": None, "cost": None, "seconds": None}),
        (
            Tasks(),
            {
                "reviewer": None,
                "max_parallel": 10,
                "max_iterations": 3,
                "max_plan_attempts": 3,
                "max_subtasks": 50,
                "context_tokens": 100_000,
                "on_failure": (Retry(), Failover()),
            },
        ),
        (
            Subtask("a"),
            {
                "instruction": "",
                "worker": None,
                "capability": None,
                "depends_on": [],
                "inputs": {},
                "timeout_s": None,
                "idle_timeout_s": None,
                "required": True,
                "preemptible": True,
                "undo": None,
            },
        ),
        (
            Retry(),
            {
                "max_attempts": 3,
                "initial_s": 0.5,
                "factor": 2.0,
                "max_s": 30.0,
                "jitter": 0.2,
                "retry_on": (Exception,),
                "give_up_on": (),
            },
        ),
        (trees.Escalate(), {"question": None, "timeout_s": None}),
        (trees.Breaker(), {"failure_threshold": 5, "window_s": 60, "cooldown_s": 30}),
        (trees.Reject(), {"reason": ""}),
        (trees.Check("a", passed=True), {"subtask": "a", "passed": True, "feedback": ""}),
        (trees.Verdict(passed=True), {"passed": True, "checks": []}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_word_has_the_defaults_of_the_contract(word: Any, values: dict[str, Any]) -> None:
    assert {name: getattr(word, name) for name in values} == values


class Array:
    """As of numpy."""

    def __bool__(self) -> bool:
        raise ValueError("the truth of an array is ambiguous")


@pytest.mark.parametrize("kind", [Task, Subtask])
def test_inputs_that_are_no_dict_are_asked_nothing(kind: Any) -> None:
    with pytest.raises(ConfigError, match="inputs: expected a dict, got an Array"):
        kind("a", inputs=Array())


def test_words_may_be_given_in_the_order_of_the_contract() -> None:
    assert Task("g", {"x": 1}, 2, 3.0, Budget(tokens=4), "t1").id == "t1"
    assert Subtask("a", "do it", "w").worker == "w"
    assert Retry(5, 1.0).initial_s == 1.0
    assert trees.Escalate("what now?", 5.0).timeout_s == 5.0
    assert trees.Breaker(1, 2, 3).cooldown_s == 3
    assert trees.Edit(7).value == 7
    assert Respond("try again").text == "try again"
    assert str(Subtask("a", "do it")) == "do it"
    assert isinstance(Tasks().planner, KeywordPlanner)


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


def test_states_are_words_and_those_of_the_contract() -> None:
    assert [str(state) for state in TaskStatus] == [
        "pending",
        "planning",
        "running",
        "waiting",
        "succeeded",
        "failed",
        "cancelled",
    ]
    assert [str(state) for state in SubtaskStatus] == [
        "pending",
        "queued",
        "running",
        "retrying",
        "waiting",
        "succeeded",
        "failed",
        "cancelled",
        "skipped",
        "compensated",
    ]
    assert {state for state in TaskStatus if state.is_final} == {"succeeded", "failed", "cancelled"}


PROBLEM = Problem("task t", "is wrong", "Mend it.")
ERRORS = [
    TaskFailedError("t", "why"),
    PlanError("t", (PROBLEM, PROBLEM), 3),
    NoCapableWorkerError("t", ("fly",), ("read",)),
    BudgetExceededError("t", "tokens 3 of 2"),
    TaskDeadlineError("t", "late"),
    TaskCancelledError("t", "not wanted"),
    TaskTimeoutError("t", 1.0),
    SubtaskFailedError("t", "a", "why"),
    BreakerOpenError("a", ("w",), 3.0),
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


def test_errors_are_kinds_of_each_other_as_the_contract_says() -> None:
    assert [kind.__name__ for kind in NoCapableWorkerError.__mro__[:4]] == [
        "NoCapableWorkerError",
        "PlanError",
        "TaskFailedError",
        "TaskError",
    ]
    assert issubclass(BudgetExceededError, TaskFailedError)
    assert issubclass(TaskDeadlineError, TaskFailedError)
    assert not issubclass(TaskCancelledError, TaskFailedError)
    assert not issubclass(SubtaskFailedError, TaskFailedError)
    assert issubclass(TaskTimeoutError, TimeoutError)


def test_an_error_with_its_report_can_be_pickled_too() -> None:
    spec = SupervisorSpec(
        id="p", tasks=Tasks(on_failure=[]), children=[WorkerSpec(id="w", execute=lambda task, context: 1 / 0)]
    )
    with start(spec) as tree, pytest.raises(TaskFailedError) as caught:
        tree.run("w", timeout=60)
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own

    assert copy.report == caught.value.report
    assert "ZeroDivisionError" in copy.report.failed["w"]


def test_the_id_of_the_orchestrator_is_taken() -> None:
    with pytest.raises(ConfigError, match="orchestrator"):
        start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="orchestrator", execute=lambda t, c: 1)]))
    with start(SupervisorSpec(id="p", tasks=Tasks(), children=[WorkerSpec(id="w", execute=lambda t, c: 1)])) as tree:
        first = tree.which_children("p")[0]
        with pytest.raises(ConfigError, match="orchestrator"):
            tree.start_child("p", WorkerSpec(id="orchestrator", execute=lambda t, c: 1))

    assert first.id == "orchestrator"


def test_submit_run_and_arun_take_what_the_contract_says() -> None:
    signatures = {
        name: list(inspect.signature(getattr(trees.Tree, name)).parameters) for name in ("submit", "run", "arun")
    }

    assert signatures["submit"] == ["self", "task", "path"]
    assert signatures["run"][:3] == ["self", "task", "timeout"]
    assert signatures["arun"][:2] == ["self", "task"]
