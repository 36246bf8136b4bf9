"""Plans in slots: whatever fills in the schema is a plan that can run, and every string and list of it is bounded."""

import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from actors.model.errors import ConfigError
from actors.tasks.model.executable import ToolInfo
from actors.tasks.model.task import Plan, Subtask, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.plan_schema import plan_schema
from actors.tasks.planning.plan_validation import check_plan
from actors.tasks.planning.planners import InvalidPlanError, ModelPlanner, as_plan
from actors.tasks.planning.replanning import replan_feedback
from actors.testing import FakeModel
from tests.tasks.planning.test_planners import CODE, SEARCH

ROWS = (SEARCH, CODE)
NEEDS = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SERVERS = tuple(
    replace(CODE, id=id_, path=f"o/{id_}", tools=tools)
    for id_, tools in {
        "two-tools": (ToolInfo(name="list"), ToolInfo(name="count")),
        "needs-inputs": (ToolInfo(name="read", input_schema=NEEDS),),
        "one-tool": (ToolInfo(name="list", input_schema={"type": "object", "properties": {}}),),
    }.items()
)


def filled_in(schema: Any, chance: random.Random) -> Any:
    """Make a value that fits a schema; it knows the words that ours are made of, and fails at any other."""
    known = {"type", "properties", "required", "additionalProperties", "title", "anyOf", "items", "enum"}
    assert set(schema) <= known | {"maxItems", "minLength", "maxLength", "description"}, schema
    if "anyOf" in schema:
        return filled_in(chance.choice(schema["anyOf"]), chance)
    kind = schema["type"]
    if kind == "object":
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False
        return {name: filled_in(each, chance) for name, each in schema["properties"].items()}
    if kind == "array":
        return [filled_in(schema["items"], chance) for _ in range(chance.randint(0, schema["maxItems"]))]
    if kind == "string":
        length = chance.randint(schema.get("minLength", 0), schema.get("maxLength", 0))
        return chance.choice(schema["enum"]) if "enum" in schema else "x" * length
    assert kind in {"null", "boolean"}
    return None if kind == "null" else chance.random() < 0.5


@pytest.mark.parametrize("slots", [1, 2, 3, 7])
def test_whatever_fills_in_the_slots_is_a_plan_that_can_run(slots: int) -> None:
    chance, schema = random.Random(slots), plan_schema(ROWS, slots)  # noqa: S311
    sizes = set()
    for _ in range(300):
        plan = as_plan(json.dumps(filled_in(schema, chance)))
        problems, _warnings = check_plan(plan, ROWS, task_id="t", max_subtasks=50, budget=None, ancestry=())
        assert problems == []
        sizes.add(len(plan.subtasks))

    assert sizes == set(range(1, slots + 1))


def test_a_worker_whose_tool_must_be_named_or_given_arguments_gets_no_slot() -> None:
    asked: list[str] = []
    planner = ModelPlanner(
        lambda prompt, _: asked.append(prompt) or '{"s1": {"instruction": "x", "worker": "one-tool"}}', slots=1
    )

    asyncio.run(planner.plan(Task("do it"), (*ROWS, *SERVERS)))

    slot = plan_schema((*ROWS, *SERVERS), 1)["properties"]["s1"]
    assert slot["properties"]["worker"]["enum"] == [*(row.id for row in ROWS), "one-tool"]
    assert "two-tools" not in asked[0]
    assert "needs-inputs" not in asked[0]
    with pytest.raises(NoCapableWorkerError, match=r"only tools that need arguments.* Add an agent that calls them"):
        planner.ask(Task("do it"), SERVERS[:2])


def test_a_plan_that_names_no_tool_of_a_worker_with_several_is_refused_with_their_names() -> None:
    def problems(**fields: Any) -> list[str]:
        plan = Plan([Subtask("a", "x", worker="two-tools", **fields)])
        return list(map(str, check_plan(plan, SERVERS, task_id="t", max_subtasks=50, budget=None, ancestry=())[0]))

    said = "task t/a.tool: 'two-tools' has several tools, and the subtask names none. Name one of: "
    assert [each.partition("Name one of: ")[0] + "Name one of: " for each in problems()] == [said]
    assert problems(tool="list") == []
    assert "has no tool 'lst'. Did you mean 'list'?" in problems(tool="lst")[0]


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts_of(each)


