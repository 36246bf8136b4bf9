"""What JSON can be made of is kept; of anything else the error names the type, and the place where it stands."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from trees import ConfigError, StaticPlan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start


def run(work: Any, inputs: dict[str, Any] | None = None) -> Any:
    tree = SupervisorSpec(
        id="app",
        tasks=Tasks(planner=StaticPlan([Subtask("w", worker="w")]), on_failure=[]),
        children=[WorkerSpec(id="w", execute=work, breaker=None)],
    )
    with start(tree) as running:
        return running.run(Task("go", inputs=inputs or {})).results["w"]


class Number:
    """A number of numpy, as far as the library knows of it."""

    def __init__(self, number: object) -> None:
        self.number = number

    def item(self) -> object:
        return self.number


ODD = [
    ({"rows": [{"n": 1}, {"n": object()}]}, "an object", "['rows'][1]['n']"),
    ({"image": b"\x89PNG"}, "bytes that are no UTF-8", "['image']"),
    ([1, {"many": {2: [Number(3)]}}], "a Number", "[1]['many'][2][0]"),
]


@pytest.mark.parametrize(("value", "what", "place"), ODD)
def test_a_result_that_cannot_be_stored_is_told_by_type_and_place(value: Any, what: str, place: str) -> None:
    with pytest.raises(TaskFailedError) as caught:
        run(lambda task: value)

    assert f"{what} at {place} cannot be stored" in str(caught.value)


@pytest.mark.parametrize(("value", "what", "place"), ODD)
def test_an_input_that_cannot_be_kept_is_told_by_type_and_place(value: Any, what: str, place: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Task("go", inputs={"value": value})

    assert f"Task.inputs['value']{place}: {what} cannot be kept as JSON" in str(caught.value)


def test_numbers_of_numpy_are_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", SimpleNamespace(generic=Number))
    value = {"count": Number(3), "all": [Number(0.5), Number(number=True)]}

    assert run(lambda task, context: context.inputs["value"], {"value": value}) == {"count": 3, "all": [0.5, True]}


def test_half_a_character_is_kept_as_a_key_as_it_is_as_a_value() -> None:
    value = {"caf\udce9.txt": {"size": 3, "name": "caf\udce9.txt"}}

    assert run(lambda task, context: context.inputs["value"], {"value": value}) == value


def test_progress_that_is_no_number_is_told_what_it_takes() -> None:
    def work(task: Any, context: Any) -> None:
        context.progress("half")

    with pytest.raises(TaskFailedError, match=r"'half' is no number. Give a number from 0 to 1, and the text after it"):
        run(work)
