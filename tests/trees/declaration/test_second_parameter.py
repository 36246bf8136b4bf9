"""A worker that gets its second parameter by accident is told (rule S19)."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from actors import ConfigError, Problem, Worker
from actors import Context as ActorsContext
from trees import SupervisorSpec, Tasks, WorkerSpec, start

if TYPE_CHECKING:
    from somewhere import RunContext  # type: ignore[import-not-found]


def check(spec: SupervisorSpec) -> list[Problem]:
    """Every problem that a start finds; without one the tree is started, and stopped."""
    try:
        start(spec).stop()
    except ConfigError as error:
        return list(error.problems)
    return []


def search(query: str, limit: int) -> list[str]:
    return [query] * limit


class Searching:
    def execute(self, query: str, limit: int) -> list[str]:
        return [query] * limit


class Actor(Worker):
    def execute(self, query: str, limit: int) -> list[str]:
        return [query] * limit


def problems(**fields: Any) -> list[Any]:
    return check(SupervisorSpec(id="shop", tasks=Tasks(), children=[WorkerSpec(id="w", **fields)]))


def test_a_second_parameter_that_is_no_context_is_refused_naming_the_two_forms() -> None:
    (problem,) = problems(execute=search)

    assert (problem.path, problem.what) == (
        "shop/w.execute",
        "search would get the context of the attempt as its parameter 'limit'",
    )
    assert "search(task, context)" in problem.hint
    assert "search(query)" in problem.hint


@pytest.mark.parametrize(
    "fields",
    [
        {"execute": Searching},
        {"execute": Searching()},
        {"actor": Actor},
        {"execute": f"{__name__}:search"},
        {"execute": lambda query, k: query},
        {"execute": functools.partial(lambda more, query, limit: query, 1)},
    ],
)
def test_so_is_that_of_a_class_an_object_an_actor_and_a_partial(fields: dict[str, Any]) -> None:
    (problem,) = problems(**fields)

    assert "would get the context of the attempt as its parameter" in problem.what


def annotated(task: Any, run: ActorsContext) -> None: ...


def named_only(task: Any, run: RunContext) -> None: ...


@pytest.mark.parametrize(
    "execute",
    [
        lambda task, context: task,
        lambda task, ctx: task,
        lambda task, _: task,
        lambda _, __: 1,
        lambda task, _context: task,
        lambda task, run_context: task,
        lambda task, limit=3: task,
        lambda task, *, limit=3: task,
        lambda *args: args,
        lambda query: query,
        annotated,
        named_only,
        functools.partial(search, limit=3),
        SimpleNamespace(run=lambda prompt, limit: prompt if limit else ""),
    ],
)
def test_a_context_by_name_or_by_annotation_or_a_default_is_none_of_it(execute: Any) -> None:
    fields = {"kwargs": {"limit": 3}} if isinstance(execute, SimpleNamespace) else {}

    assert problems(execute=execute, **fields) == []


def test_a_second_parameter_that_args_or_kwargs_give_is_no_context() -> None:
    assert problems(execute=search, kwargs={"limit": 3}) == []
    assert problems(execute=search, args=(3,)) == []