def test_every_string_and_every_list_of_the_schema_is_bounded_and_it_has_no_references() -> None:
    parts = [each for each in parts_of(plan_schema(ROWS, 5)) if isinstance(each.get("type"), str)]

    assert all("maxItems" in each for each in parts if each["type"] == "array")
    texts = [each for each in parts if each["type"] == "string" and "enum" not in each]
    assert all("maxLength" in each for each in texts)
    assert "$ref" not in json.dumps(plan_schema(ROWS, 5))


def test_a_slot_names_a_worker_of_the_catalogue_and_needs_earlier_slots_only() -> None:
    slots = plan_schema(ROWS, 3)["properties"]
    third = slots["s3"]["anyOf"][0]["properties"]

    assert list(slots) == ["s1", "s2", "s3"]
    assert third["worker"]["enum"] == [row.id for row in ROWS]
    assert third["needs"] == {"type": "array", "items": {"type": "string", "enum": ["s1", "s2"]}, "maxItems": 2}


def test_a_slot_that_is_empty_is_needed_by_nobody() -> None:
    slot = {"instruction": "x", "worker": "search"}
    plan = as_plan({"s1": {**slot, "needs": []}, "s2": None, "s3": {**slot, "needs": ["s1", "s2", "s1"]}})

    assert [(one.id, one.depends_on) for one in plan.subtasks] == [("s1", []), ("s3", ["s1"])]


def test_after_a_failure_slots_have_new_names_and_may_need_what_is_done() -> None:
    feedback = replan_feedback({"s1": "found"}, {"s2": "no"}, {"s7": "skipped"})
    schema = plan_schema(ROWS, 2, feedback)

    assert list(schema["properties"]) == ["s8", "s9"]
    assert schema["properties"]["s8"]["properties"]["needs"]["items"]["enum"] == ["s1"]
    assert schema["properties"]["s9"]["anyOf"][0]["properties"]["needs"]["items"]["enum"] == ["s1", "s8"]


def test_a_planner_with_slots_hands_the_schema_to_the_call_and_says_in_the_prompt_how_they_are_filled_in() -> None:
    model = FakeModel({"s1": {"instruction": "look", "worker": "search", "needs": []}, "s2": None})
    plan = asyncio.run(ModelPlanner(model, slots=2).plan(Task("count the cats"), ROWS))

    assert model.schemas == [plan_schema(ROWS, 2)]
    assert "Fill in the slots s1, s2" in model.prompts[0]
    assert [(one.id, one.instruction, one.worker) for one in plan.subtasks] == [("s1", "look", "search")]


def test_a_model_that_is_not_held_to_the_schema_is_told_what_is_wrong() -> None:
    plan = as_plan({"s1": {"instruction": "x", "worker": "nobody", "needs": ["s2"]}, "s2": {"instruction": "y"}})
    problems, _ = check_plan(plan, ROWS, task_id="t", max_subtasks=50, budget=None, ancestry=())
    assert any("nobody" in str(each) for each in problems)
    with pytest.raises(InvalidPlanError, match="depends_on"):
        as_plan({"s1": {"instruction": "x", "worker": "search", "needs": "s0"}})
    with pytest.raises(InvalidPlanError, match=r"expected a subtask|not 'subtasks'"):
        as_plan({"s1": "search"})


def test_without_slots_the_schema_is_that_of_any_plan() -> None:
    assert plan_schema(ROWS) == Plan.model_json_schema()


@pytest.mark.parametrize("slots", [0, -1, 51, True, "3", 2.0])
def test_slots_that_are_no_number_of_subtasks_are_refused(slots: Any) -> None:
    with pytest.raises(ConfigError, match=r"ModelPlanner\.slots: expected a number from 1 to 50"):
        ModelPlanner(FakeModel({}), slots=slots)


def test_slots_for_nobody_are_refused_without_a_call() -> None:
    model = FakeModel({})
    with pytest.raises(NoCapableWorkerError):
        asyncio.run(ModelPlanner(model, slots=2).plan(Task("go"), ()))
    assert model.prompts == []


def test_of_a_plan_with_very_many_mistakes_the_first_are_told() -> None:
    with pytest.raises(InvalidPlanError) as caught:
        as_plan({"subtasks": [{"instruction": "x"}] * 100_000})

    assert len(caught.value.problems) < 60
    assert "more subtasks were not read" in str(caught.value)
