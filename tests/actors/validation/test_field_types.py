"""What each field of a declaration takes, and how a value that it does not take is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from actors import ConfigError, Problem
from trees import Backoff, Mailbox, Retry, SupervisorSpec, WorkerSpec


def worker(name: str, **fields: Any) -> WorkerSpec:
    return WorkerSpec(id=name, run=print, **fields)


def problem_of(make: Callable[[], object]) -> Problem:
    with pytest.raises(ConfigError) as caught:
        make()
    (problem,) = caught.value.problems
    return problem


@pytest.mark.parametrize(
    ("given", "said", "close"),
    [
        ("fibre", "'fibre'", ""),
        ("proces", "'proces'", "Did you mean 'process'? "),
        (None, "None", ""),
        (["pool"], "a list", ""),
    ],
)
def test_a_dispatch_that_there_is_not_is_one_problem_that_says_all_there_is(given: Any, said: str, close: str) -> None:
    with pytest.raises(ConfigError) as caught:
        worker("ledger", dispatch=given)

    hint = f"{close}Use 'auto', 'pool', 'loop', 'thread', 'process', 'ray', Process(...) or Ray(...)."
    assert caught.value.problems == (Problem("ledger.dispatch", f"{said} is not accepted", hint),)


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "0", "..", "-"])
def test_an_id_may_have_letters_digits_and_three_signs(name: str) -> None:
    assert worker(name).id == name
    assert SupervisorSpec(id=name).id == name


@pytest.mark.parametrize("name", ["", "a b", "a/b", "parse#0", "ä", "a\n", "\n"])
def test_an_id_with_anything_else_is_refused(name: str) -> None:
    for make in (lambda: worker(name), lambda: SupervisorSpec(id=name)):
        problem = problem_of(make)

        assert problem.path in {"WorkerSpec.id", "SupervisorSpec.id"}
        assert problem.what == f"expected an id, got {name!r}"


@pytest.mark.parametrize(
    ("field", "value", "what", "hint"),
    [
        ("restart", "always", "'always' is not accepted", "Use 'permanent', 'transient' or 'temporary'."),
        ("on_exhausted", "stop", "'stop' is not accepted", "Use 'escalate' or 'park'."),
        ("shutdown", True, "expected a number of seconds, got True", "'infinity' for no limit"),
        ("shutdown", float("inf"), "inf is out of range", "'infinity' for no limit"),
        ("shutdown", float("nan"), "nan is out of range", "'infinity' for no limit"),
        ("shutdown", -1, "-1 is out of range", "Use 0 to"),
        ("shutdown", 1e12, "1000000000000.0 is out of range", "1,000,000,000 seconds"),
        ("shutdown", 10**400, "an int of 1329 bits is out of range", "1,000,000,000 seconds"),
        ("shutdown", "never", "expected a number of seconds, got 'never'", "'brutal_kill'"),
        ("shutdown", None, "expected a number of seconds, got None", "'infinity' for no limit"),
        ("start_timeout_s", 0, "0 is out of range", "None for no limit"),
        ("start_timeout_s", float("inf"), "inf is out of range", "None for no limit"),
        ("start_timeout_s", True, "expected a number of seconds, got True", "None for no limit"),
        ("pool", 0, "0 is too small", "Use at least 1."),
        ("pool", True, "expected an int, got True", "Write a whole number."),
        ("pool", 2.0, "expected an int, got 2.0", "Write a whole number."),
        ("significant", "yes", "expected a bool, got 'yes'", "Write True or False."),
        ("crash_on_ask_error", 1, "expected a bool, got 1", "Write True or False."),
        ("backoff", 3, "expected Backoff(...), got 3", "Write Backoff(...)."),
        ("backoff", {"initial_s": 1}, "expected Backoff(...), got a dict", "Write Backoff(...)."),
        ("mailbox", {"capacity": 1}, "expected Mailbox(...), got a dict", "Write Mailbox(...)."),
        ("mailbox", None, "expected Mailbox(...), got None", "Write Mailbox(...)."),
        ("args", "path", "expected a tuple, got a str", "Write (value,) or [value]."),
        ("args", {"a": 1}, "expected a tuple, got a dict", "Write (value,) or [value]."),
        ("kwargs", [("a", 1)], "expected a dict, got a list", "Write {'parameter': value}."),
        ("kwargs", {1: 2}, "an int is the name of no parameter", "Write {'parameter': value}."),
        (
            "expected",
            "ValueError",
            "expected a subclass of Exception, got a str",
            "its like always crash",
        ),
        ("expected", SystemExit, "expected a subclass of Exception, got the class SystemExit", "always crash"),
        ("expected", [ValueError()], "expected a subclass of Exception, got a ValueError", "Give exception types"),
        ("description", None, "expected a str, got None", "Write it in quotes."),
    ],
)
def test_a_value_that_a_worker_field_does_not_take_is_refused_with_a_hint(
    field: str, value: object, what: str, hint: str
) -> None:
    problem = problem_of(lambda: worker("ledger", **{field: value}))

    assert problem.path == f"ledger.{field}"
    assert problem.what == what
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("field", "value", "what", "hint"),
    [
        ("strategy", "one_for_two", "'one_for_two' is not accepted", "'one_for_one', 'one_for_all' or 'rest_for_one'"),
        ("auto_shutdown", True, "True is not accepted", "Use 'never', 'any_significant' or 'all_significant'."),
        ("max_restarts", -1, "-1 is too small", "Use at least 0."),
        ("max_restarts", True, "expected an int, got True", "Write a whole number."),
        ("max_restarts", None, "expected an int, got None", "Write a whole number."),
        ("period_s", 0, "0 is out of range", "Use more than 0"),
        ("period_s", True, "expected a number of seconds, got True", "Use more than 0"),
        ("period_s", float("nan"), "nan is out of range", "Use more than 0"),
        ("max_children", -1, "-1 is too small", "Use at least 0."),
        ("max_children", False, "expected an int, got False", "Write a whole number."),
        ("parallel_stop", "no", "expected a bool, got 'no'", "Write True or False."),
        ("shutdown", float("inf"), "inf is out of range", "'infinity' for no limit"),
        ("children", None, "expected a list, got None", "Write [WorkerSpec(...) or SupervisorSpec(...), ...]."),
        ("children", {"a": 1}, "expected a list, got a dict", "Write ["),
    ],
)
def test_a_value_that_a_supervisor_field_does_not_take_is_refused_with_a_hint(
    field: str, value: Any, what: str, hint: str
) -> None:
    problem = problem_of(lambda: SupervisorSpec(id="shop", **{field: value}))

    assert problem.path == f"shop.{field}"
    assert problem.what == what
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("make", "path", "what"),
    [
        (lambda: Mailbox(capacity=0), "Mailbox.capacity", "0 is too small"),
        (lambda: Mailbox(capacity=True), "Mailbox.capacity", "expected an int, got True"),
        (lambda: Mailbox(overflow="drop"), "Mailbox.overflow", "'drop' is not accepted"),  # type: ignore[arg-type]
        (lambda: Backoff(initial_s=-1), "Backoff.initial_s", "-1 is out of range"),
        (lambda: Backoff(initial_s=60, max_s=30), "Backoff.max_s", "30 is less than initial_s=60"),
        (lambda: Backoff(initial_s=1e10), "Backoff.initial_s", "10000000000.0 is out of range"),
        (lambda: Retry(initial_s=0.5, max_s=0.1), "Retry.max_s", "0.1 is less than initial_s=0.5"),
        (lambda: Backoff(factor=0.5), "Backoff.factor", "0.5 is out of range"),
        (lambda: Backoff(factor=float("inf")), "Backoff.factor", "inf is out of range"),
        (lambda: Backoff(max_s=float("nan")), "Backoff.max_s", "nan is out of range"),
        (lambda: Backoff(jitter=1.5), "Backoff.jitter", "1.5 is out of range"),
        (lambda: Backoff(jitter="a bit"), "Backoff.jitter", "expected a number, got 'a bit'"),  # type: ignore[arg-type]
        (lambda: Backoff(reset_after_s=0), "Backoff.reset_after_s", "0 is out of range"),
    ],
)
def test_a_value_that_a_mailbox_or_a_backoff_does_not_take_is_refused(
    make: Callable[[], object], path: str, what: str
) -> None:
    problem = problem_of(make)

    assert (problem.path, problem.what) == (path, what)
