"""What a user may write in a declaration, and how each mistake is told while the spec is constructed."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from actors import ConfigError, DepthError, Problem
from trees import Breaker, Mailbox, SupervisorSpec, WorkerSpec


def body(*_: object) -> None:
    """A worker's life."""


def worker(name: str, **fields: Any) -> WorkerSpec:
    return WorkerSpec(id=name, run=body, **fields)


def team(name: str, *children: WorkerSpec | SupervisorSpec) -> SupervisorSpec:
    return SupervisorSpec(id=name, children=children)


def problems_of(make: Callable[[], object]) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        make()
    return caught.value.problems


def problem_of(make: Callable[[], object]) -> Problem:
    (problem,) = problems_of(make)
    return problem


# -- what is accepted ---------------------------------------------------------------------------------------


ON_TASKS = {
    "capabilities": frozenset(),
    "consumes": frozenset(),
    "produces": frozenset(),
    "timeout_s": None,
    "idle_timeout_s": None,
    "on_failure": None,
    "breaker": Breaker(failure_threshold=5, window_s=60.0, cooldown_s=30.0),
    "backup": None,
    "undo": None,
    "estimate": None,
}
ON_TASKS_OF_A_WORKER = {"type": "tool", "output": None, "tools": None, **ON_TASKS}
ON_TASKS_OF_A_TEAM = {"tasks": None, **ON_TASKS}


def test_a_worker_has_the_defaults_of_the_contract() -> None:
    spec = WorkerSpec(id="ledger", run=body)

    assert {name: getattr(spec, name) for name in WorkerSpec.model_fields} == {
        "id": "ledger",
        "actor": None,
        "run": body,
        "handle": None,
        "execute": None,
        "command": None,
        "args": (),
        "kwargs": {},
        "restart": "permanent",
        "shutdown": 5.0,
        "significant": False,
        "required": True,
        "start_timeout_s": 30.0,
        "backoff": None,
        "on_exhausted": "escalate",
        "pool": 1,
        "dispatch": "auto",
        "mailbox": Mailbox(capacity=None, overflow="block"),
        "expected": (),
        "crash_on_ask_error": False,
        "stall_s": None,
        "lifespan": None,
        "description": "",
    } | ON_TASKS_OF_A_WORKER


def test_a_supervisor_has_the_defaults_of_the_contract() -> None:
    spec = SupervisorSpec(id="shop")

    assert {name: getattr(spec, name) for name in SupervisorSpec.model_fields} == {
        "id": "shop",
        "strategy": "one_for_one",
        "max_restarts": 3,
        "period_s": 5.0,
        "auto_shutdown": "never",
        "children": (),
        "max_children": None,
        "parallel_stop": False,
        "restart": "permanent",
        "shutdown": "infinity",
        "significant": False,
        "required": True,
        "backoff": None,
        "on_exhausted": "escalate",
        "description": "",
    } | ON_TASKS_OF_A_TEAM


def test_children_are_kept_as_a_tuple_of_the_very_same_specs() -> None:
    first, second = worker("a"), worker("b")

    specs = [SupervisorSpec(id="shop", children=[first, second]), SupervisorSpec(id="shop", children=(first, second))]

    for spec in specs:
        assert isinstance(spec.children, tuple)
        assert spec.children[0] is first
        assert spec.children[1] is second


# -- what is refused ----------------------------------------------------------------------------------------


def test_an_unknown_field_is_told_with_the_closest_known_one() -> None:
    problem = problem_of(lambda: worker("ledger", restrat="transient"))

    assert problem == Problem("ledger.restrat", "unknown field of WorkerSpec", "Did you mean 'restart'?")


@pytest.mark.parametrize("given", [{}, {"run": body, "handle": body}, {"actor": "a:B", "run": body, "handle": body}])
def test_a_worker_takes_exactly_one_kind_of_work(given: dict[str, Any]) -> None:
    problem = problem_of(lambda: WorkerSpec(id="ledger", **given))

    assert problem.path == "ledger"
    assert (
        problem.what
        == {
            0: "declares no work",
            2: "'run' and 'handle' together",
            3: "'actor', 'run' and 'handle' together",
        }[len(given)]
    )
    assert problem.hint == "Give exactly one of 'actor', 'run', 'handle', 'execute' or 'command'."


@pytest.mark.parametrize("field", ["run", "handle"])
def test_a_function_that_was_called_by_mistake_is_told_as_such(field: str) -> None:
    async def poll() -> None: ...

    called: Any = poll()
    problem = problem_of(lambda: WorkerSpec(id="poller", **{field: called}))
    called.close()

    assert problem == Problem(
        f"poller.{field}", "a coroutine cannot be called", "Give the function itself, without calling it."
    )


def test_all_problems_of_a_spec_are_told_at_once() -> None:
    problems = problems_of(lambda: WorkerSpec(id="ledger", restart="x", pool=0, shutdown=-1, colour=1))  # type: ignore[arg-type, call-arg]

    assert {problem.path for problem in problems} == {
        "ledger.restart",
        "ledger.pool",
        "ledger.shutdown",
        "ledger.colour",
        "ledger",
    }


