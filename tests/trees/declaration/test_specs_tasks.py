"""What a user may write about work: ``execute=``, the task fields, and what is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from actors import ConfigError, DepthError, Problem, Worker
from trees import Retry, Subtask, SupervisorSpec, Tasks, WorkerSpec, start

if TYPE_CHECKING:
    from somewhere import Context  # type: ignore[import-not-found]


class Answer(BaseModel):
    """What a worker returns."""

    text: str


class Tool:
    """As in the articles."""

    def __init__(self, name: str = "tool") -> None:
        self.name = name

    async def execute(self, task: Subtask, context: Context) -> Answer:
        return Answer(text=f"{self.name}: {task}")


class Clerk(Worker):
    """An actor that can be given work."""

    def execute(self, task: Any, context: Any) -> str:
        return str(task)


class Silent(Worker):
    """An actor that cannot."""


def work(task: Any, context: Any) -> Any: ...


def problem_of(make: Callable[[], object]) -> Problem:
    with pytest.raises(ConfigError) as caught:
        make()
    (problem,) = caught.value.problems
    return problem


def worker(name: str = "search", **fields: Any) -> WorkerSpec:
    return WorkerSpec(**{"id": name, "execute": work} | fields)


# -- what is accepted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [work, Tool(), Tool, SimpleNamespace(run=work), SimpleNamespace(invoke=work), lambda text: text, "shop.work:find"],
)
def test_a_worker_executes_whatever_can_be_called_with_a_task(target: object) -> None:
    assert WorkerSpec(id="search", execute=target).execute is target


@pytest.mark.parametrize("words", [{"a", "b"}, ["a", "b", "a"], ("b", "a"), {"a": 1, "b": 2}, iter(["a", "b"])])
def test_capabilities_may_be_any_iterable_of_words(words: Iterable[str]) -> None:
    assert worker(capabilities=words).capabilities == frozenset({"a", "b"})
    assert SupervisorSpec(id="team", capabilities=["x"]).capabilities == frozenset({"x"})


# -- what is refused ----------------------------------------------------------------------------------------


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"execute": 7}, "execute", "an int can neither be called nor has it a method execute, invoke or run"),
    ({"execute": BaseModel}, "execute", "the class BaseModel has no method execute"),
    ({"type": "team"}, "type", "'team' is not accepted"),
    ({"capabilities": "search"}, "capabilities", "expected a set of words, got 'search'"),
    ({"capabilities": 3}, "capabilities", "expected a set of words, got 3"),
    ({"capabilities": ["search", 3]}, "capabilities", "expected a capability, got 3"),
    ({"capabilities": [" "]}, "capabilities", "expected a capability, got ' '"),
    ({"output": "Answer"}, "output", "expected a type, got a str"),
    ({"timeout_s": 0}, "timeout_s", "0 is out of range"),
    ({"idle_timeout_s": "1"}, "idle_timeout_s", "expected a number of seconds, got '1'"),
    ({"on_failure": Retry()}, "on_failure", "expected a list of rungs, got a Retry"),
    ({"on_failure": [Retry]}, "on_failure[0]", "expected a rung, got the class Retry"),
    ({"breaker": 5}, "breaker", "expected Breaker(...), got 5"),
    ({"backup": "a b"}, "backup", "expected an id, got 'a b'"),
    ({"undo": 5}, "undo", "an int cannot be called"),
    ({"estimate": -1}, "estimate", "-1 is out of range"),
    ({"estimate": float("nan")}, "estimate", "nan is out of range"),
    ({"estimate": 10**400}, "estimate", "an int of 1329 bits is out of range"),
    ({"estimate": 1e300}, "estimate", "1e+300 is out of range"),
    ({"estimate": True}, "estimate", "expected an estimate, got a bool"),
    ({"estimate": "much"}, "estimate", "expected an estimate, got a str"),
    ({"estimate": {1: 2}}, "estimate", "expected words as keys"),
    ({"estimate": {"tokens": -2}}, "estimate.tokens", "-2 is too small"),
]


@pytest.mark.parametrize(("given", "field", "what"), WRONG, ids=[f"{field}-{what}" for _, field, what in WRONG])
def test_a_wrong_field_is_told_with_its_place(given: dict[str, Any], field: str, what: str) -> None:
    problem = problem_of(lambda: worker(**given))

    assert (problem.path, problem.what) == (f"search.{field}", what)
    assert problem.hint


def test_a_supervisor_with_tasks_on_level_three_is_refused_though_it_declares_no_children() -> None:
    team = SupervisorSpec(id="team", tasks=Tasks())
    above = SupervisorSpec(id="above", children=[team])

    with pytest.raises(DepthError) as caught:
        SupervisorSpec(id="root", children=[above])

    assert [problem.path for problem in caught.value.problems] == ["root/above/team"]


def test_a_repr_shows_names_of_code_and_nothing_that_it_holds() -> None:
    class Agent:
        def __init__(self) -> None:
            self.api_key = "sesame"

        def __repr__(self) -> str:
            return self.api_key

        def run(self, prompt: str) -> str:
            return prompt

        def price(self, subtask: Subtask) -> int:
            return len(str(subtask))

        def undo(self, task: Subtask, result: object, context: object) -> None: ...

    agent = Agent()

    shown = repr(worker(execute=agent, undo=agent.undo, estimate=agent.price, output=Answer, capabilities=["a"]))

    assert "sesame" not in shown
    assert "Agent.price" in shown
    assert "Agent.undo" in shown
    assert ":Answer" in shown


# -- what is built ------------------------------------------------------------------------------------------


def test_a_planner_is_shown_what_was_declared_of_workers_and_teams() -> None:
    seen: dict[str, Any] = {}

    def planner(task: Any, catalogue: Any, feedback: str) -> list[Subtask]:
        seen.update({each.id: each for each in catalogue})
        return [Subtask("clerk")]

    def typed(task: str, context: Any) -> Answer:
        return Answer(text=task)

    members = [worker("a", capabilities=["x"]), worker("b", capabilities=["x", "y"])]
    tree = SupervisorSpec(
        id="shop",
        tasks=Tasks(planner=planner),
        children=[
            worker(execute=typed, type="agent", description="Finds", capabilities=["find"], backup="clerk", estimate=9),
            WorkerSpec(id="clerk", actor=Clerk),
            WorkerSpec(id="silent", actor=Silent),
            SupervisorSpec(id="team", tasks=Tasks(), children=members),
        ],
    )
    with start(tree) as running:
        running.run("go")

    assert set(seen) == {"search", "clerk", "team"}
    found = seen["search"]
    assert (found.type, found.description, found.capabilities) == ("agent", "Finds", {"find"})
    assert (found.backup, found.estimate) == ("clerk", 9)
    assert found.output_schema["properties"]["text"]["type"] == "string"
    assert (seen["team"].type, seen["team"].description) == ("team", "a, b")
    assert seen["team"].capabilities == {"x", "y"}
