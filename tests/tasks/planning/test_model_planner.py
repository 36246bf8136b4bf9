"""Plans that a model writes: what it is told, what is accepted, and what it is told when that was no plan."""

import asyncio
import json
from typing import Any

import pytest

from tests.tasks.planning.test_planners import CODE, SEARCH
from trees import ModelPlanner, Plan, Subtask, Task

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
