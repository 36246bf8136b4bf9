"""The planners that are shipped, a fixed graph and a model, and what any planner may return.

Those for words and for capabilities have files of their own: ``keyword_planner``, ``capability_planner``.

Comes in: a task, the catalogue of those who are there, and what was wrong with the last plan. Goes out: a plan, which
``actors.tasks.planning.plan_validation`` compares with the tree. Nothing here keeps anything between two plans. This
module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.answer_text import json_in
from actors.tasks.model.executable import Catalogue, ExecutableInfo
from actors.tasks.model.task import Budget, Plan, Subtask, Task
from actors.tasks.planning.capability_planner import CapabilityPlanner
from actors.tasks.planning.keyword_planner import KeywordPlanner
from actors.tasks.planning.replanning import ReplanFeedback
from actors.validation.validation_messages import type_phrase

__all__ = ["CapabilityPlanner", "InvalidPlanError", "KeywordPlanner", "ModelPlanner", "StaticPlan", "as_plan"]


class InvalidPlanError(ConfigError, ValueError):
    """The answer of a model is no plan; ``problems`` and the text say why, in words that a model can be told."""

    def __str__(self) -> str:
        return "expected a plan:" + "".join(f"\n  {problem}" for problem in self.problems)


# -- a fixed graph -----------------------------------------------------------------------------------------------


class StaticPlan:
    """Planner with one graph for every task; subtasks without an instruction get the goal as theirs."""

    def __init__(self, subtasks: Iterable[Subtask]) -> None:
        self.fixed = Plan(list(subtasks))

    def __repr__(self) -> str:
        return f"StaticPlan({', '.join(subtask.id for subtask in self.fixed.subtasks)})"

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:  # noqa: ARG002 - it is fixed
        """The plan."""
        return self.fixed


# -- a model -----------------------------------------------------------------------------------------------------

_RULES: Final = """Rules of a plan:
- Use only workers and capabilities of the catalogue. Each subtask names one worker or one capability.
- Ids are unique, of letters, digits, '_', '.' and '-'.
- depends_on lists the ids of the subtasks whose results it needs, and no others: what does not need the results of
  another one runs at the same time as it. No cycles.
- As few subtasks as the goal takes; each instruction can be understood by itself.
- Give timeouts in seconds, and leave out every field that you have no reason to set.
Answer with the JSON of the plan alone."""


class ModelPlanner:
    """Asks a model for the plan.

    Args:
        call: ``call(prompt, schema) -> JSON``, sync or async; text, bytes or a dict. ``schema`` is the JSON schema
            of a plan.
    """

    def __init__(self, call: Callable[[str, dict[str, Any]], Any]) -> None:
        self.call = call

    def __repr__(self) -> str:
        return f"ModelPlanner({_name(self.call)})"

    async def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:
        """Return the model's answer, as a plan; raises ``InvalidPlanError`` where it is none."""
        answer = self.ask(task, catalogue, feedback)
        return self.read(await answer if inspect.isawaitable(answer) else answer)

    def ask(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Any:
        """The first half of ``plan``: what the model is called with; its answer, or an awaitable of that."""
        return self.call(self.prompt(task, catalogue, feedback), Plan.model_json_schema())

    @staticmethod
    def read(answer: object) -> Plan:
        """The second half: the answer as a plan."""
        plan = as_plan(answer)
        if code := tuple(problem for subtask in plan.subtasks for problem in _names_code(subtask)):
            raise InvalidPlanError(code)
        return plan

    @staticmethod
    def prompt(task: Task, catalogue: Catalogue, feedback: str = "") -> str:
        """Return the text that the model is given."""
        parts = [
            "Plan how this goal is reached by the workers of the catalogue.",
            f"Goal:\n{task.goal}",
            f"Inputs, which every subtask sees:\n{_json(task.inputs)}" if task.inputs else "",
            f"Catalogue:\n{_json([_described(row) for row in catalogue])}",
            _RULES,
            feedback if isinstance(feedback, ReplanFeedback) else _refused(feedback),
        ]
        return "\n\n".join(part for part in parts if part)


def _refused(feedback: str) -> str:
    return f"Your last plan was refused. Mend all of this:\n{feedback}" if feedback else ""


def _name(code: object) -> str:
    """Only the name: a partial or a bound method would show what is bound."""
    return str(getattr(code, "__qualname__", type_phrase(code)))


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
        "members": [{"id": one.id, "description": one.description} for one in row.members],
    }
    if isinstance(row.estimate, (int, float)) and not isinstance(row.estimate, bool):
        said["estimated_tokens"] = row.estimate
    return {name: value for name, value in said.items() if value not in ("", [], None)}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=lambda one: f"<{type(one).__qualname__}>")