def test_each_wrong_child_is_told_with_its_place() -> None:
    problems = problems_of(lambda: SupervisorSpec(id="shop", children=[worker("a"), "b", 3]))  # type: ignore[list-item]

    assert [(problem.path, problem.what) for problem in problems] == [
        ("shop.children[1]", "expected a spec, got a str"),
        ("shop.children[2]", "expected a spec, got an int"),
    ]


def test_the_text_names_the_path_the_mistake_and_the_hint() -> None:
    with pytest.raises(ConfigError) as one:
        worker("ledger", restart="always")
    with pytest.raises(ConfigError) as two:
        worker("ledger", restart="always", pool=0)

    assert str(one.value) == ("ledger.restart: 'always' is not accepted. Use 'permanent', 'transient' or 'temporary'.")
    assert str(two.value).startswith("2 problems in the declaration:\n  ledger.restart: ")


def test_a_dict_is_validated_by_the_same_rules_and_the_same_error() -> None:
    problem = problem_of(lambda: WorkerSpec.model_validate({"id": "ledger", "run": body, "pool": 0}))

    assert problem.path == "ledger.pool"


@pytest.mark.parametrize(
    ("read", "what"),
    [
        (lambda: WorkerSpec.model_validate(5), "expected a dict of its fields, got an int"),
        (lambda: SupervisorSpec.model_validate(None), "expected a dict of its fields, got None"),
        (lambda: SupervisorSpec.model_validate_json('{"id": "shop"'), "the text is no JSON"),
        (lambda: Mailbox.model_validate_json("[1]"), "expected a JSON object of its fields"),
        (lambda: Mailbox.model_validate_json('{"capacity": -1}'), "-1 is too small"),
    ],
)
def test_whatever_a_spec_is_read_from_what_is_wrong_is_a_config_error(read: Callable[[], object], what: str) -> None:
    problem = problem_of(read)

    assert problem.what == what


@pytest.mark.parametrize("field", ["id", "args", "kwargs", "restart", "backoff", "expected", "description", "token"])
@pytest.mark.parametrize("secret", [["hunter2"], {"password": "hunter2"}, "hunter2 " * 10])
def test_no_text_shows_a_payload(field: str, secret: object) -> None:
    if field == "args" and isinstance(secret, list):
        secret = {"hunter2"}
    if field in {"kwargs", "description"} and not isinstance(secret, list):
        secret = ["hunter2"]
    given: dict[str, Any] = {"id": "ledger", "run": body, field: secret}

    with pytest.raises(ConfigError) as caught:
        WorkerSpec(**given)

    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value)


# -- frozen, shown, copied ----------------------------------------------------------------------------------


def test_a_spec_cannot_be_changed() -> None:
    spec = worker("ledger")

    problem = problem_of(lambda: setattr(spec, "restart", "transient"))
    problem_of(lambda: delattr(spec, "restart"))

    assert problem.path == "ledger.restart"
    assert "model_copy" in problem.hint
    assert spec.restart == "permanent"


def test_a_changed_copy_is_checked_like_a_new_spec() -> None:
    spec = worker("ledger", kwargs={"a": 1})

    copy = spec.model_copy(update={"id": "ledger2"})
    problem = problem_of(lambda: spec.model_copy(update={"restart": "always"}))
    deep = team("web", team("react", worker("lint")))

    assert (copy.id, copy.run, copy.kwargs) == ("ledger2", body, {"a": 1})
    assert spec.model_copy() == spec
    assert problem.path == "ledger.restart"
    with pytest.raises(DepthError):
        team("shop").model_copy(update={"children": [deep]})


def test_a_repr_shows_what_was_given_but_never_arguments() -> None:
    spec = WorkerSpec(
        id="ledger",
        run=functools.partial(body, "hunter2"),
        args=("hunter2",),
        kwargs={"password": "hunter2"},
        restart="transient",
    )
    parent = SupervisorSpec(id="shop", children=[spec])

    assert repr(spec) == "WorkerSpec(id='ledger', run='functools:partial', restart='transient')"
    assert repr(worker("a")) == f"WorkerSpec(id='a', run='{__name__}:body')"
    assert repr(parent) == "SupervisorSpec(id='shop', children='1 declared')"
    assert "hunter2" not in f"{spec} {parent} {spec!r}"


def test_specs_and_their_errors_pickle() -> None:
    spec = team("shop", WorkerSpec(id="ledger", run=body, kwargs={"a": 1}, mailbox=Mailbox(capacity=3)))
    with pytest.raises(DepthError) as caught:
        team("shop", team("web", team("react")))

    assert pickle.loads(pickle.dumps(spec)) == spec  # noqa: S301 - our own bytes
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems  # noqa: S301 - the same
