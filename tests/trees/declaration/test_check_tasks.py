"""The rules of what can be given work: who may have the task fields, whom they name, and what their code must take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from actors import ConfigError, Problem, Worker
from trees import SupervisorSpec, Tasks, WorkerSpec, start

NOT_CODE = 7


def check(spec: SupervisorSpec) -> list[Problem]:
    """Every problem that a start finds; without one the tree is started, and stopped."""
    try:
        start(spec).stop()
    except ConfigError as error:
        return list(error.problems)
    return []


def work(task: Any, context: Any) -> Any: ...


async def work_async(task: Any, context: Any) -> Any: ...


def undo(task: Any, result: Any, context: Any) -> None: ...


class Clerk(Worker):
    def execute(self, task: Any, context: Any) -> Any: ...


class AsyncClerk(Worker):
    async def execute(self, task: Any, context: Any) -> Any: ...


class Tool:
    def __init__(self, key: str) -> None: ...

    async def execute(self, task: Any, context: Any) -> Any: ...


def worker(name: str = "w", **fields: Any) -> WorkerSpec:
    return WorkerSpec(**{"id": name, "execute": work} | fields)


def plain(name: str, **fields: Any) -> WorkerSpec:
    return WorkerSpec(id=name, handle=print, **fields)


def shop(*children: WorkerSpec | SupervisorSpec, **fields: Any) -> SupervisorSpec:
    return SupervisorSpec(id="shop", children=children, **{"tasks": Tasks()} | fields)


def of_worker(**fields: Any) -> list[Problem]:
    return check(shop(worker(**fields)))


def told(problems: list[Problem]) -> list[tuple[str, str]]:
    assert all(problem.hint for problem in problems)
    return [(problem.path, problem.what) for problem in problems]


# -- what is right ------------------------------------------------------------------------------------------


def test_a_tree_of_workers_and_teams_has_no_problems() -> None:
    tree = shop(
        worker("search", backup="clerk", undo="cleaner", capabilities=["search"], estimate=len, output=dict[str, int]),
        WorkerSpec(id="clerk", actor=Clerk, timeout_s=3, undo=undo),
        WorkerSpec(id="author", actor=AsyncClerk),
        worker("cleaner", execute=Tool, kwargs={"key": "x"}, undo="tests.trees.declaration.test_check_tasks:undo"),
        SupervisorSpec(id="code", tasks=Tasks(), backup="search", undo="clerk", capabilities=["code"]),
        SupervisorSpec(id="helpers", children=[worker("aside", capabilities=["x"]), plain("poller")]),
        plain("mailer"),
    )

    assert check(tree) == []


# -- what it takes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target",
    [
        work,
        work_async,
        lambda text: text,
        lambda *args: args,
        lambda task, context, depth=3: depth,
        SimpleNamespace(execute=lambda task, context: task),
        SimpleNamespace(run=lambda prompt, *, deps=None: prompt),
        "tests.trees.declaration.test_check_tasks:work",
        str.upper,
        min,
    ],
)
def test_execute_takes_a_task_and_its_context_or_the_instruction(target: object) -> None:
    assert of_worker(execute=target) == []


@pytest.mark.parametrize(
    ("target", "takes"),
    [
        (lambda: None, "()"),
        (lambda task, context, more: None, "(task, context, more)"),
        (lambda task, *, context: None, "(task, *, context)"),
    ],
)
def test_execute_that_takes_nothing_or_more_is_told_with_what_it_takes(target: object, takes: str) -> None:
    (problem,) = of_worker(execute=target)

    assert problem == Problem(
        "shop/w.execute",
        "<lambda> can be called neither with (task, context) nor with (instruction)",
        f"It takes {takes}.",
    )


def test_args_and_kwargs_follow_the_task_and_its_context() -> None:
    def search(task: Any, context: Any, limit: int, *, depth: int) -> Any: ...

    assert of_worker(execute=search, args=(3,), kwargs={"depth": 1}) == []
    (problem,) = of_worker(execute=search, args=(3,))
    assert problem.path == "shop/w.execute"
    assert problem.what.startswith("search can be called neither with (task, context, args and kwargs) nor with ")


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("no_such_module:work", "module 'no_such_module' not found"),
        (
            "tests.trees.declaration.test_check_tasks:wrok",
            "attribute 'wrok' of 'tests.trees.declaration.test_check_tasks:wrok' is missing",
        ),
        (
            "tests.trees.declaration.test_check_tasks:NOT_CODE",
            "an int can neither be called nor has it a method execute, invoke or run",
        ),
        ("tests.trees.declaration.test_check_tasks:Problem", "the class Problem has no method execute"),
    ],
)
def test_an_import_string_that_leads_to_no_code_is_told(target: str, what: str) -> None:
    assert told(of_worker(execute=target)) == [("shop/w.execute", what)]


# -- where it runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [work_async, SimpleNamespace(execute=work_async), SimpleNamespace(arun=print)])
@pytest.mark.parametrize("dispatch", ["pool", "thread"])
def test_async_work_runs_on_the_loop_only(target: object, dispatch: str) -> None:
    (problem,) = of_worker(execute=target, dispatch=dispatch)

    assert problem.path == "shop/w.dispatch"
    assert problem.what.startswith(f"{dispatch!r} cannot run what is async: ")


# -- who may have task fields -------------------------------------------------------------------------------


def test_task_fields_of_a_worker_that_cannot_be_given_work_are_told_together() -> None:
    hint = "Use execute=, or an actor class with a method execute, or leave it out."

    assert check(shop(plain("mailer", capabilities=["mail"], timeout_s=3, breaker=None))) == [
        Problem(
            "shop/mailer.capabilities",
            "'capabilities', 'timeout_s' and 'breaker' are for a worker that can be given work",
            hint,
        )
    ]
    assert check(shop(WorkerSpec(id="a", actor=Worker, output=int))) == [
        Problem("shop/a.output", "'output' is for a worker that can be given work", hint)
    ]


def test_task_fields_of_a_supervisor_without_tasks_are_told() -> None:
    assert told(check(shop(plain("w"), tasks=None, timeout_s=3))) == [
        ("shop.timeout_s", "'timeout_s' is for a supervisor with tasks=")
    ]


# -- whom they name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["backup", "undo"])
def test_a_named_one_must_be_a_sibling_that_can_be_given_work(field: str) -> None:
    below = SupervisorSpec(id="below", children=[worker("deep")])

    def named(name: str) -> list[tuple[str, str]]:
        return told(check(shop(worker(**{field: name}), worker("search"), plain("mailer"), below)))

    assert named("search") == []
    assert named("w") == [(f"shop/w.{field}", "'w' is itself")]
    assert named("deep") == [(f"shop/w.{field}", "expected the id of a sibling, got 'deep'")]
    assert named("mailer") == [(f"shop/w.{field}", "'mailer' cannot be given work")]
    assert named("below") == [(f"shop/w.{field}", "'below' cannot be given work")]


def test_backups_that_go_round_in_a_circle_are_told_once() -> None:
    tree = shop(worker("z", backup="b"), worker("c", backup="a"), worker("a", backup="b"), worker("b", backup="c"))

    assert told(check(tree)) == [("shop/a.backup", "a > b > c > a go round in a circle")]


def test_the_id_of_the_orchestrator_is_taken() -> None:
    assert told(check(shop(worker("orchestrator")))) == [("shop/orchestrator", "the id 'orchestrator' is taken")]
    assert check(shop(plain("orchestrator"), tasks=None)) == []


# -- what their code must take ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (work, "it cannot be called with (task, result, context)"),
        ("tests.trees.declaration.test_check_tasks:work", "it cannot be called with (task, result, context)"),
        ("tests.trees.declaration.test_check_tasks:NOT_CODE", "an int cannot be called"),
        ("no_such_module:undo", "module 'no_such_module' not found"),
    ],
)
def test_an_undo_takes_a_task_its_result_and_its_context(given: object, what: str) -> None:
    assert told(of_worker(undo=given)) == [("shop/w.undo", what)]
    assert told(check(shop(undo=given))) == [("shop.undo", what)]


# -- in a tree that runs ------------------------------------------------------------------------------------


def test_a_tree_that_runs_checks_a_new_child_against_its_siblings() -> None:
    with start(shop(worker("a", backup="b"), worker("b"))) as tree:
        with pytest.raises(ConfigError) as caught:
            tree.start_child("shop", worker(backup="x"))
        tree.start_child("shop", worker(backup="a"))

        assert told(list(caught.value.problems)) == [("shop/w.backup", "expected the id of a sibling, got 'x'")]
        assert [child.id for child in tree.which_children("shop")] == ["orchestrator", "a", "b", "w"]