# -- what a planner returned -------------------------------------------------------------------------------------

_HINT: Final = 'Answer with {"subtasks": [{"id": ..., "instruction": ..., "worker": ...}]}.'


def as_plan(value: object) -> Plan:
    """Return what a planner returned, as a plan: a ``Plan``, a list of subtasks, a dict, or the JSON of one.

    What is no ``Subtask`` is data, and names no code that would be imported (``undo="module:attr"``).

    Raises ``InvalidPlanError`` with every problem of it, and ``TypeError`` for anything else.
    """
    if isinstance(value, Plan):
        return value
    if isinstance(value, (str, bytes, bytearray)):
        value = _parsed(value)
    if isinstance(value, Mapping):
        odd = sorted(str(key) for key in value if key != "subtasks")
        if odd or "subtasks" not in value:
            what = f"has {len(odd)} fields that are not 'subtasks'" if odd else "has no 'subtasks'"
            raise InvalidPlanError((Problem("plan", what, _HINT),))
        value = value["subtasks"]
        if not isinstance(value, (list, tuple)):
            raise InvalidPlanError(
                (Problem("plan.subtasks", f"expected a list of subtasks, got {type_phrase(value)}", _HINT),)
            )
    if not isinstance(value, (list, tuple)):
        raise TypeError(
            f"a planner returned {type_phrase(value)}. Return a Plan, a list of Subtask, or the JSON of a plan: "
            "return Plan([Subtask('first', 'what is to be done', worker='the id of a worker')])."
        )
    return _checked(value)


def _parsed(text: str | bytes | bytearray) -> object:
    size = len(text)
    try:
        value = json_in(text)
    except ValueError as error:
        where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
        raise InvalidPlanError((Problem("plan", f"{size} characters that are no JSON{where}", _HINT),)) from None
    if not isinstance(value, (dict, list)):
        raise InvalidPlanError((Problem("plan", f"the JSON of {type_phrase(value)}, not of an object", _HINT),))
    return value


def _checked(entries: list[Any] | tuple[Any, ...]) -> Plan:
    problems: list[Problem] = []
    made = []
    for n, entry in enumerate(entries):
        if isinstance(entry, Subtask):
            made.append(entry)
        elif isinstance(entry, Mapping):
            try:
                made.append(_of_data(entry))
            except ConfigError as error:
                problems += [Problem(f"subtasks[{n}] {one.path}", one.what, one.hint) for one in error.problems]
        else:
            problems.append(Problem(f"subtasks[{n}]", f"expected a subtask, got {type_phrase(entry)}", _HINT))
    if problems:
        raise InvalidPlanError(tuple(problems))
    return Plan(made)


def _of_data(entry: Mapping[Any, Any]) -> Subtask:
    """Data may come from a model, whoever hands it on; a planner's own code gives a ``Subtask``."""
    subtask = _subtask(entry)
    if code := _names_code(subtask):
        raise ConfigError(code)
    return subtask


def _names_code(subtask: Subtask) -> tuple[Problem, ...]:
    """Refuse an import string in a text: it must not choose what is imported and called."""
    if subtask.undo is None or ":" not in subtask.undo:
        return ()
    hint = "Name a worker, or leave it out; code is named by a Subtask that the planner's own code makes."
    return (Problem(f"{subtask.id}.undo", "a model may name no code", hint),)


def _subtask(entry: Mapping[Any, Any]) -> Subtask:
    """A field that is null counts as not given."""
    data = {str(name): value for name, value in entry.items() if value is not None}
    for name in ("budget", "estimate"):
        if isinstance(data.get(name), Mapping):
            data[name] = Budget(**{str(unit): amount for unit, amount in data[name].items()})
    return Subtask(**data)


SHIPPED: Final[frozenset[type]] = frozenset({KeywordPlanner, CapabilityPlanner, StaticPlan})


_MOST_INLINE: Final = 50_000
"""Characters of the goal times workers: a few hundredths of a second."""


def is_inline(planner: object, task: Task | None = None, catalogue: Catalogue = ()) -> bool:
    """True for those of ours that run no code of others and are quick: they need no worker of their own.

    A task and a catalogue that are so large that matching them takes long make it False.
    """
    if type(planner) not in SHIPPED or (isinstance(planner, CapabilityPlanner) and planner.needs is not None):
        return False
    return isinstance(planner, StaticPlan) or task is None or len(task.goal) * (len(catalogue) + 1) <= _MOST_INLINE
