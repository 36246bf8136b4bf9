"""A model as planner: the prompt that it is given, and the JSON schema that its answer is held to.

A small model cannot keep a graph in order by itself. With ``slots=3`` it fills in the slots ``s1``, ``s2`` and ``s3``:
each has a worker of the catalogue and needs only slots before it. So there is no unknown worker, no unknown dependency,
no id twice and no cycle, whatever is filled in. Every string and every list of the schema is bounded.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.execution.packing import GOAL, PLAN, REST, Part, pack
from actors.tasks.execution.role_call import asked, shown_here
from actors.tasks.model import (
    Catalogue,
    ExecutableInfo,
    NoCapableWorkerError,
    Plan,
    Task,
    as_call,
    ask,
    recognised_model,
)
from actors.tasks.planning.planners import SLOT, ReplanFeedback, as_plan, require_no_code
from actors.validation.validation_messages import value_phrase

_INSTRUCTION_CHARS: Final = 300
"""Characters of an instruction in a slot, at most."""
_MOST_SLOTS: Final = 50
_TOOLS_ONLY: Final = "There are only tools that need arguments, which slots have not. Add an agent that calls them"


class ModelPlanner:
    """Asks a model for the plan.

    Args:
        call: ``call(prompt, schema) -> JSON``, sync or async: text, bytes or a dict, or ``(answer, Usage)``. ``schema``
            is the JSON schema of a plan (``plan_schema``). Or a model: a pydantic-ai model, its name
            (``"openai:gpt-..."``), a pydantic-ai ``Agent``, a chat model of LangChain.
        slots: subtasks that a plan may have, as slots ``s1`` to ``sn`` in which a wrong plan cannot be written: for
            small models. None: any plan.

    Raises:
        ConfigError: ``slots`` is no number from 1 to 50.
    """

    def __init__(self, call: Any, *, slots: int | None = None) -> None:
        if slots is not None and (type(slots) is not int or not 1 <= slots <= _MOST_SLOTS):
            what = f"expected a number from 1 to {_MOST_SLOTS}, got {value_phrase(slots)}"
            raise ConfigError((Problem("ModelPlanner.slots", what, "Give the most subtasks that a plan may have."),))
        self.call = as_call(call)
        self.slots = slots

    async def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:
        """Return the model's answer as a plan; raises ``InvalidAnswerError`` if it is none."""
        plan = await asked(partial(self._ask, task, catalogue, feedback), as_plan)
        for subtask in plan.subtasks:
            require_no_code(subtask)
        return plan

    def _ask(self, task: Task, catalogue: Catalogue, feedback: str) -> Any:
        """Call the model, and return its answer or an awaitable of it.

        Raises:
            NoCapableWorkerError: there are slots, and no worker to fill in.
        """
        schema = plan_schema(catalogue, self.slots, feedback)
        if self.slots is None:
            rules = _RULES
            if recognised_model(self.call) is None:  # else the framework holds the model to the schema
                rules = f"JSON schema of the plan:\n{json.dumps(schema)}\n\n{_RULES}"
        else:
            if not (fit := _fit_for_slots(catalogue)):
                raise NoCapableWorkerError(task=task.id or "?", hint=_TOOLS_ONLY if catalogue else "")
            catalogue, names = fit, _slot_names(self.slots, feedback)
            rules = _SLOT_RULES.format(names=", ".join(names), example=_example(task, catalogue, names))
        return ask(self.call, _prompt(task, catalogue, feedback, rules), schema)


