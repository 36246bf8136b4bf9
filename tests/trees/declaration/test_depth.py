"""The three levels: what may stand where, found while a spec is constructed and again before a child is added."""

from __future__ import annotations

import pytest

from actors import DepthError
from trees import SupervisorSpec, WorkerSpec
from trees.declaration.specs import check_depth


def worker(name: str) -> WorkerSpec:
    return WorkerSpec(id=name, run=print)


def team(name: str, *children: WorkerSpec | SupervisorSpec) -> SupervisorSpec:
    return SupervisorSpec(id=name, children=children)


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
