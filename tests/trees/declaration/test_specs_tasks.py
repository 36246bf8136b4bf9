"""What a user may write about work: ``execute=``, the task fields, and what is built from them."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from actors import ConfigError, DepthError, Problem, Worker
from actors.model.spec import ChildSpec, DispatcherKind, SupervisorRecipe, WorkerRecipe
from actors.tasks.model.executable import Executable, MemberInfo
from trees import Breaker, Budget, Escalate, Failover, Retry, Subtask, SupervisorSpec, Tasks, WorkerSpec
from trees.declaration.build import build
from trees.views.declaration_text import draw

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


@pytest.fixture
def orchestrator(monkeypatch: pytest.MonkeyPatch) -> ChildSpec:
    """Stands in for the real one, which has tests of its own."""
    spec = ChildSpec(id="orchestrator", recipe=WorkerRecipe(make=None, where=DispatcherKind.LOOP))
    module = ModuleType("actors.tasks.orchestration.orchestrator_recipe")
    module.__dict__["orchestrator_spec"] = lambda tasks: replace(spec, description=f"{tasks.max_parallel} at once")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return spec


# -- what is accepted ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [work, Tool(), Tool, SimpleNamespace(run=work), SimpleNamespace(invoke=work), lambda text: text, "shop.work:find"],
)
def test_a_worker_executes_whatever_can_be_called_with_a_task(target: object) -> None:
    assert WorkerSpec(id="search", execute=target).execute is target


def test_execute_is_one_of_the_kinds_of_work_and_stands_alone() -> None:
    problem = problem_of(lambda: WorkerSpec(id="search", execute=work, handle=work))

    assert problem.what == "'handle' and 'execute' together"


@pytest.mark.parametrize("words", [{"a", "b"}, ["a", "b", "a"], ("b", "a"), {"a": 1, "b": 2}, iter(["a", "b"])])
def test_capabilities_may_be_any_iterable_of_words(words: Iterable[str]) -> None:
    assert worker(capabilities=words).capabilities == frozenset({"a", "b"})
    assert SupervisorSpec(id="team", capabilities=["x"]).capabilities == frozenset({"x"})


def test_skill_is_another_word_for_workflow() -> None:
    assert worker(type="skill").type == "workflow"
    assert worker(type="agent").type == "agent"


def test_a_ladder_is_kept_as_a_tuple() -> None:
    rungs = [Retry(2), Failover(), Escalate(timeout_s=60)]

    assert worker(on_failure=rungs).on_failure == tuple(rungs)
    assert SupervisorSpec(id="team", on_failure=rungs).on_failure == tuple(rungs)


@pytest.mark.parametrize("estimate", [0, 1_500, 2.5, Budget(tokens=3), len, None])
def test_an_estimate_is_kept_as_it_was_given(estimate: object) -> None:
    assert worker(estimate=estimate).estimate is estimate


def test_an_estimate_given_as_a_dict_becomes_a_budget() -> None:
    assert worker(estimate={"tokens": 500, "seconds": 2}).estimate == Budget(tokens=500, seconds=2.0)


def test_a_breaker_is_on_by_default_and_none_turns_it_off() -> None:
    assert worker().breaker == Breaker()
    assert worker(breaker=None).breaker is None


# -- what is refused ----------------------------------------------------------------------------------------


async def _called() -> None: ...


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
    ({"on_failure": [Retry]}, "on_failure", "expected a rung, got the class Retry"),
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


def test_a_call_instead_of_a_function_is_told_so() -> None:
    coroutine = _called()

    problem = problem_of(lambda: worker(execute=coroutine))

    coroutine.close()
    assert problem.hint == "Give the function itself, without calling it."


def test_tasks_of_a_supervisor_are_settings_and_nothing_else() -> None:
    problem = problem_of(lambda: SupervisorSpec(id="team", tasks=True))  # type: ignore[arg-type]

    assert (problem.path, problem.what) == ("team.tasks", "expected Tasks(...), got True")


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


def children_of(spec: ChildSpec) -> dict[str, ChildSpec]:
    assert isinstance(spec.recipe, SupervisorRecipe)
    return {child.id: child for child in spec.recipe.children}


def executable_of(spec: WorkerSpec | SupervisorSpec) -> Executable:
    found = build(spec).registration
    assert found is not None
    return found


def test_what_is_declared_of_an_executable_is_what_its_orchestrator_knows() -> None:
    spec = worker(
        type="agent",
        description="Finds things",
        capabilities=["search"],
        timeout_s=5,
        idle_timeout_s=2,
        on_failure=[Failover()],
        breaker=None,
        backup="other",
        undo="cleaner",
        estimate=100,
    )

    assert executable_of(spec) == Executable(
        type="agent",
        description="Finds things",
        capabilities=frozenset({"search"}),
        timeout_s=5.0,
        idle_timeout_s=2.0,
        on_failure=(Failover(),),
        breaker=None,
        backup="other",
        undo="cleaner",
        estimate=100,
    )


def test_an_undo_given_as_an_import_string_is_the_function_that_it_names() -> None:
    assert executable_of(worker(undo="tests.trees.declaration.test_specs_tasks:work")).undo is work


def test_an_actor_with_execute_is_executable_and_any_other_worker_is_not() -> None:
    assert executable_of(WorkerSpec(id="clerk", actor=Clerk)) == Executable(output_schema=None)
    assert (
        build(WorkerSpec(id="clerk", actor="tests.trees.declaration.test_specs_tasks:Clerk")).registration is not None
    )
    for given in ({"actor": Silent}, {"run": work}, {"handle": work}):
        assert build(WorkerSpec(id="silent", **given)).registration is None


@pytest.mark.parametrize(
    ("target", "where"),
    [
        (work, DispatcherKind.POOL),
        (Tool, DispatcherKind.LOOP),
        (Tool(), DispatcherKind.LOOP),
        (SimpleNamespace(run=work), DispatcherKind.POOL),
        ("tests.trees.declaration.test_specs_tasks:Tool", DispatcherKind.LOOP),
    ],
)
def test_async_work_runs_on_the_loop_and_sync_work_in_the_pool(target: object, where: DispatcherKind) -> None:
    recipe = build(WorkerSpec(id="w", execute=target)).recipe

    assert isinstance(recipe, WorkerRecipe)
    assert recipe.where is where


def test_schemas_come_from_the_annotations_that_say_something() -> None:
    def count(texts: list[str], context: object) -> dict[str, int]: ...  # type: ignore[empty-body]

    counted = executable_of(worker(execute=count))
    assert counted.input_schema == {"type": "array", "items": {"type": "string"}}
    assert counted.output_schema == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert executable_of(worker()).input_schema is None
    assert executable_of(worker()).output_schema is None


def test_an_annotation_that_only_a_type_checker_can_read_spoils_no_other_one() -> None:
    found = executable_of(worker(execute=Tool))

    assert found.input_schema is None
    assert found.output_schema == Answer.model_json_schema()


def test_a_type_without_a_schema_says_nothing() -> None:
    class Odd:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError

        __hash__ = None  # type: ignore[assignment]

    def first(task: Odd(), context: Any) -> Tool: ...  # type: ignore[valid-type, empty-body]

    first.__annotations__ = {"task": Odd(), "return": Tool}

    assert executable_of(worker(execute=first)) == Executable()


def test_an_output_has_the_schema_of_what_is_declared_and_not_of_what_is_annotated() -> None:
    found = executable_of(worker(execute=Tool, output=list[int]))

    assert found.output == list[int]
    assert found.output_schema == {"type": "array", "items": {"type": "integer"}}


def test_an_orchestrator_comes_before_all_children_of_a_supervisor_with_tasks(orchestrator: ChildSpec) -> None:
    tasks = Tasks(max_parallel=4)

    built = build(SupervisorSpec(id="project", tasks=tasks, children=[worker("a"), worker("b")]))

    assert list(children_of(built)) == [orchestrator.id, "a", "b"]
    assert children_of(built)["orchestrator"].description == "4 at once"
    assert isinstance(built.recipe, SupervisorRecipe)
    assert built.recipe.settings is tasks


def test_a_supervisor_without_tasks_has_no_orchestrator() -> None:
    built = build(SupervisorSpec(id="project", children=[worker("a")]))

    assert list(children_of(built)) == ["a"]
    assert built.registration is None


@pytest.mark.usefixtures("orchestrator")
def test_a_team_without_capabilities_of_its_own_has_all_those_of_its_members() -> None:
    members = [worker("a", capabilities=["x"]), worker("b", capabilities=["x", "y"]), WorkerSpec(id="c", handle=work)]

    assert executable_of(SupervisorSpec(id="t", tasks=Tasks(), children=members)) == Executable(
        type="team",
        description="a, b",
        capabilities=frozenset({"x", "y"}),
        members=(MemberInfo("a", "", frozenset({"x"})), MemberInfo("b", "", frozenset({"x", "y"}))),
    )
    own = SupervisorSpec(id="t", tasks=Tasks(), children=members, capabilities=["z"], description="Codes", timeout_s=9)
    assert replace(executable_of(own), members=()) == Executable(
        type="team", description="Codes", capabilities=frozenset({"z"}), timeout_s=9.0
    )


@pytest.mark.usefixtures("orchestrator")
def test_who_serves_an_orchestrator_is_parked_when_its_restarts_are_used_up() -> None:
    team = SupervisorSpec(id="team", tasks=Tasks())
    members = [
        worker("unset"),
        worker("said", on_exhausted="escalate"),
        WorkerSpec(id="clerk", actor=Clerk),
        WorkerSpec(id="poller", run=work),
        team,
    ]

    served = children_of(build(SupervisorSpec(id="project", tasks=Tasks(), children=members)))
    alone = children_of(build(SupervisorSpec(id="project", children=members)))

    assert [id_ for id_, child in served.items() if child.park] == ["unset", "clerk"]
    assert not any(child.park for child in alone.values())
    assert build(worker(), under_tasks=True).park


def test_a_declared_tree_shows_the_orchestrator_and_who_parks() -> None:
    members = [worker("search", pool=2, description="Finds things"), WorkerSpec(id="mailer", handle=work)]

    drawn = draw(SupervisorSpec(id="project", tasks=Tasks(), children=members))

    assert [re.split("  +", line) for line in drawn.splitlines()[1:4]] == [
        ["├─ orchestrator", "permanent", "orchestrator", "on the loop"],
        ["├─ search ×2", "permanent", "execute work", "on the pool", "up to 3 attempts", "parks", "Finds things"],
        ["└─ mailer", "permanent", "handle work", "on the pool"],
    ]
