"""Plans that a model writes: what it is told, what is accepted, and what it is told when that was no plan."""

import asyncio
import json
import pickle
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from actors.model.errors import ConfigError
from actors.tasks.model.task import Budget, Plan, Subtask, Task
from actors.tasks.planning.planners import InvalidPlanError, ModelPlanner, as_plan
from tests.tasks.planning.test_planners import CODE, SEARCH, row

GOOD = {"subtasks": [{"id": "a", "instruction": "x", "worker": "search"}]}


def ask(answer: object, *, feedback: str = "", seen: list[Any] | None = None, **task: Any) -> Plan:
    async def call(prompt: str, schema: dict[str, Any]) -> object:
        if seen is not None:
            seen.extend((prompt, schema))
        return answer

    return asyncio.run(ModelPlanner(call).plan(Task("count the cats", **task), (SEARCH, CODE), feedback))


@pytest.mark.parametrize(
    "answer",
    [
        GOOD,
        GOOD["subtasks"],
        json.dumps(GOOD),
        json.dumps(GOOD).encode(),
        f"Here it is:\n```json\n{json.dumps(GOOD, indent=2)}\n```\nEnjoy.",
        f"```\n{json.dumps(GOOD)}\n```",
        Plan([Subtask("a", "x", "search")]),
    ],
    ids=["dict", "list", "str", "bytes", "fence", "bare fence", "plan"],
)
def test_a_models_answer_is_read_in_every_usual_form(answer: object) -> None:
    assert [(one.id, one.worker) for one in ask(answer).subtasks] == [("a", "search")]


def test_a_call_may_be_sync() -> None:
    planner = ModelPlanner(lambda prompt, schema: json.dumps(GOOD))

    assert asyncio.run(planner.plan(Task("g"), (), "")).subtasks[0].id == "a"


def test_the_prompt_holds_goal_inputs_catalogue_rules_and_schema() -> None:
    seen: list[Any] = []

    ask(GOOD, seen=seen, inputs={"folder": "/src", "depth": 2})

    prompt, schema = seen
    assert all(word in prompt for word in ("count the cats", '"folder": "/src"', "Searches the documentation"))
    assert all(word in prompt for word in ('"implement"', '"type": "tool"', "No cycles"))
    assert "refused" not in prompt
    assert json.dumps(schema) in prompt
    assert "subtasks" in schema["properties"]
    assert json.dumps(schema)


def test_feedback_reaches_the_model() -> None:
    seen: list[Any] = []

    ask(GOOD, seen=seen, feedback="task t/a.worker: there is no worker 'x'")

    assert "task t/a.worker: there is no worker 'x'" in seen[0]


def test_only_an_estimate_that_is_a_number_stands_in_the_prompt() -> None:
    rows = (row("a", estimate=700), row("b", estimate=lambda subtask: 800))

    prompt = ModelPlanner.prompt(Task("g"), rows)

    assert '"estimated_tokens": 700' in prompt
    assert prompt.count("estimated_tokens") == 1


def test_inputs_that_json_can_be_made_of_are_told_as_json_and_others_are_refused() -> None:
    assert '"a/b"' in ModelPlanner.prompt(Task("g", {"x": Path("a/b")}), ())
    with pytest.raises(ConfigError, match="cannot be kept as JSON"):
        Task("g", {"x": object()})


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("I would rather not", "18 characters that are no JSON"),
        ('{"subtasks": [', "no JSON"),
        ("3", "the JSON of an int"),
        ("[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        ({}, "has no 'subtasks'"),
        ({"subtasks": [], "steps": 1}, "not 'subtasks'"),
        ({"subtasks": "a"}, "expected a list of subtasks, got a str"),
        ({"subtasks": ["a"]}, r"subtasks\[0\]: expected a subtask, got a str"),
        ({"subtasks": [{"instruction": "x"}]}, "id: is missing"),
        ({"subtasks": [{"id": "no id"}]}, "expected an id, got 'no id'"),
        ({"subtasks": [{"id": "a", "agent": "x"}]}, "agent: unknown field of Subtask"),
        ({"subtasks": [{"id": "a", "timeout_s": -1}]}, "timeout_s: -1 is out of range"),
        ({"subtasks": [{"id": "a", "budget": {"tokens": -1}}]}, "tokens: -1 is too small"),
        ({"subtasks": [{"id": "a", "depends_on": "b"}]}, "depends_on"),
        ({"subtasks": [{"id": "a", "undo": "os:system"}]}, "a model may name no code"),
    ],
)
def test_rubbish_is_refused_in_words_that_can_be_fed_back(answer: object, text: str) -> None:
    with pytest.raises(InvalidPlanError, match=text) as caught:
        ask(answer)

    assert isinstance(caught.value, ValueError)
    assert caught.value.problems


def test_all_that_is_wrong_with_an_answer_is_told_at_once() -> None:
    with pytest.raises(InvalidPlanError) as caught:
        ask({"subtasks": [{"id": "a b"}, {"id": "c", "x": 1, "timeout_s": "soon"}, 3]})

    assert [problem.path for problem in caught.value.problems] == [
        "subtasks[0] Subtask.id",
        "subtasks[1] c.timeout_s",
        "subtasks[1] c.x",
        "subtasks[2]",
    ]


def test_a_field_that_is_null_counts_as_not_given() -> None:
    entry = {"id": "a", "depends_on": None, "timeout_s": None, "budget": {"tokens": 5, "cost": None}, "inputs": None}

    [only] = as_plan({"subtasks": [entry]}).subtasks

    assert (only.depends_on, only.inputs, only.budget) == ([], {}, Budget(5))


def test_an_error_of_rubbish_survives_pickling() -> None:
    with pytest.raises(InvalidPlanError) as caught:
        as_plan("no")

    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301 - our own


IMPORTS = {"id": "a", "worker": "w", "undo": "os:system"}


@pytest.mark.parametrize(
    "said",
    [
        json.dumps({"subtasks": [IMPORTS]}),
        json.dumps([IMPORTS]),
        json.dumps({"subtasks": [IMPORTS]}).encode(),
        bytearray(json.dumps({"subtasks": [IMPORTS]}).encode()),
        "Here it is:\n```json\n" + json.dumps({"subtasks": [IMPORTS]}) + "\n```",
        {"subtasks": [IMPORTS]},
        {"subtasks": (MappingProxyType(IMPORTS),)},
        [IMPORTS],
        [Subtask("b", worker="w"), IMPORTS],
    ],
    ids=["text", "text of a list", "bytes", "bytearray", "fenced", "dict", "mapping", "list", "beside a Subtask"],
)
def test_data_names_no_code_whichever_planner_hands_it_on(said: object) -> None:
    with pytest.raises(InvalidPlanError, match="a model may name no code"):
        as_plan(said)


def test_a_subtask_that_a_planners_own_code_makes_may_name_code_and_data_may_name_a_worker() -> None:
    made = as_plan([Subtask("a", worker="w", undo="os:getpid"), {"id": "b", "worker": "w", "undo": "cleaner"}])

    assert [each.undo for each in made.subtasks] == ["os:getpid", "cleaner"]


@pytest.mark.parametrize("said", [[Subtask("a", worker="w", undo="os:system")], Plan([Subtask("a", undo="os:system")])])
def test_what_a_model_is_asked_for_names_no_code_in_whatever_form(said: object) -> None:
    with pytest.raises(InvalidPlanError, match="a model may name no code"):
        ask(said)
