"""A model as planner: the prompt that it is given, and the JSON schema that its answer is held to.

A small model cannot keep a graph in order by itself. With ``slots=3`` it fills in the slots ``s1``, ``s2`` and ``s3``:
each has a worker of the catalogue and needs only slots before it. So there is no unknown worker, no unknown dependency,
no id twice and no cycle, whatever is filled in. Every string and every list of the schema is bounded. Pure.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.execution.packing import GOAL, PLAN, REST, Part, pack, shown_here
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.model_call import answer_of, as_call, ask, name_of_call, recognised_model
from actors.tasks.model.task import Budget, Plan, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.planners import SLOT, ReplanFeedback, as_plan, refuse_code
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
        is_number = isinstance(slots, int) and not isinstance(slots, bool)
        if slots is not None and not (is_number and 1 <= slots <= _MOST_SLOTS):
            what = f"expected a number from 1 to {_MOST_SLOTS}, got {value_phrase(slots)}"
            raise ConfigError((Problem("ModelPlanner.slots", what, "Give the most subtasks that a plan may have."),))
        self.call = as_call(call)
        self.slots = slots

    def __repr__(self) -> str:
        more = "" if self.slots is None else f", slots={self.slots}"
        return f"ModelPlanner({name_of_call(self.call)}{more})"

    async def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:
        """Return the model's answer as a plan; raises ``InvalidAnswerError`` if it is none."""
        answer = self.ask(task, catalogue, feedback)
        return self.read(answer_of(await answer if inspect.isawaitable(answer) else answer))

    def ask(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Any:
        """Call the model, and return its answer or an awaitable of it: the first half of ``plan``.

        Raises:
            NoCapableWorkerError: there are slots, and no worker to fill in.
        """
        schema = plan_schema(catalogue, self.slots, feedback)
        if self.slots is None:
            is_held = recognised_model(self.call) is not None  # the framework holds the model to the schema
            prompt = self.prompt(task, catalogue, feedback, None if is_held else schema)
        elif fit := _fit_for_slots(catalogue):
            prompt = _prompt(task, fit, feedback, _slot_names(self.slots, feedback))
        else:
            raise NoCapableWorkerError((), (), task=task.id or "?", hint=_TOOLS_ONLY if catalogue else "")
        return ask(self.call, prompt, schema)

    @staticmethod
    def read(answer: object) -> Plan:
        """Return the answer as a plan: the second half of ``plan``."""
        plan = as_plan(answer)
        for subtask in plan.subtasks:
            refuse_code(subtask)
        return plan

    @staticmethod
    def prompt(task: Task, catalogue: Catalogue, feedback: str = "", schema: dict[str, Any] | None = None) -> str:
        """Return the text that the model is given, with the ``schema`` in it if there is one."""
        return _prompt(task, catalogue, feedback, schema=schema)


def plan_schema(catalogue: Catalogue, slots: int | None = None, feedback: str = "") -> dict[str, Any]:
    """Return the JSON schema that a plan of a model is held to.

    Args:
        catalogue: rows of the workers that a plan may name.
        slots: how many subtasks a plan may have; None: any plan.
        feedback: as the planner got it. After a failure it says which ids are taken, and what is done.
    """
    if slots is None:
        return Plan.model_json_schema()
    names = _slot_names(slots, feedback)
    done = list(feedback.done) if isinstance(feedback, ReplanFeedback) else []
    workers = [row.id for row in _fit_for_slots(catalogue)]
    filled = [_slot(workers, [*done, *names[:n]]) for n in range(slots)]
    return _object(
        {
            names[0]: filled[0],
            **{name: {"anyOf": [slot, {"type": "null"}]} for name, slot in zip(names[1:], filled[1:], strict=True)},
        }
    ) | {"title": "plan"}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _slot(workers: list[str], earlier: list[str]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "instruction": {"type": "string", "minLength": 1, "maxLength": _INSTRUCTION_CHARS},
        "worker": {"type": "string", "enum": workers},
    }
    if earlier:  # some models cannot be held to a list that is always empty
        items = {"type": "string", "enum": earlier}
        properties["needs"] = {"type": "array", "items": items, "maxItems": len(earlier)}
    return _object(properties)


def _fit_for_slots(catalogue: Catalogue) -> Catalogue:
    """Return the rows of the workers for whom an instruction is enough: a slot names no tool, and has no inputs."""

    def is_fit(row: ExecutableInfo) -> bool:
        tools = row.tools or ()
        return not tools or (len(tools) == 1 and not (tools[0].input_schema or {}).get("required"))

    return tuple(filter(is_fit, catalogue))


def _slot_names(slots: int, feedback: str) -> tuple[str, ...]:
    """Return the names of the slots: ``s1`` to ``sn``, after those that the last plan has used."""
    used = [0]
    if isinstance(feedback, ReplanFeedback):
        known = (*feedback.done, *feedback.failed, *feedback.skipped)
        used += [int(name[1:]) for name in known if SLOT.fullmatch(name)]
    return tuple(f"s{max(used) + n}" for n in range(1, slots + 1))


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


def _prompt(
    task: Task,
    catalogue: Catalogue,
    feedback: str,
    slots: tuple[str, ...] = (),
    schema: Mapping[str, Any] | None = None,
) -> str:
    """Return the text that a model is given for a plan. It is packed into ``context_tokens``.

    Args:
        task: what is to be planned.
        catalogue: the workers.
        feedback: why the last plan was refused, or has failed.
        slots: names of the slots that the model fills in.
        schema: JSON schema of the plan. None: the call holds the model to the schema.
    """
    wrong = feedback
    if feedback and not isinstance(feedback, ReplanFeedback):
        wrong = f"Your last plan was refused. Correct all of this:\n{feedback}"
    inputs = "\n".join(f"{_json(name)}: {_beginning(value)}  ({_kind(value)})" for name, value in task.inputs.items())
    known = [
        Part("Goal:", task.goal, GOAL),
        Part("Inputs, which every subtask sees:", inputs, REST),
        Part("Catalogue:", _json([_described(row) for row in catalogue], indent=1), PLAN),
    ]
    told = Part("", wrong, PLAN)
    pack([*known, told], shown_here().tokens)
    parts = [
        "Plan how this goal is reached by the workers of the catalogue.",
        *(f"{part.title}\n{part.text}" for part in known if part.text),
        f"JSON schema of the plan:\n{json.dumps(schema)}" if schema is not None else "",
        _SLOT_RULES.format(names=", ".join(slots), example=_example(task, catalogue, slots)) if slots else _RULES,
        told.text,
    ]
    return "\n\n".join(part for part in parts if part)


def _example(task: Task, catalogue: Catalogue, slots: tuple[str, ...]) -> str:
    """Return slots that are filled in for this goal: a small model copies what it is shown."""
    goal = " ".join(task.goal[:_GOAL_CHARS].split())
    filled: dict[str, Any] = dict.fromkeys(slots)
    for n, name in enumerate(slots[:2]):
        filled[name] = {"instruction": f"Part {n + 1} of: {goal}", "worker": catalogue[n % len(catalogue)].id}
        if n:
            filled[name]["needs"] = [slots[0]]
    return json.dumps(filled)


def _kind(value: object) -> str:
    if isinstance(value, (str, list, tuple, dict)):
        kind, unit = ("text", "characters") if isinstance(value, str) else ("object", "fields")
        return f"list of {len(value):,}" if isinstance(value, (list, tuple)) else f"{kind} of {len(value):,} {unit}"
    return "null" if value is None else "boolean" if isinstance(value, bool) else "number"


def _beginning(value: object) -> str:
    """Return a value as JSON, or the beginning of a large one."""
    said = _json(value[: _VALUE_CHARS + 1] if isinstance(value, str) else value)
    return said if len(said) <= _VALUE_CHARS else f"{said[:_VALUE_CHARS]} ..."


def _described(row: ExecutableInfo) -> dict[str, Any]:
    said: dict[str, Any] = {
        **{name: getattr(row, name) for name in ("id", "type", "description", "input_schema", "output_schema")},
        **{name: sorted(getattr(row, name)) for name in ("capabilities", "consumes", "produces")},
        "tools": [{"name": one.name, "description": one.description} for one in row.tools or ()],
        "members": [{"id": one.id, "description": one.description} for one in row.members],
    }
    if isinstance(row.estimate, Budget):
        said |= {f"estimated_{name}": getattr(row.estimate, name) for name in ("tokens", "cost", "seconds")}
    elif isinstance(row.estimate, (int, float)):  # a function is asked about a subtask, and there is none yet
        said["estimated_tokens"] = row.estimate
    return {name: value for name, value in said.items() if value not in ("", [], None)}


def _json(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent, default=lambda one: f"<{type(one).__qualname__}>")
