"""Types of the fields of a declaration that say what a worker offers: its code, and the rules of its attempts.

Comes in: whatever a user wrote. Goes out: the value in the form in which a spec keeps it, or a refusal in our words.
Nothing here runs, imports or inspects the user's code. This module must never import the specs themselves, threads, a
clock or Pykka.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, InstanceOf, PlainValidator

from actors import fields
from actors.errors import ConfigError
from actors.problems import kind, refusal, refusals, shown
from actors.tasks.adapters import is_executable
from actors.tasks.policy import Breaker
from actors.tasks.settings import LadderField
from actors.tasks.task import Budget

TEAM_FIELDS = ("capabilities", "timeout_s", "idle_timeout_s", "on_failure", "breaker", "backup", "undo", "estimate")
"""Fields that only have a meaning for a supervisor with an orchestrator."""

TASK_FIELDS = ("type", "output", *TEAM_FIELDS)
"""Fields that only have a meaning for a worker that can be given work."""


def execute_flaw(value: object) -> tuple[str, str] | None:
    """Why a value is nothing for ``execute=``, as (what, hint); None if it may be."""
    if is_executable(value):
        return None
    if isinstance(value, type):
        return f"{kind(value)} has no method execute", "Add execute(self, task, context), or give a function."
    hint = "Give a function of (task, context), an object with a method execute, or an agent with invoke or run."
    if inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value):
        hint = "Give the function itself, without calling it."
    return f"{kind(value)} can neither be called nor has it a method execute, invoke or run", hint


def _execute(value: object) -> object:
    flaw = None if value is None or isinstance(value, str) else execute_flaw(value)
    if flaw is not None:
        raise refusal(*flaw)
    return value


def _capabilities(value: object) -> frozenset[str]:
    hint = "Write {'search', 'summarize'}."
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise refusal(f"{shown(value)} is no set of words", hint)
    words = list(value)
    wrong = next((word for word in words if not isinstance(word, str) or not word.strip()), None)
    if wrong is not None:
        raise refusal(f"{shown(wrong)} is no capability", hint)
    return frozenset(words)


def _output(value: object) -> object:
    if isinstance(value, str):
        raise refusal("a str is no type", "Give the type itself, such as a pydantic model, dict[str, int] or bool.")
    return value


def _undo(value: object) -> object:
    if value is None or isinstance(value, str) or callable(value):
        return value
    hint = "Give a function of (task, result, context), 'module:attr', or the id of a sibling."
    raise refusal(f"{kind(value)} cannot be called", hint)


def _estimate(value: object) -> object:
    if value is None or isinstance(value, Budget) or callable(value):
        return value
    hint = "Give tokens as a number, Budget(tokens=, cost=, seconds=), a dict of these, or a function of the subtask."
    if isinstance(value, Mapping):
        return _budget(value, hint)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(f"{kind(value)} is no estimate", hint)
    if not (value >= 0 and math.isfinite(value)):
        raise refusal(f"{shown(value)} is out of range", hint)
    return value


def _budget(value: Mapping[Any, Any], hint: str) -> Budget:
    if not all(isinstance(key, str) for key in value):
        raise refusal("its keys are no words", hint)
    found: list[tuple[str, str, str]] = []
    try:
        return Budget(**value)
    except ConfigError as error:
        found = [(each.path.removeprefix("Budget"), each.what, each.hint) for each in error.problems]
    raise refusals(found)


def _type(value: str) -> str:
    return "workflow" if value == "skill" else value


ExecuteTarget: TypeAlias = Annotated[Any, PlainValidator(_execute), fields.WORK]
TypeWord: TypeAlias = Annotated[Literal["tool", "workflow", "skill", "agent"], AfterValidator(_type)]
"""Skill is another word for workflow, and is kept as that."""
Capabilities: TypeAlias = Annotated[Collection[str], PlainValidator(_capabilities)]
"""Any iterable of words, kept as a frozenset."""
Output: TypeAlias = Annotated[Any, PlainValidator(_output)]
OnFailure: TypeAlias = LadderField | None
BreakerField: TypeAlias = InstanceOf[Breaker] | None
Backup: TypeAlias = fields.Id | None
Undo: TypeAlias = Annotated[Callable[..., Any] | str | None, PlainValidator(_undo)]
Estimate: TypeAlias = Annotated[
    float | Budget | Mapping[str, float] | Callable[..., Any] | None, PlainValidator(_estimate)
]
