"""Workers that differ in their id only are looked at once: what makes one of them different is checked all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from trees import ConfigError, Mailbox, SupervisorSpec, WorkerSpec, start

ROOT = SupervisorSpec(id="shop", children=[])


def echo(message: Any) -> Any:
    return message


def test_functions_of_the_same_code_share_the_check_and_nothing_else() -> None:
    def adder(number: int) -> Callable[[int], int]:
        return lambda message: message + number

    with start(ROOT) as tree:
        refs = [tree.start_child("shop", WorkerSpec(id=f"w{number}", handle=adder(number))) for number in range(3)]
        assert [ref.ask(10) for ref in refs] == [10, 11, 12]


@pytest.mark.parametrize("wrong", [{"pool": 2, "dispatch": "loop"}, {"args": (1, 2)}, {"timeout_s": 3.0}], ids=str)
def test_each_of_many_workers_is_checked_in_what_makes_it_different(wrong: dict[str, Any]) -> None:
    fine = [WorkerSpec(id=f"w{number}", handle=echo) for number in range(3)]
    odd = [WorkerSpec(id=f"odd{number}", handle=echo, **wrong) for number in range(2)]
    if "pool" in wrong:
        odd = [each.model_copy(update={"mailbox": Mailbox(capacity=2), "run": echo, "handle": None}) for each in odd]

    with pytest.raises(ConfigError) as caught:
        start(SupervisorSpec(id="shop", children=[*fine, *odd, fine[0].model_copy(update={"id": "w3"})]))

    assert {problem.path.split("/")[1].split(".")[0] for problem in caught.value.problems} == {"odd0", "odd1"}
