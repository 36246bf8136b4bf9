"""``execute`` gets its work as a text with attributes, a model or a dict, and its context as a mapping, everywhere."""

import copy
import json
import pickle
import re
from contextlib import suppress
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, TypeAdapter

from actors import Context, Work, Worker
from trees import Report, Retry, StaticPlan, Subtask, SupervisorSpec, Task, TaskFailedError, Tasks, WorkerSpec, start


class Order(BaseModel):
    item: str
    count: int = 1


def described(task: str, context: Context) -> dict[str, Any]:
    work: Any = task
    return {
        "text": [
            task.lower(),
            "Review" in task,
            f"{task}!",
            re.sub("Review", "Read", task),
            json.loads(json.dumps(task)),
        ],
        "is": [isinstance(task, str), isinstance(task, Work), TypeAdapter(str).validate_python(task) == task],
        "attributes": [work.id, work.instruction, work.inputs, work.metadata, work.depends_on, work.worker],
        "context": [context["first"], context["n"], context.get("nothing", "none"), "first" in context, list(context)],
        "is_true": bool(context),
    }


async def described_async(task: str, context: Context) -> dict[str, Any]:
    return described(task, context)


class Describes(Worker):
    def execute(self, task: str, context: Context) -> dict[str, Any]:
        return described(task, context)


def first(_task: str, _context: Context) -> str:
    return "done first"


def order(task: Order, context: Context) -> str:
    return f"{task.count * 2} {task.item} {context['item']}"


def order_alone(task: Order) -> str:
    return f"{task.count * 2} {task.item} {task.item}"


def order_annotated(task: Annotated[Order, "an order"]) -> str:
    return order_alone(task)


def order_or_none(task: Order | None) -> str:
    assert task is not None
    return order_alone(task)


async def order_async(task: Order, context: Context) -> str:
    return order(task, context)


class TakesOrders(Worker):
    async def execute(self, task: Order, context: Context) -> str:
        return order(task, context)


class Processes:
    def process(self, payload: dict[str, Any], context: Context) -> dict[str, Any]:
        return {**payload, "seen": sorted(context)}


class ProcessesAsync:
    async def process(self, payload: dict[str, Any], context: Context) -> dict[str, Any]:
        return {**payload, "seen": sorted(context)}


class ExecutesToo(Processes):
    def execute(self, task: str, _context: Context) -> str:
        return f"executed {task}"


async def order_of_inputs_alone(task: Order) -> str:
    return order_alone(task)


PLACES: tuple[dict[str, Any], ...] = ({}, {"dispatch": "process"})


def outcome(plan: list[Subtask], inputs: dict[str, Any], **worker: Any) -> Report:
    children = [WorkerSpec(id="w", on_failure=[Retry(3, 0.01)], **worker), WorkerSpec(id="first", execute=first)]
    with start(SupervisorSpec(id="t", tasks=Tasks(planner=StaticPlan(plan)), children=children)) as tree:
        handle = tree.submit(Task("Review it", inputs=inputs, metadata={"customer": 7}))
        with suppress(TaskFailedError):
            handle.result(60)
        assert handle.report is not None
        return handle.report


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", [{"execute": described}, {"execute": described_async}, {"actor": Describes}])
def test_work_is_a_text_with_attributes_and_its_context_a_mapping(code: dict[str, Any], place: dict[str, Any]) -> None:
    plan = [
        Subtask("first", worker="first"),
        Subtask("second", "Review THIS", worker="w", depends_on=["first"], inputs={"own": True}),
    ]
    assert outcome(plan, {"n": 3, "first": "an input"}, **code, **place).results["second"] == {
        "text": ["review this", True, "Review THIS!", "Read THIS", "Review THIS"],
        "is": [True, True, True],
        "attributes": ["second", "Review THIS", {"own": True}, {}, ["first"], "w"],
        "context": ["done first", 3, "none", True, ["first", "n", "own"]],
        "is_true": True,
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "code",
    [
        {"execute": order},
        {"execute": order_alone},
        {"execute": order_annotated},
        {"execute": order_or_none},
        {"execute": order_async},
        {"execute": order_of_inputs_alone},
        {"actor": TakesOrders},
    ],
)
def test_code_that_takes_a_model_gets_it_made_of_the_inputs(code: dict[str, Any], place: dict[str, Any]) -> None:
    plan = [Subtask("a", "order", worker="w", inputs={"count": "2"})]
    assert outcome(plan, {"item": "tea"}, **code, **place).results == {"a": "4 tea tea"}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", [{"execute": order}, {"execute": order_async}, {"actor": TakesOrders}])
def test_inputs_that_do_not_fit_the_model_are_one_failed_attempt_that_says_so(
    code: dict[str, Any], place: dict[str, Any]
) -> None:
    report = outcome([Subtask("a", worker="w")], {"count": "many"}, **code, **place)
    assert [row.attempts for row in report.graph] == [1]
    error = report.failed["a"]
    for said in ("takes Order", "item: Field required", "count: Input should be a valid integer"):
        assert said in error
    assert "many" not in error, "values stand in no error"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("code", [Processes(), ProcessesAsync(), Processes])
def test_an_object_with_process_gets_the_inputs_and_the_instruction(code: Any, place: dict[str, Any]) -> None:
    plan = [Subtask("a", "Do it", worker="w", inputs={"n": 1})]
    wanted = {"task": "Do it", "item": "tea", "n": 1, "seen": ["item", "n"]}
    assert outcome(plan, {"item": "tea"}, execute=code, **place).results == {"a": wanted}


def test_execute_comes_before_process() -> None:
    assert outcome([Subtask("a", "Do it", worker="w")], {}, execute=ExecutesToo()).results == {"a": "executed Do it"}


def test_the_model_is_the_schema_of_the_worker_in_the_registry() -> None:
    with start(SupervisorSpec(id="t", tasks=Tasks(), children=[WorkerSpec(id="w", execute=order)])) as tree:
        (row,) = tree.registry()
    assert row.input_schema == Order.model_json_schema()


def test_no_attribute_of_work_hides_a_method_of_a_text_and_work_is_copied_whole() -> None:
    work = Work("Do it", id="a", inputs={"n": 1}, tool="t")
    assert not {name for name in vars(work) if hasattr(str, name)}
    assert set(vars(work)) == set(Subtask.model_fields)
    for again in (pickle.loads(pickle.dumps(work)), copy.deepcopy(work)):  # noqa: S301 - our own
        assert (again, vars(again)) == ("Do it", vars(work))
    assert (type(str(work)), work == "Do it", hash(work) == hash("Do it")) == (str, True, True)


def test_work_that_is_returned_or_handed_on_is_a_text() -> None:
    def same(task: str) -> str:
        return task

    assert outcome([Subtask("a", "Do it", worker="w")], {}, execute=same).results == {"a": "Do it"}


def test_a_name_that_is_neither_result_nor_input_says_what_is_there() -> None:
    def wrong(_task: str, context: Context) -> str:
        return str(context["frist"])

    plan = [Subtask("first", worker="first"), Subtask("a", worker="w", depends_on=["first"])]
    error = outcome(plan, {"n": 1}, execute=wrong).failed["a"]
    assert "no result of 'frist' is given to this attempt. It has those of 'first', and the inputs 'n'" in error
