"""The text that a model is given for a plan: the goal, what is there, who is there, and the rules. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from actors.tasks.execution.prompt import GOAL, PLAN, REST, Part, pack, shown_here
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Budget, Task
from actors.tasks.planning.replanning import ReplanFeedback

_RULES: Final = """Rules of a plan:
- Use only workers and capabilities of the catalogue. Each subtask names one worker or one capability.
- Ids are unique, of letters, digits, '_', '.' and '-'.
- depends_on lists the ids of the subtasks whose results it needs, and no others: what does not need the results of
  another one runs at the same time as it. No cycles.
- A subtask is handed the results of the subtasks in its depends_on, and no others: do not ask for them again.
- As few subtasks as the goal takes; each instruction can be understood by itself.
- Where several workers would do, take the one that is estimated to cost less.
- Give timeouts in seconds, and leave out every field that you have no reason to set.
Answer with the JSON of the plan alone."""

_SLOT_RULES: Final = """Rules of a plan:
- Fill in the slots {names}: each is one subtask, with an instruction and one worker of the catalogue.
- needs lists the earlier slots whose results it needs, and no others: what does not need the results of another one
  runs at the same time as it.
- A subtask is handed the results of the slots in its needs, and no others: do not ask for them again.
- As few subtasks as the goal takes: a slot that is not needed is null. Each instruction can be understood by itself.
- Where several workers would do, take the one that is estimated to cost less.
Answer with the JSON of the slots alone, such as:
{example}"""

_GOAL_CHARS: Final = 100
"""Characters of the goal in an example."""
_VALUE_CHARS: Final = 1_000
"""Characters of one input that are shown."""


def planner_prompt(
    task: Task,
    catalogue: Catalogue,
    feedback: str = "",
    slots: tuple[str, ...] = (),
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Return the text that a model is given for a plan.

    Args:
        task: what is to be planned.
        catalogue: who is there.
        feedback: why the last plan was refused, or has failed.
        slots: names of those that it fills in.
        schema: JSON schema of the plan. None: whoever calls the model holds it to the schema.
    """
    rules = _SLOT_RULES.format(names=", ".join(slots), example=_example(task, catalogue, slots)) if slots else _RULES
    told = feedback
    if feedback and not isinstance(feedback, ReplanFeedback):
        told = f"Your last plan was refused. Mend all of this:\n{feedback}"
    goal, wrong = Part("Goal:", task.goal, GOAL), Part("", told, PLAN)
    inputs = Part("Inputs, which every subtask sees:", _inputs(task.inputs), REST)
    who = Part("Catalogue:", _json([_described(row) for row in catalogue]), PLAN)
    pack([goal, inputs, who, wrong], shown_here().tokens)
    parts = [
        "Plan how this goal is reached by the workers of the catalogue.",
        *(f"{part.title}\n{part.text}" for part in (goal, inputs, who) if part.text),
        f"JSON schema of the plan:\n{json.dumps(schema)}" if schema is not None else "",
        rules,
        wrong.text,
    ]
    return "\n\n".join(part for part in parts if part)


def _example(task: Task, catalogue: Catalogue, slots: tuple[str, ...]) -> str:
    """Return slots that are filled in, of this very goal: a small model copies what it is shown."""
    goal = " ".join(task.goal[:_GOAL_CHARS].split())
    ids = [row.id for row in catalogue] or ["worker"]
    filled: dict[str, Any] = {}
    for n, name in enumerate(slots):
        filled[name] = {"instruction": f"Part {n + 1} of: {goal}", "worker": ids[n % len(ids)]}
        if n:
            filled[name]["needs"] = [slots[n - 1]]
        if n > 1:
            filled[name] = None
    return json.dumps(filled)


# -- inputs ------------------------------------------------------------------------------------------------------


def _inputs(inputs: Mapping[str, Any]) -> str:
    """Return a line for each input: its name, its type, and its value, or the beginning of that."""
    return "\n".join(f"{_json(name)}: {_cut(value)}  ({_kind(value)})" for name, value in inputs.items())


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return f"text of {len(value):,} characters"
    if isinstance(value, Mapping):
        return f"object of {len(value):,} fields"
    if isinstance(value, (list, tuple)):
        kinds = {_of_item(each) for each in value}
        return f"list of {len(value):,}{' ' + kinds.pop() if len(kinds) == 1 else ' items'}"
    return "null" if value is None else "number"


def _of_item(value: object) -> str:
    names = {bool: "booleans", str: "texts", dict: "objects", list: "lists", int: "numbers", float: "numbers"}
    return names.get(type(value), "items")


def _cut(value: object) -> str:
    """Value as JSON, or its beginning. No more of a text is made JSON than is shown."""
    if isinstance(value, str) and len(value) > _VALUE_CHARS:
        return f"{_json(value[:_VALUE_CHARS])} ..."
    said = _json(value, indent=None)
    return said if len(said) <= _VALUE_CHARS else f"{said[:_VALUE_CHARS]} ..."


# -- workers -----------------------------------------------------------------------------------------------------


def _described(row: ExecutableInfo) -> dict[str, Any]:
    said: dict[str, Any] = {
        "id": row.id,
        "type": row.type,
        "description": row.description,
        "capabilities": sorted(row.capabilities),
        "input_schema": row.input_schema,
        "output_schema": row.output_schema,
        "consumes": sorted(row.consumes),
        "produces": sorted(row.produces),
        "tools": [{"name": one.name, "description": one.description} for one in row.tools or ()],
        "members": [{"id": one.id, "description": one.description} for one in row.members],
        **_estimated(row.estimate),
    }
    return {name: value for name, value in said.items() if value not in ("", [], None)}


def _estimated(estimate: object) -> dict[str, Any]:
    """Costs of one attempt, as far as they are numbers: a function is asked about a subtask, and there is none yet."""
    if isinstance(estimate, Budget):
        return {f"estimated_{name}": getattr(estimate, name) for name in ("tokens", "cost", "seconds")}
    is_number = isinstance(estimate, (int, float)) and not isinstance(estimate, bool)
    return {"estimated_tokens": estimate} if is_number else {}


def _json(value: object, indent: int | None = 1) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=lambda one: f"<{type(one).__qualname__}>")
