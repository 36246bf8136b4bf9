"""Workers that differ in their id only are looked at once: what makes one of them different is checked all the same."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from trees import ConfigError, Mailbox, SupervisorSpec, Tasks, WorkerSpec, start

ROOT = SupervisorSpec(id="shop", children=[])


def echo(message: Any) -> Any:
    return message


def adds(message: int, number: int = 0) -> int:
    return message + number


def test_functions_of_the_same_code_share_the_check_and_nothing_else() -> None:
    def adder(number: int) -> Callable[[int], int]:
        return lambda message: message + number

    with start(ROOT) as tree:
        refs = [tree.start_child("shop", WorkerSpec(id=f"w{number}", handle=adder(number))) for number in range(3)]
        assert [ref.ask(10) for ref in refs] == [10, 11, 12]


def test_functions_that_wrap_others_are_checked_each_by_what_they_wrap() -> None:
    def logged(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def inner(*args: Any) -> Any:
            return function(*args)

        return inner

    with start(ROOT) as tree:
        assert tree.start_child("shop", WorkerSpec(id="a", handle=logged(echo))).ask(1) == 1
        with pytest.raises(ConfigError, match="too many positional arguments"):
            tree.start_child("shop", WorkerSpec(id="b", handle=logged(lambda: None)))


def test_each_worker_has_its_own_args_and_they_are_checked() -> None:
    given = {"a": {"kwargs": {"number": 1}}, "b": {"kwargs": {"number": 2}}, "c": {"args": (3,)}, "d": {"args": (4,)}}
    with start(ROOT) as tree:
        for id_, each in given.items():
            tree.start_child("shop", WorkerSpec(id=id_, handle=adds, **each))
        assert [tree.ref(f"shop/{id_}").ask(10) for id_ in given] == [11, 12, 13, 14]
        for wrong in ({"kwargs": {"nimber": 1}}, {"args": (1, 2)}, {"args": (1,), "kwargs": {"number": 1}}):
            with pytest.raises(ConfigError, match="do not fit"):
                tree.start_child("shop", WorkerSpec(id="z", handle=adds, **wrong))  # type: ignore[arg-type]


def test_what_depends_on_the_place_is_checked_for_each() -> None:
    shop = SupervisorSpec(id="shop", tasks=Tasks(), children=[WorkerSpec(id="w", handle=echo)])
    with start(shop) as tree, pytest.raises(ConfigError, match="the id 'orchestrator' is taken"):
        tree.start_child("shop", WorkerSpec(id="orchestrator", handle=echo))
    ends = {"restart": "transient", "significant": True}
    first = SupervisorSpec(id="first", auto_shutdown="all_significant")
    with start(SupervisorSpec(id="shop", children=[first])) as tree:
        tree.start_child("shop/first", WorkerSpec(id="w", handle=echo, **ends))
        with pytest.raises(ConfigError, match="auto_shutdown='never'"):
            tree.start_child("shop", WorkerSpec(id="w", handle=echo, **ends))


@pytest.mark.parametrize("wrong", [{"pool": 2, "dispatch": "loop"}, {"args": (1, 2)}, {"timeout_s": 3.0}], ids=str)
def test_each_of_many_workers_is_checked_in_what_makes_it_different(wrong: dict[str, Any]) -> None:
    fine = [WorkerSpec(id=f"w{number}", handle=echo) for number in range(3)]
    odd = [WorkerSpec(id=f"odd{number}", handle=echo, **wrong) for number in range(2)]
    if "pool" in wrong:
        odd = [each.model_copy(update={"mailbox": Mailbox(capacity=2), "run": echo, "handle": None}) for each in odd]

    with pytest.raises(ConfigError) as caught:
        start(SupervisorSpec(id="shop", children=[*fine, *odd, fine[0].model_copy(update={"id": "w3"})]))

    assert {problem.path.split("/")[1].split(".")[0] for problem in caught.value.problems} == {"odd0", "odd1"}


def test_no_function_is_kept_alive_when_its_workers_are_gone() -> None:
    def handle(message: Any) -> Any:
        return message

    with start(ROOT) as tree:
        for id_ in ("a", "b"):
            tree.start_child("shop", WorkerSpec(id=id_, handle=handle))
            tree.terminate_child(f"shop/{id_}")
            tree.delete_child(f"shop/{id_}")
        gone = threading.Event()
        weakref.finalize(handle, gone.set)
        del handle
        gc.collect()
        assert gone.wait(30)
