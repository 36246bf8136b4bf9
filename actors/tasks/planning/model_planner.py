"""A model as planner, and the JSON schema that its answer is held to.

A small model cannot keep a graph in order by itself. With ``slots=3`` it fills in the slots ``s1``, ``s2`` and ``s3``:
each has a worker of the catalogue and needs only slots before it. So there is no unknown worker, no unknown dependency,
no id twice and no cycle, whatever is filled in. Every string and every list of the schema is bounded. Pure.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.model_call import answer_of, as_call, ask, name_of_call, recognised_model
from actors.tasks.model.task import Plan, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.planner_prompt import planner_prompt
from actors.tasks.planning.planners import SLOT, as_plan, refuse_code
from actors.tasks.planning.replanning import ReplanFeedback
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
        """Return the model's answer as a plan; raises ``InvalidPlanError`` if it is none."""
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
            prompt = planner_prompt(task, fit, feedback, _slot_names(self.slots, feedback))
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
        return planner_prompt(task, catalogue, feedback, schema=schema)


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
