"""The three levels: what may stand where, found while a spec is constructed and again before a child is added."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors import ConfigError, DepthError, Problem
from trees import SupervisorSpec, WorkerSpec
from trees.declaration.specs import check_depth


def worker(name: str) -> WorkerSpec:
    return WorkerSpec(id=name, run=print)


def team(name: str, *children: WorkerSpec | SupervisorSpec) -> SupervisorSpec:
    return SupervisorSpec(id=name, children=children)


def problems_of(make: Callable[[], object]) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        make()
    return caught.value.problems


def test_three_levels_with_workers_on_the_third_are_accepted() -> None:
    spec = team("shop", team("web", worker("lint")), worker("ledger"))

    assert check_depth(spec) == []


def test_a_worker_on_level_four_is_refused_with_path_and_level() -> None:
    with pytest.raises(DepthError) as caught:
        team("shop", team("web", team("react", worker("lint"))))

    assert str(caught.value) == (
        "shop/web/react/lint: level 4 of at most 3. "
        "Each level adds a hop. Move 'lint' under 'web', or start a second tree."
    )


def test_an_empty_supervisor_on_level_three_is_refused_itself() -> None:
    with pytest.raises(DepthError) as caught:
        team("shop", team("web", team("react")))

    assert str(caught.value) == (
        "shop/web/react: a supervisor on level 3 of at most 3. "
        "Its children would be on level 4. Move 'react' under 'shop', or start a second tree."
    )


def test_everything_that_is_too_deep_is_told_at_once() -> None:
    react, vue = team("react", worker("lint"), worker("test")), team("vue")

    problems = problems_of(lambda: team("shop", team("web", react, worker("ok")), team("app", vue)))

    assert [problem.path for problem in problems] == ["shop/web/react/lint", "shop/web/react/test", "shop/app/vue"]


def test_depth_and_other_problems_of_a_spec_come_together() -> None:
    web = team("web", team("react", worker("lint")))

    with pytest.raises(ConfigError) as caught:
        SupervisorSpec(id="shop", max_restarts=-1, children=[web])

    assert not isinstance(caught.value, DepthError)
    assert [problem.path for problem in caught.value.problems] == ["shop.max_restarts", "shop/web/react/lint"]


MANY = 200
