"""``Ray``: what it takes, what it refuses, and what it shows."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

import trees.declaration.ray as declared
from actors import ConfigError
from tests.actors.dispatch import process_workers as there
from trees import Ray, SupervisorSpec, WorkerSpec
from trees.declaration.check import require_valid as check


def spec_of(**rules: Any) -> SupervisorSpec:
    return SupervisorSpec(id="r", children=[WorkerSpec(**{"id": "w", "handle": there.do, "dispatch": "ray", **rules})])


@pytest.mark.parametrize(
    ("given", "at", "said"),
    [
        ({"num_cpus": -1}, "num_cpus", "-1"),
        ({"num_gpus": "two"}, "num_gpus", "two"),
        ({"memory_mb": 0}, "memory_mb", "0"),
        ({"resources": ["tape"]}, "resources", "expected numbers by the names of resources, got a list"),
        ({"resources": {"tape": 0}}, "resources", "no number of 'tape'"),
        ({"resources": {"tape": float("inf")}}, "resources", "no number of 'tape'"),
        ({"resources": {"tape": True}}, "resources", "no number of 'tape'"),
        ({"resources": {1: 1}}, "resources", "the name of no resource"),
        ({"resources": {"CPU": 1}}, "resources", "'CPU' has a field of its own"),
        ({"runtime_env": "pip"}, "runtime_env", "expected settings by their names, got a str"),
        ({"address": 6379}, "address", "expected a str"),
        ({"gpus": 1}, "gpus", "unknown field"),
        ({"num_cpus": 0.00001}, "num_cpus", "no share that Ray knows of"),
        ({"num_cpus": float("inf")}, "num_cpus", "no share that Ray knows of"),
        ({"num_gpus": 1.5}, "num_gpus", "above 1 there are no shares"),
        ({"resources": {"tape": 0.00001}}, "resources", "no number of 'tape'"),
        ({"resources": {"object_store_memory": 1}}, "resources", "Ray gives no 'object_store_memory' to actors"),
        ({"address": "ray://head:10001"}, "address", "an address for Ray Client"),
        ({"address": "head"}, "address", "no address of a cluster"),
        ({"address": ""}, "address", "no address of a cluster"),
        ({"recycle_after": 3}, "recycle_after", "unknown field"),
    ],
)
def test_what_it_refuses_is_a_problem_that_says_where_and_why(given: dict[str, Any], at: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Ray(**given)

    (problem,) = caught.value.problems
    assert problem.path.endswith(at)
    assert said in problem.what
    assert problem.hint


def test_without_ray_the_check_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(declared.importlib.util, "find_spec", lambda name: None if name == "ray" else found(name))
    with pytest.raises(ConfigError) as caught:
        check(spec_of())

    (problem,) = caught.value.problems
    assert problem.path == "r/w.dispatch"
    assert "pip install '.[ray]'" in problem.hint


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"handle": lambda message: message}, "is a lambda, so its process cannot import it"),
        ({"args": (lambda: 1,)}, "args cannot be pickled"),
    ],
)
def test_code_that_cannot_cross_is_refused_as_for_a_process(rules: dict[str, Any], said: str) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    with pytest.raises(ConfigError, match=said):
        check(spec_of(**rules))


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", ["ray", Ray(), Ray(num_cpus=0.5, resources={"tape": 1}, memory_mb=10)])
def test_a_worker_in_a_cluster_can_be_declared(dispatch: Any) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    check(spec_of(dispatch=dispatch))
