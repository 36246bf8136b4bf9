"""Whatever a user gives as ``execute=`` becomes one callable of a subtask and its context."""

from __future__ import annotations

import asyncio
import functools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from actors.tasks.execution.adapters import adapt, is_executable
from actors.tasks.execution.agent_results import unwrap_result
from actors.tasks.model.outcome import Done
from actors.tasks.model.task import Subtask, Usage

SUBTASK = Subtask(id="find", instruction="Find the sources")
_EMPTY = {"inputs": {}, "results": {}, "feedback": "", "previous": None, "answers": [], "context_tokens": 1_000}
CONTEXT = SimpleNamespace(goal="A report", is_light=True, **_EMPTY)
TOLD = "FIND THE SOURCES\n\n# GOAL OF THE WHOLE TASK\n\nA REPORT"


def result_of(target: object, *args: Any, **kwargs: Any) -> Any:
    adapted = adapt(target, args, kwargs)
    result = adapted.call(SUBTASK, CONTEXT, *args, **kwargs)
    return asyncio.run(result) if adapted.is_async else result


def both(task: Any, context: Any) -> str:
    return f"{task} for {context.goal}"


async def both_async(task: Any, context: Any) -> str:
    return both(task, context)


def anything(*args: Any) -> str:
    return both(*args)


def one(text: str) -> str:
    assert isinstance(text, str)
    return text.upper()


async def one_async(text: str) -> str:
    return one(text)


class Tool:
    def execute(self, task: Any, context: Any) -> str:
        return both(task, context)


class AsyncTool:
    async def execute(self, task: Any, context: Any) -> str:
        return both(task, context)


class Short:
    async def execute(self, instruction: str) -> str:
        return one(instruction)


class Called:
    async def __call__(self, task: Any, context: Any) -> str:
        return both(task, context)


class Chain:
    """As a LangChain runnable: both ways, and a message with its text."""

    def invoke(self, prompt: str, config: object = None) -> Any:
        raise AssertionError

    async def ainvoke(self, prompt: str, config: object = None) -> Any:
        return SimpleNamespace(content=one(prompt), usage_metadata={"total_tokens": 7})


class Agent:
    """As a pydantic-ai agent: an async ``run`` whose result has the output and its usage."""

    async def run(self, prompt: str, *, deps: int = 0) -> Any:
        usage = SimpleNamespace(input_tokens=30, output_tokens=12)
        return SimpleNamespace(output=f"{one(prompt)} {deps}", usage=lambda: usage)


class PlainAgent:
    """As most others: a ``run`` that returns a text, and can be called as well."""

    def __call__(self, task: str, **_: object) -> str:
        raise AssertionError

    def run(self, task: str, *, stream: bool = False) -> str:
        return f"{one(task)} {stream}"


class Undecided:
    """Its ``arun`` is no coroutine function and gives a coroutine."""

    def arun(self, prompt: str) -> Any:
        return one_async(prompt)


BOTH = "Find the sources for A report"
ONE = "FIND THE SOURCES"


@pytest.mark.parametrize(
    ("target", "is_async", "result"),
    [
        (both, False, BOTH),
        (both_async, True, BOTH),
        (Tool(), False, BOTH),
        (AsyncTool(), True, BOTH),
        (Tool().execute, False, BOTH),
        (Called(), True, BOTH),
        (functools.partial(both_async), True, BOTH),
        (anything, False, BOTH),
        (lambda task, context=CONTEXT: both(task, context), False, BOTH),
        (one, False, ONE),
        (one_async, True, ONE),
        (Short(), True, ONE),
        (str.upper, False, ONE),
        (lambda text, temperature=0.5: f"{one(text)} {temperature}", False, f"{ONE} 0.5"),
        (PlainAgent(), False, f"{TOLD} False"),
        (Undecided(), True, TOLD),
    ],
)
def test_whatever_it_is_it_is_called_with_what_it_takes(target: object, is_async: bool, result: str) -> None:
    assert adapt(target).is_async is is_async
    assert result_of(target) == result


def test_code_that_needs_no_adapter_is_called_as_it_is() -> None:
    tool = Tool()

    assert adapt(both).call is both
    assert adapt(tool).call == tool.execute


def test_execute_comes_before_every_other_method() -> None:
    class Everything(Tool, Agent, PlainAgent):
        pass

    assert result_of(Everything()) == BOTH


def test_more_arguments_follow_what_the_code_takes() -> None:
    def search(text: str, limit: int, *, depth: int) -> tuple[str, int, int]:
        return text, limit, depth

    def compare(task: Any, context: Any, limit: int) -> tuple[str, str, int]:
        return str(task), context.goal, limit

    assert result_of(search, 3, depth=2) == ("Find the sources", 3, 2)
    assert result_of(compare, 3) == ("Find the sources", "A report", 3)
    assert result_of(Agent(), deps=5).value == f"{TOLD} 5"


