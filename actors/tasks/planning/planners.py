"""The planners that are shipped, a fixed graph and a model, and what any planner may return.

Those for words and for capabilities have files of their own: ``keyword_planner``, ``capability_planner``.

Comes in: a task, the catalogue of those who are there, and what was wrong with the last plan. Goes out: a plan, which
``actors.tasks.planning.plan_validation`` compares with the tree. Nothing here keeps anything between two plans. This
module must never import threads, a clock or Pykka.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from actors.model.errors import ConfigError, Problem
from actors.tasks.model.answer_text import json_in
from actors.tasks.model.executable import Catalogue
from actors.tasks.model.model_call import answer_of, as_call, ask, name_of_call, recognised_model
from actors.tasks.model.task import Budget, Plan, Subtask, Task
from actors.tasks.model.task_errors import NoCapableWorkerError
from actors.tasks.planning.capability_planner import CapabilityPlanner
from actors.tasks.planning.keyword_planner import KeywordPlanner
from actors.tasks.planning.plan_schema import (
    MOST_SLOTS,
    fit_for_slots,
    is_slots,
    plan_of_slots,
    plan_schema,
    slot_names,
)
from actors.tasks.planning.planner_prompt import planner_prompt
from actors.validation.validation_messages import type_phrase, value_phrase

__all__ = ["CapabilityPlanner", "InvalidPlanError", "KeywordPlanner", "ModelPlanner", "StaticPlan", "as_plan"]


class InvalidPlanError(ConfigError, ValueError):
    """The answer of a model is no plan; ``problems`` and the text say why, in words that a model can be told."""

    def __str__(self) -> str:
        return "expected a plan:" + "".join(f"\n  {problem}" for problem in self.problems)


# -- a fixed graph -----------------------------------------------------------------------------------------------


class StaticPlan:
    """Planner with one graph for every task; subtasks without an instruction get the goal as theirs."""

    def __init__(self, subtasks: Iterable[Subtask]) -> None:
        given: Any = subtasks  # a plan takes any of them, and refuses what is none
        self.fixed = Plan(given)

    def __repr__(self) -> str:
        return f"StaticPlan({', '.join(subtask.id for subtask in self.fixed.subtasks)})"

    def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:  # noqa: ARG002 - it is fixed
        """The plan."""
        return self.fixed


# -- a model -----------------------------------------------------------------------------------------------------


class ModelPlanner:
    """Asks a model for the plan.

    Args:
        call: ``call(prompt, schema) -> JSON``, sync or async: text, bytes or a dict, or ``(answer, Usage)``. ``schema``
            is the JSON schema of a plan (``plan_schema``). Or a model: a pydantic-ai model, its name
            (``"openai:gpt-..."``), a pydantic-ai ``Agent``, a chat model of LangChain.
        slots: subtasks that a plan may have, as slots ``s1`` to ``sn`` in which a wrong plan cannot be written: for
            small models. None: any plan.
    """

    def __init__(self, call: Any, *, slots: int | None = None) -> None:
        whole = isinstance(slots, int) and not isinstance(slots, bool)
        if slots is not None and not (whole and 1 <= slots <= MOST_SLOTS):
            what = f"expected a number from 1 to {MOST_SLOTS}, got {value_phrase(slots)}"
            raise ConfigError((Problem("ModelPlanner.slots", what, "Give the most subtasks that a plan may have."),))
        self.call = as_call(call)
        self.slots = slots

    def __repr__(self) -> str:
        more = "" if self.slots is None else f", slots={self.slots}"
        return f"ModelPlanner({name_of_call(self.call)}{more})"

    async def plan(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Plan:
        """Return the model's answer, as a plan; raises ``InvalidPlanError`` where it is none."""
        answer = self.ask(task, catalogue, feedback)
        return self.read(answer_of(await answer if inspect.isawaitable(answer) else answer))

    def ask(self, task: Task, catalogue: Catalogue, feedback: str = "") -> Any:
        """The first half of ``plan``: what the model is called with; its answer, or an awaitable of that.

        Raises:
            NoCapableWorkerError: there are slots, and nobody to fill in.
        """
        if self.slots is None:
            told = None if recognised_model(self.call) is not None else plan_schema(catalogue)  # they are held to it
            prompt = self.prompt(task, catalogue, feedback, told)
        elif fit := fit_for_slots(catalogue):
            prompt = planner_prompt(task, fit, feedback, slot_names(self.slots, feedback))
        else:
            raise NoCapableWorkerError((), (), task=task.id or "?", hint=_TOOLS_ONLY if catalogue else "")
        return ask(self.call, prompt, plan_schema(catalogue, self.slots, feedback))

    @staticmethod
    def read(answer: object) -> Plan:
        """The second half: the answer as a plan."""
        plan = as_plan(answer)
        if code := tuple(problem for subtask in plan.subtasks for problem in _names_code(subtask)):
            raise InvalidPlanError(code)
        return plan

    @staticmethod
    def prompt(task: Task, catalogue: Catalogue, feedback: str = "", schema: dict[str, Any] | None = None) -> str:
        """Return the text that the model is given; a ``schema`` of the plan stands in it."""
        return planner_prompt(task, catalogue, feedback, schema=schema)


# -- what a planner returned -------------------------------------------------------------------------------------

_TOOLS_ONLY: Final = "There are only tools that need arguments, which slots have not. Add an agent that calls them"
_HINT: Final = 'Answer with {"subtasks": [{"id": ..., "instruction": ..., "worker": ...}]}.'


_MOST_PROBLEMS: Final = 50
"""Problems of one plan that a model is told, at most."""


def as_plan(value: object) -> Plan:
    """Return what a planner returned, as a plan: a ``Plan``, a list of subtasks, a dict, or the JSON of one.

    What is no ``Subtask`` is data, and names no code that would be imported (``undo="module:attr"``).

    Raises ``InvalidPlanError`` with every problem of it, and ``TypeError`` for anything else.
    """
    if isinstance(value, Plan):
        return value
    if isinstance(value, (str, bytes, bytearray)):
        value = _parsed(value)
    if is_slots(value):
        value = plan_of_slots(value)
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
        if len(problems) >= _MOST_PROBLEMS:
            left = len(entries) - 1 - n
            problems += [Problem("plan", f"{left:,} more subtasks were not read", _HINT)] if left else []
            break
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
