"""The rules that only the whole tree shows, and what stands behind an import string and where it would run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import ConfigError, DepthError, Problem
from tests.actors.execution.targets import (
    Abstract,
    Machine,
    OtherRuntime,
    Plain,
    Stock,
    body,
    body_of,
    handler,
    handler_of,
)
from trees import SupervisorSpec, WorkerSpec, start


def check(spec: SupervisorSpec) -> list[Problem]:
    """Every problem that a start finds; without one the tree is started, and stopped."""
    try:
        start(spec).stop()
    except ConfigError as error:
        return list(error.problems)
    return []


def shop(*children: WorkerSpec | SupervisorSpec, **fields: Any) -> SupervisorSpec:
    return SupervisorSpec(id="shop", children=children, **fields)


def of_worker(**fields: Any) -> list[Problem]:
    return check(shop(WorkerSpec(id="w", **fields)))


# -- the whole tree -----------------------------------------------------------------------------------------


def test_a_right_tree_has_no_problems() -> None:
    tree = shop(
        WorkerSpec(id="poller", run=body),
        WorkerSpec(id="parse", handle=handler, pool=8),
        SupervisorSpec(
            id="billing",
            strategy="one_for_all",
            auto_shutdown="any_significant",
            children=[
                WorkerSpec(id="ledger", actor=Plain, kwargs={"path": "ledger.db"}),
                WorkerSpec(
                    id="mailer",
                    actor="tests.actors.execution.targets:Asynchronous",
                    restart="transient",
                    significant=True,
                ),
                WorkerSpec(id="stock", actor=Stock),
            ],
        ),
    )

    assert check(tree) == []


def test_every_problem_of_the_tree_is_raised_together_in_the_order_of_the_declaration() -> None:
    tree = shop(
        WorkerSpec(id="a", actor="no_such_module:Ledger"),
        WorkerSpec(id="b", handle=handler, args=(1, 2, 3)),
        SupervisorSpec(id="c", children=[WorkerSpec(id="d", run=body, significant=True)]),
        WorkerSpec(id="a", run=body, dispatch="pool"),
        max_children=1,
    )

    with pytest.raises(ConfigError) as caught:
        start(tree)

    assert not isinstance(caught.value, DepthError)
    assert [problem.path for problem in caught.value.problems] == [
        "shop/a",
        "shop.max_children",
        "shop/a.actor",
        "shop/b.handle",
        "shop/c/d.significant",
        "shop/c/d.significant",
        "shop/a.dispatch",
    ]
    assert list(caught.value.problems) == check(tree)
    assert str(caught.value).startswith("7 problems in the declaration:")


def test_siblings_with_the_same_id_are_told_once_with_their_number() -> None:
    one = WorkerSpec(id="ledger", run=body)
    tree = shop(one, WorkerSpec(id="ledger", handle=handler, pool=3), SupervisorSpec(id="ledger"))

    assert check(tree) == [
        Problem(
            "shop/ledger",
            "3 children of 'shop' have this id",
            "Siblings need different ids; for several of the same worker use pool=.",
        )
    ]


def test_the_same_spec_may_stand_under_several_parents() -> None:
    one = WorkerSpec(id="ledger", run=body)

    assert check(shop(one, SupervisorSpec(id="a", children=[one]), SupervisorSpec(id="b", children=[one]))) == []


@pytest.mark.parametrize(("bound", "wrong"), [(None, False), (5, False), (4, True), (0, True)])
def test_max_children_must_leave_room_for_each_declared_child_and_pool_member(
    bound: int | None,
    wrong: bool,
) -> None:
    tree = shop(WorkerSpec(id="a", run=body), WorkerSpec(id="p", handle=handler, pool=4), max_children=bound)

    problems = check(tree)

    assert [problem.what for problem in problems] == (
        [f"{bound} is less than the 5 children declared"] if wrong else []
    )


# -- added to a running tree --------------------------------------------------------------------------------


# -- significance -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("auto_shutdown", ["never", "any_significant", "all_significant"])
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
@pytest.mark.parametrize("kind", ["worker", "supervisor"])
def test_a_significant_child_needs_auto_shutdown_and_an_end_for_good(
    kind: str, restart: Any, auto_shutdown: Any
) -> None:
    child = (
        WorkerSpec(id="c", run=body, restart=restart, significant=True)
        if kind == "worker"
        else SupervisorSpec(id="c", restart=restart, significant=True)
    )

    problems = check(shop(child, auto_shutdown=auto_shutdown))

    wanted = []
    if auto_shutdown == "never":
        wanted.append("its supervisor has auto_shutdown='never'")
    if restart == "permanent":
        wanted.append("a permanent child cannot be significant")
    assert [problem.what for problem in problems] == wanted
    assert {problem.path for problem in problems} <= {"shop/c.significant"}


def test_the_root_cannot_be_significant() -> None:
    (problem,) = check(SupervisorSpec(id="shop", restart="transient", significant=True))

    assert (problem.path, problem.what) == ("shop.significant", "the root cannot be significant")


# -- what a worker does -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "target"),
    [("actor", "Plain"), ("run", "body"), ("handle", "handler"), ("handle", "Machine.method")],
)
def test_an_import_string_names_any_code(which: str, target: str) -> None:
    args = (None,) if target == "Machine.method" else ()

    assert of_worker(**{which: f"tests.actors.execution.targets:{target}", "args": args}) == []


@pytest.mark.parametrize("which", ["actor", "run", "handle"])
def test_an_import_string_that_leads_nowhere_is_told_at_its_field(which: str) -> None:
    (problem,) = of_worker(**{which: "json:dumpss"})

    assert problem == Problem(
        f"shop/w.{which}", "attribute 'dumpss' of 'json:dumpss' is missing", "Did you mean 'dumps'?"
    )


def test_a_broken_module_is_imported_once_for_all_who_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    mark = tmp_path / "imported"
    source = f"with open({str(mark)!r}, 'a') as mark: mark.write('x')\nraise ValueError"
    (tmp_path / "regrow_counted.py").write_text(source, encoding="utf-8")

    problems = check(shop(*(WorkerSpec(id=f"w{n}", run="regrow_counted:body") for n in range(10))))

    assert [problem.path for problem in problems] == [f"shop/w{n}.run" for n in range(10)]
    assert mark.read_text(encoding="utf-8") == "x"


@pytest.mark.parametrize(
    ("target", "what"),
    [
        (Machine, "expected an actor class, got the class Machine"),
        (OtherRuntime, "expected an actor class, got the class OtherRuntime"),
        ("tests.actors.execution.targets:body", "expected an actor class, got a function"),
        ("tests.actors.execution.targets:A_TEXT", "expected an actor class, got a str"),
        (Abstract, "the class Abstract is abstract"),
    ],
)
def test_an_actor_must_be_a_concrete_worker_or_threading_actor(target: Any, what: str) -> None:
    (problem,) = of_worker(actor=target)

    assert (problem.path, problem.what) == ("shop/w.actor", what)


@pytest.mark.parametrize("which", ["run", "handle"])
def test_an_import_string_of_code_must_name_a_callable(which: str) -> None:
    (problem,) = of_worker(**{which: "tests.actors.execution.targets:A_TEXT"})

    assert (problem.path, problem.what) == (f"shop/w.{which}", "a str cannot be called")


@pytest.mark.parametrize("which", ["run", "handle"])
@pytest.mark.parametrize("target", [Plain, Stock, "tests.actors.execution.targets:Plain"])
def test_an_actor_class_given_as_a_function_is_told_as_such(which: str, target: Any) -> None:
    (problem,) = of_worker(**{which: target})

    assert problem.what in {"the class Plain is an actor class", "the class Stock is an actor class"}
    assert problem.hint == "Write actor=: called as a function it would only make an object."


# -- args and kwargs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "path", "what", "hint"),
    [
        (
            {"actor": Plain, "args": ("a", "b")},
            "shop/w.actor",
            "args and kwargs do not fit Plain.__init__: too many positional arguments",
            "It takes (self, path, *, timeout_s).",
        ),
        (
            {"actor": Stock, "kwargs": {"pth": "hunter2"}},
            "shop/w.actor",
            "args and kwargs do not fit Stock.__init__: got an unexpected keyword argument 'pth'",
            "It takes (self, path).",
        ),
        (
            {"run": body_of, "kwargs": {"every_s": 1}},
            "shop/w.run",
            "args and kwargs do not fit body_of: missing a required argument: 'path'",
            "It takes (path, *, every_s).",
        ),
        (
            {"handle": handler_of},
            "shop/w.handle",
            "args and kwargs do not fit handler_of: missing a required argument: 'path'",
            "It is called with the message first and takes (message, path, *, every_s).",
        ),
        (
            {"handle": body},
            "shop/w.handle",
            "args and kwargs do not fit body: too many positional arguments",
            "It is called with the message first and takes ().",
        ),
        (
            {"handle": handler_of, "args": ("a",), "kwargs": {"message": 1}},
            "shop/w.handle",
            "args and kwargs do not fit handler_of: multiple values for argument 'message'",
            "It is called with the message first and takes (message, path, *, every_s).",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_told_by_name_and_never_by_value(
    given: dict[str, Any], path: str, what: str, hint: str
) -> None:
    assert of_worker(**given) == [Problem(path, what, hint)]


# -- size ---------------------------------------------------------------------------------------------------


MANY = 20_000
