"""What can be given work, what it may say, and who is listed: points 1 to 5 of the contract."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest

from actors import Escalated, Failed, Rejected, Worker
from tests.tasks.one_subtask import one, report_of
from trees import (
    Done,
    StaticPlan,
    Subtask,
    SupervisorSpec,
    Tasks,
    TaskStatus,
    Usage,
    WorkerSpec,
    start,
)

# -- what execute may be ---------------------------------------------------------------------------------------


def of_two(task: Subtask, context: Any) -> str:
    return f"{task}/{context.goal}"


async def of_two_async(task: Subtask, context: Any) -> str:
    return f"{task}/{context.goal}"


def of_one(instruction: str) -> str:
    assert isinstance(instruction, str)
    return f"{instruction}/read it"


async def of_one_async(instruction: str) -> str:
    assert isinstance(instruction, str)
    return f"{instruction}/read it"


class SearchTool:
    """The articles' own class."""

    async def execute(self, task: Any, context: Any) -> str:
        return f"{task}/{context.goal}"


class SyncTool:
    def execute(self, task: Any, context: Any) -> str:
        return f"{task}/{context.goal}"


class OnlyInstruction:
    def execute(self, task: str) -> str:
        return f"{task}/read it"


class Called:
    def __call__(self, task: Any, context: Any) -> str:
        return f"{task}/{context.goal}"


class CalledAsync:
    async def __call__(self, task: Any, context: Any) -> str:
        return f"{task}/{context.goal}"


def told(prompt: str) -> str:
    """Instruction and goal, out of the prompt that an agent gets."""
    instruction, _, goal = prompt.split("\n\n")
    return f"{instruction}/{goal}"


class Invoked:
    def invoke(self, prompt: str) -> Any:
        return SimpleNamespace(content=told(prompt), usage_metadata={"total_tokens": 7})


class InvokedAsync:
    async def ainvoke(self, prompt: str) -> Any:
        return SimpleNamespace(content=told(prompt), usage_metadata={"total_tokens": 7})

    def invoke(self, prompt: str) -> Any:
        raise AssertionError(prompt)


class Ran:
    async def run(self, prompt: str) -> Any:
        return SimpleNamespace(output=told(prompt), usage=lambda: SimpleNamespace(total_tokens=7))


def with_more(task: Subtask, context: Any, more: str) -> str:
    return f"{task}/{context.goal}{more}"


EXECUTABLES = {
    "function": of_two,
    "async function": of_two_async,
    "function of the instruction": of_one,
    "async function of the instruction": of_one_async,
    "lambda": lambda task, context: f"{task}/{context.goal}",
    "partial": functools.partial(with_more, more=""),
    "object with async execute": SearchTool(),
    "object with sync execute": SyncTool(),
    "object whose execute takes the instruction": OnlyInstruction(),
    "class with execute": SyncTool,
    "class with async execute": SearchTool,
    "bound method": SyncTool().execute,
    "bound async method": SearchTool().execute,
    "callable object": Called(),
    "async callable object": CalledAsync(),
    "agent with invoke": Invoked(),
    "agent with ainvoke": InvokedAsync(),
    "agent with run": Ran(),
    "import string": f"{__name__}:of_two",
}


@pytest.mark.parametrize("kind", EXECUTABLES)
def test_whatever_can_execute_gives_the_same_result(kind: str) -> None:
    report = report_of(one(EXECUTABLES[kind]))

    assert report.results == {"a": "count the pages/read it"}
    assert report.usage.tokens == (7 if kind.startswith("agent") else 0)


class Counting(Worker):
    def __init__(self) -> None:
        self.done = 0

    def execute(self, task: Any, context: Any) -> int:
        self.done += 1
        if context.inputs.get("break") == self.done:
            raise ValueError("broken")
        return self.done


class CountingAsync(Worker):
    def __init__(self) -> None:
        self.done = 0

    async def execute(self, task: Any, context: Any) -> int:
        self.done += 1
        if context.inputs.get("break") == self.done:
            raise ValueError("broken")
        return self.done


@pytest.mark.parametrize("worker", [Counting, CountingAsync])
def test_a_worker_keeps_its_object_from_one_task_to_the_next(worker: type[Worker]) -> None:
    plan = StaticPlan([Subtask("a", worker="w")])
    spec = SupervisorSpec(id="p", tasks=Tasks(planner=plan), children=[WorkerSpec(id="w", actor=worker)])
    with start(spec) as tree:
        results = [tree.run("count", timeout=60).results["a"] for _ in range(3)]

    assert results == [1, 2, 3]


# -- what it may say -------------------------------------------------------------------------------------------


def test_done_carries_a_value_and_what_it_used() -> None:
    report = report_of(one(lambda task, context: Done("ok", usage=Usage(tokens=5, cost=0.5))))

    assert report.results == {"a": "ok"}
    assert (report.usage.tokens, report.usage.cost) == (5, 0.5)
    assert report.graph[0].usage.tokens == 5


@pytest.mark.parametrize("way", ["raised", "returned"])
@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("signal", "text"),
    [
        (Failed("the page is gone"), "the page is gone"),
        (Failed("the page is gone", retryable=False), "the page is gone"),
        (Rejected("not mine"), "not mine"),
        (Escalated("may I?"), "may I?"),
    ],
)
def test_a_signal_means_the_same_raised_and_returned(signal: Any, text: str, way: str, asynchronous: bool) -> None:
    def say(task: Any, context: Any) -> Any:
        if way == "raised":
            raise signal
        return signal

    async def say_async(task: Any, context: Any) -> Any:
        return say(task, context)

    report = report_of(one(say_async if asynchronous else say))

    assert report.status is TaskStatus.FAILED
    assert text in report.failed["a"]