def test_a_result_of_an_agent_is_unwrapped_with_the_tokens_that_it_took() -> None:
    assert result_of(Agent()) == Done(f"{TOLD} 0", Usage(tokens=42))
    assert result_of(Chain()) == Done(TOLD, Usage(tokens=7))


def test_a_result_of_a_plain_function_is_left_alone() -> None:
    answer = SimpleNamespace(output=1, usage=None, content="text")

    assert result_of(lambda _task, _context: answer) is answer


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (SimpleNamespace(total_tokens=9, input_tokens=1), 9),
        (SimpleNamespace(total_tokens=None, input_tokens=2, output_tokens=3), 5),
        (SimpleNamespace(request_tokens=4, response_tokens=None), 4),
        ({"total_tokens": 8}, 8),
        (lambda: {"input_tokens": 6}, 6),
    ],
)
def test_usage_is_read_in_every_form_in_which_frameworks_tell_it(usage: object, tokens: int) -> None:
    assert unwrap_result(SimpleNamespace(output="x", usage=usage)) == Done("x", Usage(tokens=tokens))


def _explode() -> None:
    raise RuntimeError


def test_usage_that_is_a_record_and_can_be_called_as_well_is_not_called() -> None:
    """As the one of pydantic-ai 2: calling it is deprecated, which is an error where warnings are errors."""

    class Record:
        total_tokens = 0
        input_tokens = 30
        output_tokens = 12

        def __call__(self) -> Record:
            raise DeprecationWarning

    assert unwrap_result(SimpleNamespace(output="x", usage=Record())) == Done("x", Usage(tokens=42))


@pytest.mark.parametrize("usage", [None, "lots", SimpleNamespace(total_tokens="9"), _explode, {"total_tokens": -1}])
def test_usage_that_cannot_be_told_does_not_lose_the_answer(usage: object) -> None:
    assert unwrap_result(SimpleNamespace(output="x", usage=usage)) == "x"


def test_the_error_of_the_code_is_its_own() -> None:
    class Broken:
        def invoke(self, prompt: str) -> str:
            raise LookupError(prompt)

    with pytest.raises(LookupError, match="Find the sources"):
        result_of(Broken())


@pytest.mark.parametrize("target", [None, 7, "text", object(), int, Agent, SimpleNamespace(execute=3)])
def test_what_cannot_be_called_is_not_executable(target: object) -> None:
    assert not is_executable(target)
    with pytest.raises(TypeError, match=r"has no execute, and cannot be called|is not adapted, its objects are"):
        adapt(target)


def test_a_class_with_execute_is_executable_and_only_its_objects_are_adapted() -> None:
    assert is_executable(Tool)
    with pytest.raises(TypeError):
        adapt(Tool)


@pytest.mark.parametrize(
    ("target", "name"),
    [(both, "both"), (functools.partial(both), "both"), (Tool(), "Tool"), (Tool().execute, "execute")],
)
def test_an_adapted_one_is_named_after_its_code(target: object, name: str) -> None:
    assert adapt(target).name == name


class Tally:
    """As pydantic-ai's RunUsage: the caller may bring it, and the agent adds to it as it goes."""

    def __init__(self) -> None:
        self.input_tokens = self.output_tokens = 0


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """The class of an agent whose framework has such a record."""
    package = ModuleType("framework_of_agents")
    package.RunUsage = Tally  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, package.__name__, package)

    class Agent:
        def __init__(self, error: BaseException | None) -> None:
            self.error = error

        async def run(self, prompt: str, *, usage: Tally | None = None) -> Any:
            spent = usage or Tally()
            spent.input_tokens += 30
            spent.output_tokens += 12
            if self.error is not None:
                raise self.error
            return SimpleNamespace(output=one(prompt), usage=spent)

    Agent.__module__ = f"{package.__name__}.agent"
    return Agent


@pytest.mark.parametrize("error", [ValueError("no JSON"), asyncio.CancelledError(), KeyboardInterrupt()])
def test_tokens_of_an_agent_that_fails_or_is_cancelled_after_its_model_was_called_are_counted(
    framework: type[Any], error: BaseException
) -> None:
    used: list[tuple[int, float]] = []
    context = SimpleNamespace(**{**vars(CONTEXT), "use": lambda *, tokens, cost: used.append((tokens, cost))})
    with pytest.raises(type(error)):
        adapt(framework(error)).call(SUBTASK, context).send(None)

    assert used == [(42, 0.0)]


def test_tokens_of_an_agent_that_succeeds_are_counted_once_also_for_an_agent_of_a_users_own_class(
    framework: type[Any],
) -> None:
    class Mine(framework):  # type: ignore[misc]
        pass

    assert result_of(Mine(None)) == Done(TOLD, Usage(tokens=42))


def test_a_record_of_usage_that_the_user_has_given_is_the_one_that_counts(framework: type[Any]) -> None:
    mine = Tally()
    result_of(framework(None), usage=mine)

    assert (mine.input_tokens, mine.output_tokens) == (30, 12)