def plan_schema(catalogue: Catalogue, slots: int | None = None, feedback: str = "") -> dict[str, Any]:
    """Return the JSON schema that a plan of a model is held to.

    Args:
        catalogue: rows of the workers that a plan may name.
        slots: how many subtasks a plan may have; None: any plan.
        feedback: as the planner got it. After a failure it says which ids are taken, and what is done.
    """
    if slots is None:
        return Plan.model_json_schema()
    workers = [row.id for row in _fit_for_slots(catalogue)]
    earlier = list(feedback.done) if isinstance(feedback, ReplanFeedback) else []
    filled: dict[str, Any] = {}
    for name in _slot_names(slots, feedback):
        slot: dict[str, Any] = {
            "instruction": {"type": "string", "minLength": 1, "maxLength": _INSTRUCTION_CHARS},
            "worker": {"type": "string", "enum": workers},
        }
        if earlier:  # some models cannot be held to a list that is always empty
            items = {"type": "string", "enum": list(earlier)}
            slot["needs"] = {"type": "array", "items": items, "maxItems": len(earlier)}
        filled[name] = {"anyOf": [object_schema(slot), {"type": "null"}]} if filled else object_schema(slot)
        earlier.append(name)
    return {"title": "plan", **object_schema(filled)}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of an object that has all of these properties, and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _fit_for_slots(catalogue: Catalogue) -> Catalogue:
    """Return the rows of the workers for whom an instruction is enough: a slot names no tool, and has no inputs."""
    few = (row for row in catalogue if len(row.tools or ()) <= 1)
    return tuple(row for row in few if not any((one.input_schema or {}).get("required") for one in row.tools or ()))


def _slot_names(slots: int, feedback: str) -> list[str]:
    """Return the names of the slots: ``s1`` to ``sn``, after those that the last plan has used."""
    known = (*feedback.done, *feedback.failed, *feedback.skipped) if isinstance(feedback, ReplanFeedback) else ()
    used = max((int(name[1:]) for name in known if SLOT.fullmatch(name)), default=0)
    return [f"s{used + n}" for n in range(1, slots + 1)]


# -- the prompt --------------------------------------------------------------------------------------------------

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


def _prompt(task: Task, catalogue: Catalogue, feedback: str, rules: str) -> str:
    """Return the text that a model is given for a plan. It is packed into ``context_tokens``."""
    if feedback and not isinstance(feedback, ReplanFeedback):
        feedback = f"Your last plan was refused. Correct all of this:\n{feedback}"
    inputs = "\n".join(f"{json.dumps(name)}: {_beginning(value)}" for name, value in task.inputs.items())
    rows = json.dumps([_described(row) for row in catalogue], ensure_ascii=False, indent=1, default=_as_json)
    known = [
        Part("Goal:", task.goal, GOAL),
        Part("Inputs, which every subtask sees:", inputs, REST),
        Part("Catalogue:", rows, PLAN),
    ]
    told = Part("", feedback, PLAN)
    pack([*known, told], shown_here()[0])
    shown = [f"{part.title}\n{part.text}" for part in known if part.text]
    begin = "Plan how this goal is reached by the workers of the catalogue."
    return "\n\n".join(filter(None, [begin, *shown, rules, told.text]))


def _example(task: Task, catalogue: Catalogue, slots: list[str]) -> str:
    """Return slots that are filled in for this goal: a small model copies what it is shown."""
    goal = " ".join(task.goal[:_GOAL_CHARS].split())
    filled: dict[str, Any] = dict.fromkeys(slots)
    for n, name in enumerate(slots[:2]):
        filled[name] = {"instruction": f"Part {n + 1} of: {goal}", "worker": catalogue[n % len(catalogue)].id}
        if n:
            filled[name]["needs"] = [slots[0]]
    return json.dumps(filled)


def _beginning(value: object) -> str:
    """Return a value as JSON, or the beginning of a large one."""
    said = json.dumps(value, ensure_ascii=False)
    return said if len(said) <= _VALUE_CHARS else f"{said[:_VALUE_CHARS]} ... ({len(said):,} characters)"


_SHOWN: Final = (
    "id", "type", "description", "capabilities", "consumes", "produces", "input_schema", "output_schema", "estimate"
)  # fmt: skip
"""Fields of a worker's row that a model is shown."""


def _described(row: ExecutableInfo) -> dict[str, Any]:
    said = {name: getattr(row, name) for name in _SHOWN}
    said["tools"] = [{"name": one.name, "description": one.description} for one in row.tools or ()]
    said["members"] = [{"id": one.id, "description": one.description} for one in row.members]
    # An estimate that is a function is asked about a subtask, and there is none yet.
    return {name: value for name, value in said.items() if value and not callable(value)}


def _as_json(value: Any) -> Any:
    return sorted(value) if isinstance(value, frozenset) else value.model_dump(exclude_none=True)
