"""A Ctrl-C at any moment of a look is a Ctrl-C: also where pydantic would drop it, or make it an error of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pydantic.functional_validators
import pytest
from pydantic import BaseModel, TypeAdapter, field_serializer
from pydantic_core import PydanticSerializationError

from actors.tasks.model import ladder_record
from actors.validation.json_form import json_form, json_form_as
from tests.support.steps import at_step
from trees import Retry, StaticPlan, Subtask, SupervisorSpec, Task, Tasks, Tree, Usage, WorkerSpec, start

FILES = {"<frozen abc>", pydantic.functional_validators.__file__, str(ladder_record.__file__), __file__}
"""Python code that pydantic calls from code that is none: what is raised there is for pydantic to pass on."""
TREE = SupervisorSpec(
    id="p",
    tasks=Tasks(planner=StaticPlan([Subtask("a", worker="w")])),
    children=[
        WorkerSpec(id="w", execute=lambda task, context: 1, pool=2),
        SupervisorSpec(id="s", children=[WorkerSpec(id="h", handle=print)]),
    ],
)


class Own(BaseModel):
    x: int = 1

    @field_serializer("x")
    def written(self, value: int) -> int:
        return value + 1


def interrupt() -> None:
    raise KeyboardInterrupt


def interrupted_everywhere(do: Callable[[], Any]) -> int:
    """Interrupt it at each step; how many there are."""
    number = 0
    while True:
        number += 1
        raised = False
        with at_step(number, interrupt, FILES) as seen:
            try:
                do()
            except KeyboardInterrupt:
                raised = True
        if seen[0] < number:
            return number - 1
        assert raised, f"step {number} was lost"


@pytest.mark.parametrize("form", ["text", "json", "mermaid"])
def test_a_ctrl_c_at_any_moment_of_a_dump_ends_it(form: Any) -> None:
    def dump(tree: Tree) -> None:
        tree.dump(format=form)

    with start(TREE) as tree:
        assert interrupted_everywhere(lambda: dump(tree))


def test_a_ctrl_c_at_any_moment_of_the_dump_of_a_task_ends_it() -> None:
    with start(TREE) as tree:
        handle = tree.submit("go")
        handle.result(timeout=60)

        assert interrupted_everywhere(lambda: handle.dump("json"))


@pytest.mark.parametrize(
    "write",
    [
        lambda: Task("go", on_failure=[Retry()]).model_dump(),
        Usage(tokens=1).model_dump,
        lambda: json_form([Own()]),
        lambda: json_form_as(TypeAdapter(Own), Own()),
    ],
    ids=["a task", "usage", "a value", "an adapter"],
)
def test_a_ctrl_c_at_any_moment_in_which_a_model_is_written_down_is_no_error_of_pydantic(write: Any) -> None:
    def do() -> None:
        try:
            write()
        except pydantic.ValidationError:
            pytest.fail("no Ctrl-C")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.validation.json_form._require_keys", lambda *_: None)  # see below
        assert interrupted_everywhere(do)


def test_a_ctrl_c_while_the_keys_of_a_value_are_looked_for_is_no_value_that_was_not_looked_at() -> None:
    """Pydantic gives no cause there, so it is an error of it."""
    calls = 0

    class Late(BaseModel):
        x: int = 1

        @field_serializer("x")
        def written(self, value: int) -> int:
            nonlocal calls
            calls += 1
            if calls == 2:
                raise KeyboardInterrupt
            return value

    with pytest.raises(PydanticSerializationError, match="KeyboardInterrupt"):
        json_form(Late())
